from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from k3prof.errors import MachineError
from k3prof.llama.child import spawn, terminate

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def is_running(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_a_child_dies_with_a_parent_that_was_killed() -> None:
    script = (
        "import os, subprocess, time\n"
        "from k3prof.llama.child import spawn\n"
        "child = spawn(['/bin/sleep', '600'], env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert eventually(lambda: psutil.Process(pid).name() == "sleep")
    parent.kill()
    parent.wait()
    assert eventually(lambda: not is_running(pid))


def test_a_child_is_the_program_itself_in_a_group_of_its_own_on_the_processors_asked_for() -> None:
    cpu = max(os.sched_getaffinity(0))
    child = spawn(["/bin/sleep", "600"], env={}, cpus=[cpu], **QUIET)
    try:
        assert eventually(lambda: psutil.Process(child.pid).name() == "sleep")
        assert os.getpgid(child.pid) == child.pid != os.getpgid(0)
        assert os.sched_getaffinity(child.pid) == {cpu}
        assert psutil.Process(child.pid).environ() == {}
    finally:
        assert terminate(child) == -signal.SIGTERM


def test_a_child_that_will_not_stop_is_killed_with_everything_it_started(tmp_path: Path) -> None:
    script = tmp_path / "stubborn"
    script.write_text("#!/bin/sh\ntrap '' TERM\nsleep 600 &\necho $! > pid\nwhile :; do sleep 1; done\n")
    script.chmod(0o755)
    child = spawn([str(script)], env=os.environ, cwd=tmp_path, **QUIET)
    assert eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text().strip() != "")
    grandchild = int((tmp_path / "pid").read_text())
    assert terminate(child, patience_s=0.3) == -signal.SIGKILL
    assert eventually(lambda: not is_running(grandchild))


def test_a_child_that_has_ended_by_itself_keeps_its_exit_code() -> None:
    child = spawn(["/bin/sh", "-c", "exit 7"], env={}, **QUIET)
    assert eventually(lambda: child.poll() is not None)
    assert terminate(child) == 7


def test_a_program_that_is_not_there_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="nothing-here: not an executable file"):
        spawn([str(tmp_path / "nothing-here")], env={}, **QUIET)


def test_a_thread_may_not_start_children_since_they_would_die_with_it() -> None:
    caught: list[BaseException] = []

    def start() -> None:
        try:
            spawn(["/bin/true"], env={}, **QUIET)
        except RuntimeError as error:
            caught.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert caught
