"""Running a program whose output is followed and kept."""

from __future__ import annotations

import os
from pathlib import Path

import psutil
import pytest

from k3prof.errors import MachineError
from k3prof.llama.logged import run_logged
from tests.llama.test_child import eventually

SHELL = "/bin/sh"


def test_every_line_is_followed_kept_and_the_exit_code_returned(tmp_path: Path) -> None:
    log, seen = tmp_path / "log", []
    log.write_text("before\n")
    code = run_logged(
        [SHELL, "-c", r"echo one; echo two >&2; printf '\377'; exit 7"], env={}, log=log, on_line=seen.append
    )
    assert code == 7
    assert seen == ["one", "two", "\N{REPLACEMENT CHARACTER}"]
    assert log.read_bytes() == b"before\none\ntwo\n\xff"


def test_the_environment_is_the_one_given(tmp_path: Path) -> None:
    seen: list[str] = []
    run_logged([SHELL, "-c", "echo $HOME:$MINE"], env={"MINE": "1"}, log=tmp_path / "log", on_line=seen.append)
    assert seen == [":1"]


def test_an_exception_stops_the_program(tmp_path: Path) -> None:
    def interrupt(line: str) -> None:
        raise KeyboardInterrupt

    before = set(psutil.Process().children(recursive=True))
    with pytest.raises(KeyboardInterrupt):
        run_logged([SHELL, "-c", "echo go; exec sleep 1000"], env={}, log=tmp_path / "log", on_line=interrupt)
    assert eventually(lambda: set(psutil.Process().children(recursive=True)) <= before)


def test_a_full_disk_is_said_with_the_file(tmp_path: Path) -> None:
    full = tmp_path / "log"
    full.symlink_to("/dev/full")
    with pytest.raises(MachineError, match=f"{full}: cannot be written: {os.strerror(28)}") as caught:
        run_logged([SHELL, "-c", "echo one; exec sleep 1000"], env={}, log=full)
    assert "space" in caught.value.hint


def test_a_log_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="cannot be written"):
        run_logged([SHELL, "-c", "true"], env={}, log=tmp_path)
