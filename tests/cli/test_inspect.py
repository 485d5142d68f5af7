from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.doubles.full_size_k3 import K3, write_full_size_k3


@pytest.fixture(scope="module")
def k3(tmp_path_factory):
    return write_full_size_k3(tmp_path_factory.mktemp("k3") / "k3.gguf", K3(tokens=100, tensors_per_file=900))


@pytest.fixture
def k3prof(repository):
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from k3prof.cli.main import main; main()", "inspect", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(repository)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    return run


def test_a_model_is_taken_apart_on_stdout(k3prof, k3):
    ran = k3prof(k3, "--bandwidth", "A40")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("Kimi K3 (kimi-k3)\n")
    assert "3 files" in ran.stdout


def test_all_options_reach_the_figures(k3prof, k3):
    options = ["--depth", 1000, "--batch", 2, "--experts-used", 8, "--cache-type", "q8_0", "--bandwidth", 500]
    ran = k3prof(k3, "--format", "json", *options)
    found = json.loads(ran.stdout)
    asked = found["pass"]
    assert (asked["tokens"], asked["sequences"], asked["depth"], asked["cache_type_k"]) == (2, 2, 1000, "q8_0")
    assert found["model"]["experts_used"] == 8
    assert found["model"]["kv_bytes_per_token"] == 24 * 576 // 32 * 34
    assert asked["kv_read_and_written_bytes"] == (2 * 1000 + 2 + 2) * 24 * 576 // 32 * 34
    assert found["ceilings"][0]["devices"][0]["bandwidth_gb_per_s"] == 500


def test_markdown_is_printed(k3prof, k3):
    assert k3prof(k3, "--format", "md").stdout.startswith("# Kimi K3")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["nowhere.gguf"], "error: nowhere.gguf: no such file", ""),
        (["demo:nothing"], "error: ", "hint: "),
        (["K3", "--bandwidth", "A4"], "neither a number nor a GPU", "hint: did you mean A40?"),
        (["K3", "--cache-type", "q9"], "cache type 'q9' is unknown", "hint: use one of"),
        (["K3", "--experts-used", "897"], "897 of 896 cannot be chosen", ""),
    ],
)
def test_wrong_input_is_one_message_and_exit_code_2(k3prof, k3, arguments, error, hint):
    ran = k3prof(*(k3 if argument == "K3" else argument for argument in arguments))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert error in ran.stderr
    assert hint in ran.stderr
    assert "Traceback" not in ran.stderr
