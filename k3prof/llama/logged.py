"""Run a program whose output is followed line by line and kept in a file."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from io import FileIO
from pathlib import Path

from k3prof.errors import MachineError
from k3prof.llama.child import spawn, terminate

_SPACE = "is there space left on that disk?"


def run_logged(
    argv: Sequence[str], *, env: Mapping[str, str], log: Path, on_line: Callable[[str], None] = lambda _: None
) -> int:
    """Run a program to its end and return its exit code. An exception, Ctrl-C for one, stops it first.

    Args:
        argv: The program (a path) and its arguments.
        env: Its whole environment.
        log: Where all that it prints is appended.
        on_line: Called with each line that it prints.

    Raises:
        MachineError: It cannot be started, or the log not be written.
    """
    with _opened(log) as kept:
        # Ninja runs each compiler in a process group of its own, and stops them when it is asked to stop.
        process = spawn(argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, death_signal=signal.SIGTERM)
        try:
            # Never None: it was asked for.
            for raw in process.stdout or ():
                _keep(raw, kept, log)
                on_line(raw.decode(errors="replace").rstrip("\r\n"))
            return process.wait()
        finally:
            terminate(process)


def _opened(log: Path) -> FileIO:
    try:
        # Unbuffered, so that the log of a killed build is whole.
        return FileIO(log, "ab")
    except OSError as error:
        raise MachineError(f"{log}: cannot be written: {error.strerror}", _SPACE) from error


def _keep(raw: bytes, kept: FileIO, log: Path) -> None:
    try:
        kept.write(raw)
    except OSError as error:
        raise MachineError(f"{log}: cannot be written: {error.strerror}", _SPACE) from error
