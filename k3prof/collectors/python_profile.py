"""Records what a Python program does, with py-spy, which reads the program's memory from outside.

py-spy is a program of its own that only looks: the other never waits for it (`--nonblocking`), and neither do we.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil
from pydantic import TypeAdapter, ValidationError

from k3prof.collectors.host_facts import host_facts
from k3prof.collectors.host_settings import host_settings
from k3prof.core.python_profile import Frame, PythonProfile, ThreadSamples
from k3prof.errors import ConfigError, MachineError

RATE_HZ = 100

_PROGRAM = "py-spy"
_PATIENCE_S = 15.0
"""How long it may take to write what it saw."""
_PR_SET_PTRACER = 0x59616D61
_FORBIDDEN = re.compile(r"permission denied|operation not permitted", re.IGNORECASE)
_NO_PYTHON = "Failed to find python version"
_COUNTS = re.compile(r"Samples: \d+ Errors: (?P<errors>\d+)")
_ERROR = re.compile(r"^Error: (?P<text>.+)$", re.MULTILINE)


@dataclass(frozen=True)
class _Sampled:
    type: Literal["sampled"]
    name: str
    unit: Literal["seconds"]
    samples: tuple[tuple[int, ...], ...]
    weights: tuple[float, ...]


@dataclass(frozen=True)
class _Shared:
    frames: tuple[Frame, ...]


@dataclass(frozen=True)
class _Speedscope:
    """What is used of the format: https://www.speedscope.app/file-format-schema.json."""

    profiles: tuple[_Sampled, ...]
    shared: _Shared


_SPEEDSCOPE = TypeAdapter(_Speedscope)


def record(pid: int, seconds: float, path: Path) -> PythonProfile:
    """Record a program for some time, or until it ends, and return what it did.

    Args:
        pid: A running Python program, or this process itself.
        seconds: How long.
        path: Gets the profile as a speedscope file; it is written only when the recording is whole and valid.

    Raises:
        ConfigError: The file cannot be written.
        MachineError: py-spy may not look into the program, or cannot; the message names the remedy.
    """
    with closing(Recording(pid, seconds, path)) as recording:
        return recording.finish()


class Recording:
    """A recording that goes on while the caller does something else.

    Args:
        pid: A running Python program, or this process itself.
        seconds: When it ends by itself.
        path: Gets the profile as a speedscope file.

    Raises:
        ConfigError: The file cannot be written.
        MachineError: py-spy is missing.
    """

    def __init__(self, pid: int, seconds: float, path: Path) -> None:
        program = _program()
        self._pid = pid
        self._path = path
        self._seconds = max(math.ceil(seconds), 1)
        self._draft = path.with_name(f".{path.name}.part")
        try:
            self._draft.touch()
        except OSError as error:
            raise ConfigError(f"{path}: cannot be written: {error.strerror}", "name a file elsewhere") from None
        self._told = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the recording
        if pid == os.getpid():
            _let_children_look()
        argv = [program, "record", "--nonblocking", "--format", "speedscope", "--rate", str(RATE_HZ)]
        argv += ["--duration", str(self._seconds), "--pid", str(pid), "--output", str(self._draft)]
        # In a group of its own it does not get the terminal's Ctrl-C: that is meant for us.
        self._process = subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=self._told, stderr=self._told, process_group=0
        )

    def stop(self) -> None:
        """End the recording before its time; what was seen so far is kept."""
        self._process.send_signal(signal.SIGINT)

    def finish(self) -> PythonProfile:
        """Wait for the end of the recording and return it.

        Raises:
            MachineError: py-spy may not look into the program, or cannot; the message names the remedy.
        """
        try:
            code = self._process.wait(self._seconds + _PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise MachineError(f"{_PROGRAM} does not stop recording process {self._pid}") from None
        self._told.seek(0)
        told = self._told.read().decode(errors="replace")
        if code == -signal.SIGINT:
            raise MachineError(f"process {self._pid}: stopped before {_PROGRAM} had looked into it once")
        if code != 0:
            raise _failure(self._pid, told)
        counts = _COUNTS.search(told)
        profile = read_speedscope(self._draft, int(counts["errors"]) if counts else None)
        self._draft.replace(self._path)
        return profile

    def close(self) -> None:
        """Leave nothing behind: neither the process nor a part of a file."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._draft.unlink(missing_ok=True)
        self._told.close()


def read_speedscope(path: Path, failed_samples: int | None = None) -> PythonProfile:
    """Read a profile that py-spy wrote.

    Args:
        path: The file.
        failed_samples: Looks that showed nothing, if py-spy told.

    Raises:
        MachineError: It is not there, or no such profile.
    """
    try:
        found = _SPEEDSCOPE.validate_json(path.read_bytes())
    except OSError as error:
        raise MachineError(f"{path}: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise MachineError(f"{path}: no speedscope profile: {where}: {first['msg']}") from None
    frames = range(len(found.shared.frames))
    for thread in found.profiles:
        if len(thread.samples) != len(thread.weights):
            raise MachineError(
                f"{path}: no speedscope profile: {len(thread.weights)} weights for {len(thread.samples)} samples"
            )
        if any(place not in frames for stack in thread.samples for place in stack):
            raise MachineError(f"{path}: no speedscope profile: a stack names a frame that is not there")
    threads = (ThreadSamples(thread.name, thread.samples, thread.weights) for thread in found.profiles)
    return PythonProfile(found.shared.frames, tuple(threads), failed_samples)


def _program() -> str:
    beside = Path(sys.executable).with_name(_PROGRAM)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(_PROGRAM)
    if found is None:
        raise MachineError(f"{_PROGRAM} is not here: Python programs cannot be profiled", "pip install py-spy")
    return found


def _let_children_look() -> None:
    """Let our own children read our memory where Yama otherwise lets only parents read their children's.

    Without Yama the request fails, and is not needed.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PTRACER, os.getpid(), 0, 0, 0)


def _failure(pid: int, told: str) -> MachineError:
    try:
        target = psutil.Process(pid)
        name, owner = target.name(), target.uids().real
    except psutil.Error:
        return MachineError(f"process {pid} has ended: nothing was recorded of it")
    what = f"process {pid} ({name})"
    if _FORBIDDEN.search(told):
        return _forbidden(what, is_ours=owner == os.geteuid())
    if _NO_PYTHON in told:
        return MachineError(f"{what}: not a Python program that {_PROGRAM} knows")
    error = _ERROR.search(told)
    return MachineError(f"{what}: {_PROGRAM} cannot read it: {error['text'] if error else 'it does not say why'}")


def _forbidden(what: str, *, is_ours: bool) -> MachineError:
    """Return what keeps py-spy from reading another process's memory, and the remedy: ptrace(2), access mode checking.

    Yama forbids all but children at 1, all without privilege at 2, all at 3. Containers without the privilege also
    forbid the system call.
    """
    facts, privileged = host_facts(), host_settings().may_trace_all
    scope = facts.ptrace_scope or 0
    if scope >= 3:
        why, remedy = f"kernel.yama.ptrace_scope is {scope}", "boot with kernel.yama.ptrace_scope below 3"
    elif not is_ours and not privileged:
        why, remedy = "it belongs to another user", "run k3prof as that user, or as root"
    elif scope and not privileged:
        why, remedy = f"kernel.yama.ptrace_scope is {scope}", "sudo sysctl kernel.yama.ptrace_scope=0"
    elif privileged:
        why, remedy = "it is out of reach even with the privilege", "run k3prof in the container that it runs in"
    elif facts.container is not None:
        why = f"this container ({facts.container}) does not let processes read each other's memory"
        remedy = "start it with --cap-add SYS_PTRACE (Kubernetes: securityContext.capabilities.add)"
    else:
        why, remedy = "it has privileges that k3prof has not", "run k3prof as root"
    return MachineError(f"{what}: {_PROGRAM} may not look into it: {why}", remedy)
