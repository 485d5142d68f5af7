"""The sampler, seen from the process that starts it: what to watch, and the samples as they come."""

from __future__ import annotations

import contextlib
import os
import pickle
import subprocess
import sys
import time
from dataclasses import dataclass, field, replace
from multiprocessing import Pipe
from pathlib import Path
from types import TracebackType
from typing import Self

import k3prof
from k3prof.collectors.nvml import GpuIntervals
from k3prof.core.events import DeviceEvent
from k3prof.core.timeline import Series
from k3prof.errors import MachineError

MACHINE = "sampler"
GPUS = "sampler.gpu"
"""The device names under which the two sampling processes tell their own lateness."""

_STOP_PATIENCE_S = 5.0


@dataclass(frozen=True)
class SamplerPlan:
    """What to watch during one trial, and how often.

    Attributes:
        processes: Device name and pid of each process: the stand-ins, and `CPU` for llama-server itself.
        gpus: Device name and UUID of each GPU.
        host: Whether to watch the whole machine.
        processor_interval_ns: Time between readings of processor time; taken at whole scheduler ticks.
        memory_interval_ns: Time between readings of a process's memory and page faults.
        host_interval_ns: Time between readings of the whole machine.
        gpu_intervals: The same of GPUs.
    """

    processes: tuple[tuple[str, int], ...]
    gpus: tuple[tuple[str, str], ...] = ()
    host: bool = True
    processor_interval_ns: int = 5_000_000
    memory_interval_ns: int = 500_000_000
    host_interval_ns: int = 500_000_000
    gpu_intervals: GpuIntervals = field(default_factory=GpuIntervals)


@dataclass(frozen=True)
class Report:
    """What a sampling process sends, first when it is ready to read and then a few times a second.

    Attributes:
        series: Samples that continue those of earlier reports.
        events: What happened to devices since then.
        failures: What went wrong in the process itself, one sentence each.
    """

    series: tuple[Series, ...] = ()
    events: tuple[DeviceEvent, ...] = ()
    failures: tuple[str, ...] = ()


def start_sampler(plan: SamplerPlan) -> Sampler:
    """Start sampling in processes of their own: one for the machine and one for GPUs, as far as they are to be watched.

    A driver that crashes or hangs takes only the GPUs' process with it. Both end at once when this process ends,
    however it ends, and take no notice of Ctrl-C.

    Raises:
        MachineError: No process can be started.
    """
    parts: list[_Part] = []
    if plan.processes or plan.host:
        parts.append(_Part(MACHINE, replace(plan, gpus=())))
    if plan.gpus:
        parts.append(_Part(GPUS, replace(plan, processes=(), host=False)))
    return Sampler(parts)


class Sampler:
    """A running sampler. As a context manager it stops at the end of the block.

    Samples come as series that each continue what came before for the same device and counter. A reading that failed
    is a gap in its series and counts in its device's `READ_ERRORS`.
    """

    def __init__(self, parts: list[_Part]) -> None:
        self._parts = parts

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def failures(self) -> tuple[str, ...]:
        """What went wrong in the sampler itself, one sentence each; the samples of that part end there."""
        return tuple(failure for part in self._parts for failure in part.failures)

    @property
    def events(self) -> tuple[DeviceEvent, ...]:
        """What has happened to devices so far, or was found out about them."""
        return tuple(event for part in self._parts for event in part.events)

    @property
    def pids(self) -> tuple[int, ...]:
        """The sampling processes."""
        return tuple(part.pid for part in self._parts)

    def wait_until_ready(self, patience_s: float) -> None:
        """Wait until every sampling process is ready to read, or has failed; no longer than patience lasts."""
        give_up_s = time.monotonic() + patience_s
        for part in self._parts:
            part.wait_until_ready(max(give_up_s - time.monotonic(), 0))

    def poll(self) -> list[Series]:
        """Return what has come since the last call, without waiting."""
        return [series for part in self._parts for series in part.receive(patience_s=0)]

    def stop(self) -> list[Series]:
        """End sampling and return what had not been returned yet; a second call returns nothing."""
        for part in self._parts:
            part.ask_to_stop()
        return [series for part in self._parts for series in part.finish()]


class _Part:
    """One sampling process and the connection to it."""

    def __init__(self, name: str, plan: SamplerPlan) -> None:
        self.name = name
        self.failures: list[str] = []
        self.events: list[DeviceEvent] = []
        self._stopping = False
        self._received: list[Series] = []
        self._connection, theirs = Pipe()
        try:
            self._process = _spawn(theirs.fileno())
        except OSError as error:
            self._connection.close()
            raise MachineError(f"the {name} cannot be started: {error}") from None
        finally:
            theirs.close()
        self._send((name, plan))

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_until_ready(self, patience_s: float) -> None:
        """Wait for the first report, or for the end of the process."""
        if not self._connection.closed and self._connection.poll(patience_s):
            self._receive_one()

    def receive(self, patience_s: float) -> list[Series]:
        """Return the samples that are there; with patience, wait that long for the process to end."""
        give_up_s = time.monotonic() + patience_s
        while not self._connection.closed and self._connection.poll(max(give_up_s - time.monotonic(), 0)):
            self._receive_one()
        received, self._received = self._received, []
        return received

    def _receive_one(self) -> None:
        try:
            report = self._connection.recv()
        except (EOFError, OSError, pickle.UnpicklingError):
            self._close()
            return
        self._received += report.series
        self.events += report.events
        self.failures += [f"{self.name}: {failure}" for failure in report.failures]

    def ask_to_stop(self) -> None:
        self._stopping = True
        self._send(None)

    def finish(self) -> list[Series]:
        received = self.receive(_STOP_PATIENCE_S)
        if not self._connection.closed:
            self.failures.append(f"{self.name}: did not stop and was killed")
            self._close()
        return received

    def _send(self, message: object) -> None:
        # That the process has ended shows, with its reason, when its samples are received.
        with contextlib.suppress(OSError):
            self._connection.send(message)

    def _close(self) -> None:
        self._connection.close()
        try:
            _, stderr = self._process.communicate(timeout=_STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, stderr = self._process.communicate()
        if not self._stopping and not self.failures:
            last = stderr.decode(errors="replace").strip().rpartition("\n")[2]
            self.failures.append(f"{self.name}: ended early with exit code {self._process.returncode}: {last}")


def _spawn(connection: int) -> subprocess.Popen[bytes]:
    package_folder = str(Path(k3prof.__file__).parent.parent)
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (package_folder, os.environ.get("PYTHONPATH")))),
        # The sampler adds no matrices: numpy's idle threads would only cost.
        "OPENBLAS_NUM_THREADS": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "k3prof.collectors.sampling", str(connection)],
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        pass_fds=(connection,),
        start_new_session=True,
    )
