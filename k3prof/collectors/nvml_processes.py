"""Which programs compute on a GPU while it is watched."""

from __future__ import annotations

from collections.abc import Sequence

import psutil
import pynvml

from k3prof.collectors.nvml_library import Handle, WatchedGpu
from k3prof.collectors.source import Schedule
from k3prof.core.events import EventKind
from k3prof.core.timeline import Series

_INTERVAL_NS = 1_000_000_000


class ProgramWatch:
    """Tells every program that computes on a GPU, once: a `RecordSource` that drains to nothing.

    Programs that are there when this object is made are told at once.
    """

    schedule = Schedule(_INTERVAL_NS)

    def __init__(self, gpu: WatchedGpu) -> None:
        self.device = gpu.name
        self._gpu = gpu
        self._told: set[int] = set()
        self._offered = gpu.first_offered("the programs that use it", [lambda handle: float(len(_pids(handle)))])
        self.drain()

    def drain(self) -> Sequence[Series]:
        """Tell the programs that are new."""
        found = (self._gpu.ask(_pids) or []) if self._offered else []
        for pid in found:
            if pid not in self._told:
                self._told.add(pid)
                name = process_name(pid)
                self._gpu.tell(EventKind.PROCESS, f"pid {pid}" + (f" ({name})" if name else ""), pid)
        return ()

    def finish(self) -> Sequence[Series]:
        """Nothing is left to tell."""
        return ()


def process_name(pid: int) -> str:
    """Return a process's name; empty when it does not show here."""
    try:
        return psutil.Process(pid).name()
    except psutil.Error:
        return ""


def _pids(handle: Handle) -> list[int]:
    return [process.pid for process in pynvml.nvmlDeviceGetComputeRunningProcesses(handle)]
