"""Errors that the driver reports of GPUs while they work: Xids, and memory errors that could not be corrected."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from typing import Any

import pynvml

from k3prof.collectors.nvml_library import Handle, WatchedGpu
from k3prof.collectors.source import Schedule
from k3prof.core.events import EventKind
from k3prof.core.timeline import Series

_WAIT_MS = 100
_INTERVAL_NS = 200_000_000
_MOST_AT_ONCE = 100

EventData = Any
"""pynvml's structure."""

_WANTED = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError

XIDS = {
    13: "graphics engine exception",
    31: "memory page fault",
    43: "a program's work was stopped",
    45: "a program's work was removed",
    48: "uncorrectable memory error",
    61: "internal microcontroller halt",
    62: "internal microcontroller halt",
    63: "a memory page was retired or a row remapped",
    64: "a memory page or row could not be retired",
    69: "graphics engine class error",
    74: "NVLink error",
    79: "the GPU has fallen off the bus",
    92: "many corrected memory errors",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch timeout",
    119: "the GPU's system processor does not answer",
    120: "error of the GPU's system processor",
}
"""What the numbers mean, from NVIDIA's list of Xids; others are shown by their number alone."""


class ErrorWatch:
    """Waits for errors of GPUs and tells each to the GPU it happened to: a `RecordSource` that drains to nothing.

    Errors from before this object was made are not reported.
    """

    device = ""
    schedule = Schedule(_INTERVAL_NS)

    def __init__(self, gpus: Sequence[WatchedGpu]) -> None:
        self._events: Any | None = None
        with contextlib.suppress(pynvml.NVMLError):
            self._events = pynvml.nvmlEventSetCreate()
        self._gpus = [(gpu, address) for gpu in gpus if (address := self._register(gpu)) is not None]

    def drain(self) -> Sequence[Series]:
        """Wait a little for errors, and tell all that have come."""
        self._tell_waiting(_WAIT_MS)
        return ()

    def finish(self) -> Sequence[Series]:
        """Tell what is left."""
        self._tell_waiting(0)
        return ()

    def _tell_waiting(self, patience_ms: int) -> None:
        for _ in range(_MOST_AT_ONCE if self._gpus else 0):
            try:
                error = pynvml.nvmlEventSetWait(self._events, patience_ms)
            except pynvml.NVMLError:
                # Nothing has come, or a GPU is lost: the lanes that ask it will find out.
                return
            self._tell(error)

    def _tell(self, error: EventData) -> None:
        registered = [gpu for gpu, _ in self._gpus]
        for gpu in [gpu for gpu, address in self._gpus if address == _address(error.device)] or registered:
            if error.eventType == pynvml.nvmlEventTypeXidCriticalError:
                gpu.tell(EventKind.XID, _describe(error.eventData), int(error.eventData))
            else:
                gpu.tell(EventKind.ECC, "a memory error that could not be corrected")

    def _register(self, gpu: WatchedGpu) -> int | None:
        """Return the address of a GPU's handle, by which errors name it, once its errors will be reported."""

        def register(handle: Handle) -> float | None:
            wanted = pynvml.nvmlDeviceGetSupportedEventTypes(handle) & _WANTED
            if not wanted or self._events is None:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
            pynvml.nvmlDeviceRegisterEvents(handle, wanted, self._events)
            return None

        if gpu.first_offered("reports of errors (Xid)", [register]) is None:
            return None
        return gpu.ask(_address)


def _describe(number: int) -> str:
    meaning = XIDS.get(number)
    return f"Xid {number}" + (f" ({meaning})" if meaning else "")


def _address(handle: Handle) -> int | None:
    return ctypes.cast(handle, ctypes.c_void_p).value
