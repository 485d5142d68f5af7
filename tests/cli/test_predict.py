from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.doubles.full_size_k3 import K3, Quant, write_full_size_k3


@pytest.fixture(scope="module")
def k3(tmp_path_factory):
    return write_full_size_k3(
        tmp_path_factory.mktemp("k3") / "k3.gguf", K3(experts=448, trunk=Quant.Q4_K, tokens=100, tensors_per_file=900)
    )


@pytest.fixture
def folder(tmp_path, k3):
    experiment = tmp_path / "a40"
    experiment.mkdir()
    (experiment / "sweep.toml").write_text(f'model = "{k3}"\nworkloads = ["tg128"]\n[flags]\nctx-size = 16384\n')
    (experiment / "even.toml").write_text("")
    (experiment / "host.toml").write_text("[flags]\nn-cpu-moe = 86\n")
    return experiment


@pytest.fixture
def k3prof(repository, tmp_path):
    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", "from k3prof.cli.main import main; main()", "predict", *map(str, arguments)]
        environment = {**os.environ, "PYTHONPATH": str(repository), "XDG_CACHE_HOME": str(tmp_path / "cache")}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    return run


def test_placements_are_predicted_for_a_rig_that_is_not_here(k3prof, folder):
    ran = k3prof(folder, "--rig", "5xA40")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.startswith("5xA40: 5× A40\n")
    words = " ".join(ran.stdout.split())
    assert "even too big" in words
    assert "host fits" in words
    assert "n-cpu-moe-lopsided" in words


def test_json_is_all_that_is_on_stdout(k3prof, folder):
    ran = k3prof(folder, "--rig", "5xA40", "--format", "json", "--only", "host")
    assert [one["placement"] for one in json.loads(ran.stdout)["placements"]] == ["host"]


def test_markdown_is_printed(k3prof, folder):
    assert k3prof(folder, "--rig", "5xA40", "--format", "md").stdout.startswith("# Predicted: 5xA40")


@pytest.mark.parametrize(
    ("arguments", "error", "hint"),
    [
        (["--rig", "5xA41"], "error: --rig '5xA41': no GPU in the table is called 'A41'", "hint: did you mean A40?"),
        (["--rig", "none.toml"], "error: none.toml: No such file", "hint: "),
        (["--rig", "5xA40", "--only", "x"], "error: --only: no placement is named 'x'", "hint: there are: even, host"),
        (["--rig", "5xA40", "--model", "no.gguf"], "error: no.gguf: no such file", ""),
        (["--rig", "5xA40", "--build", "mine"], "error: no build is called 'mine'", "hint: "),
    ],
)
def test_what_is_wrong_is_said_in_words(k3prof, folder, arguments, error, hint):
    ran = k3prof(folder, *arguments)
    assert ran.returncode == 2
    assert ran.stdout == ""
    assert ran.stderr.startswith(error)
    assert hint in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_rule_that_matches_nothing_is_named_with_file_and_key(k3prof, folder):
    (folder / "even.toml").write_text('[flags]\noverride-tensor = "experts=CPU"\n')
    ran = k3prof(folder, "--rig", "5xA40")
    assert ran.returncode == 2
    wanted = f"error: {folder}/even.toml: flags.override-tensor: 'experts=CPU' matches no tensor of this model\n"
    assert wanted in ran.stderr
