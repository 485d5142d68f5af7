"""`k3prof build` as it is typed."""

from __future__ import annotations

import json
import os
import pty
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

Run = subprocess.CompletedProcess[str]


@pytest.fixture
def env(tmp_path: Path, repository: Path) -> dict[str, str]:
    return {**os.environ, "XDG_CACHE_HOME": str(tmp_path / "cache"), "PYTHONPATH": str(repository), "COLUMNS": "120"}


@pytest.fixture
def llama_cpp(tmp_path: Path, repository: Path) -> Path:
    return Path(shutil.copytree(repository / "tests/doubles/fake_llama_cpp", tmp_path / "llama.cpp"))


PROGRAM = "from k3prof.cli.main import main; main()"


def k3prof(env: Mapping[str, str], *arguments: str) -> Run:
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], env=env, capture_output=True, text=True, check=False, timeout=120
    )


def test_a_build_is_made_and_listed(env: dict[str, str], llama_cpp: Path) -> None:
    made = k3prof(env, "build", "--source", str(llama_cpp), "--cmake", "GGML_NATIVE=OFF", "--name", "mine")
    assert made.returncode == 0, made.stderr
    assert made.stdout.split()[:3] == ["mine", "llama.cpp", "0.1.42-dev"]
    assert "GGML_NATIVE=OFF" in made.stdout
    assert "configuring" in made.stderr
    assert "compiling: 100 %" in made.stderr
    assert "\x1b" not in made.stderr

    listed = k3prof(env, "build", "list", "--format", "json")
    assert listed.returncode == 0
    (found,) = json.loads(listed.stdout)
    assert (found["name"], found["source"], found["missing"]) == ("mine", str(llama_cpp), [])
    assert "| mine |" in k3prof(env, "build", "list", "--format", "md").stdout


def test_an_existing_build_is_registered_without_compiling(env: dict[str, str], llama_cpp: Path) -> None:
    k3prof(env, "build", "--source", str(llama_cpp), "--name", "mine")
    (mine,) = json.loads(k3prof(env, "build", "list", "--format", "json").stdout)
    used = k3prof(env, "build", "--use", mine["bin_dir"], "--name", "theirs", "--format", "json")
    assert used.returncode == 0
    assert used.stderr == ""
    (theirs,) = json.loads(used.stdout)
    assert (theirs["name"], theirs["source"], theirs["sha256"]) == ("theirs", "registered", mine["sha256"])


def test_a_compiler_error_is_shown_before_the_message_and_ends_with_exit_code_1(
    env: dict[str, str], llama_cpp: Path
) -> None:
    (llama_cpp / "ggml.c").write_text("int ggml_answer(void) { return forty_two; }\n")
    failed = k3prof(env, "build", "--source", str(llama_cpp))
    assert (failed.returncode, failed.stdout) == (1, "")
    lines = failed.stderr.splitlines()
    error = next(index for index, line in enumerate(lines) if line.startswith("error: "))
    assert "forty_two" in lines[error]
    assert "return forty_two;" in "\n".join(lines[:error])
    assert lines[error + 1].startswith("hint: the whole log: ")
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--use", "absent"], "error: absent: no such file or folder"),
        (["--use", ".", "--cuda"], "error: --use registers a build as it is"),
        (["--source", "absent"], "no such folder"),
        (["--cmake", "nonsense"], "error: --cmake nonsense: not a definition"),
        (["--name", "a/b"], "error: --name 'a/b': not a build's name"),
        (["--nonsense"], "No such option"),
    ],
)
def test_wrong_input_ends_with_exit_code_2_and_one_message(
    env: dict[str, str], tmp_path: Path, arguments: list[str], message: str
) -> None:
    refused = subprocess.run(
        [sys.executable, "-c", PROGRAM, "build", *arguments],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert message in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_empty_register_names_the_command_that_fills_it(env: dict[str, str]) -> None:
    listed = k3prof(env, "build", "list")
    assert listed.returncode == 0
    assert "`k3prof build` makes one" in listed.stdout
    assert json.loads(k3prof(env, "build", "list", "--format", "json").stdout) == []


def test_a_terminal_sees_a_bar_with_a_percentage(env: dict[str, str], llama_cpp: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "build", "--source", str(llama_cpp)],
        env={**env, "TERM": "xterm"},
        stdout=subprocess.PIPE,
        stderr=theirs,
    ) as building:
        os.close(theirs)
        seen = b""
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                # How Linux reports that the other end of a terminal was closed.
                break
            if not part:
                break
            seen += part
    os.close(ours)
    assert building.returncode == 0
    assert "compiling" in seen.decode()
    assert "%" in seen.decode()
