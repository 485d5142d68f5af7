"""Start a program that cannot outlive us.

The kernel kills a child when its parent dies only if the child itself asks for that, between fork and exec. Asking in
`preexec_fn` can deadlock a process that has threads, so a tiny program (`exec_bound.py`) asks and becomes the other.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from k3prof.errors import MachineError

_EXEC_BOUND = Path(__file__).with_name("exec_bound.py")


def spawn(
    argv: Sequence[str],
    *,
    env: Mapping[str, str],
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
    cwd: Path | None = None,
    cpus: Sequence[int] = (),
    death_signal: signal.Signals = signal.SIGKILL,
) -> subprocess.Popen[bytes]:
    """Start `argv` in its own process group; it gets a signal when this process ends, however it ends.

    Args:
        argv: The program (a path) and its arguments.
        env: Its whole environment.
        stdout: A file or one of subprocess's constants.
        stderr: Likewise.
        cwd: Its working directory; ours when None.
        cpus: Processors to pin it to; empty for no pinning.
        death_signal: The signal; a milder one than SIGKILL for a program that then stops children of its own.

    Raises:
        MachineError: The program is not there or may not be run.
    """
    # The kernel watches the thread that forked, not the process: a child of a short-lived thread would die early.
    if threading.current_thread() is not threading.main_thread():
        raise RuntimeError("children are started from the main thread only")
    if not os.access(argv[0], os.X_OK):
        raise MachineError(f"{argv[0]}: not an executable file", "`k3prof build list` shows which builds are here")
    bound = [sys.executable, "-I", "-S", str(_EXEC_BOUND), str(os.getpid())]
    return subprocess.Popen(
        [*bound, str(int(death_signal)), ",".join(map(str, cpus)), *argv],
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        cwd=cwd,
        process_group=0,
    )


def terminate(process: subprocess.Popen[bytes], patience_s: float = 10.0) -> int:
    """Ask a child to stop, kill its whole process group after `patience_s`, and return its exit code."""
    if process.poll() is None:
        _signal_group(process, signal.SIGTERM)
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            _signal_group(process, signal.SIGKILL)
    return process.wait()


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    try:
        os.killpg(process.pid, number)
    except ProcessLookupError:
        return
