from __future__ import annotations

import io
import sys
from pathlib import Path

import pytest

from k3prof.core.trial import Failure
from k3prof.errors import ConfigError
from k3prof.workflows import explain as workflow
from k3prof.workflows.explain import explain

LOGS = Path(__file__).parent.parent / "llama" / "logs"


class Stdin:
    def __init__(self, data: bytes) -> None:
        self.buffer = io.BytesIO(data)


def test_a_log_is_read_from_a_file_or_from_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    path = LOGS / "layer-split-lv4.log"
    from_file = explain(str(path))
    monkeypatch.setattr(sys, "stdin", Stdin(path.read_bytes()))
    from_stdin = explain("-")
    assert from_file.done == from_stdin.done
    assert from_file.failure is None
    assert (from_file.source, from_stdin.source) == (str(path), "stdin")


def test_a_failure_that_the_log_names_is_told() -> None:
    failure = explain(str(LOGS / "failures" / "rpc_killed.log")).failure
    assert failure is not None
    assert failure.failure is Failure.DEVICE_LOST


def test_a_refused_flag_is_told_although_nothing_was_loaded() -> None:
    failure = explain(str(LOGS / "failures" / "removed_flag.log")).failure
    assert failure is not None
    assert failure.failure is Failure.REFUSED_FLAG


@pytest.mark.parametrize("data", [b"", b"Dear diary,\ntoday I loaded a model: it was fun.\n", bytes(range(256)) * 50])
def test_what_is_no_log_is_refused_with_its_name(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "diary.txt"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=r"diary\.txt: nothing in it looks like a log"):
        explain(str(path))


def test_a_log_that_cannot_be_read_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no\.log: No such file"):
        explain(str(tmp_path / "no.log"))
    with pytest.raises(ConfigError, match="Is a directory"):
        explain(str(tmp_path))
    with pytest.raises(ConfigError, match="null character"):
        explain("a\0b")


def test_a_log_that_is_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workflow, "MAX_BYTES", 2**20)
    path = tmp_path / "long.log"
    path.write_bytes(b"x" * (2**20 + 1))
    with pytest.raises(ConfigError, match="longer than 1 MiB"):
        explain(str(path))
