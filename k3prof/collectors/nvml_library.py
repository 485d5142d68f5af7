"""The door to NVIDIA's management library (NVML): starting it, and asking it about a GPU that may be lost meanwhile.

A GPU is known by its UUID and its PCI address, never by NVML's index, whose order is not guaranteed and need not be
CUDA's. What a GPU, a driver or a container does not tell is unknown and stops nothing else.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import pynvml

from k3prof.core.events import DeviceEvent, EventKind
from k3prof.errors import MachineError

NO_NVIDIA = (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
"""There is no NVIDIA driver here."""

NEVER = (
    pynvml.NVMLError_NotSupported,
    pynvml.NVMLError_NoPermission,
    pynvml.NVMLError_FunctionNotFound,
    pynvml.NVMLError_ArgumentVersionMismatch,
    pynvml.NVMLError_InvalidArgument,
    pynvml.NVMLError_Deprecated,
)
"""Asking again will not help."""

_LOST = (pynvml.NVMLError_GpuIsLost, pynvml.NVMLError_ResetRequired)

Handle = Any
Reader = Callable[[Handle], float | None]
Tell = Callable[[DeviceEvent], None]
T = TypeVar("T")


@contextlib.contextmanager
def library() -> Iterator[None]:
    """Have the library ready for as long as the context lasts; `pynvml.NVMLError` when it does not start."""
    pynvml.nvmlInit()
    try:
        yield
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def required(what: str, call: Callable[[], T]) -> T:
    """Return what a call returns.

    Raises:
        MachineError: The driver refuses.
    """
    try:
        return call()
    except pynvml.NVMLError as error:
        raise MachineError(f"the NVIDIA driver could not {what}: {error}", "see what `nvidia-smi` says") from None


class WatchedGpu:
    """A GPU as the threads of one process ask about it.

    Once one of them finds that the driver has lost it, none asks again, since that can crash the driver.

    Args:
        name: The device name that samples and events shall carry.
        uuid: NVIDIA's identifier.
        tell: Gets what happens to it; called from any thread.
    """

    def __init__(self, name: str, uuid: str, tell: Tell) -> None:
        self.name = name
        self._tell = tell
        self._losing = threading.Lock()
        self._handle: Handle | None = None
        try:
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        except pynvml.NVMLError as error:
            self.tell(EventKind.LOST, f"{uuid}: {error}")

    def tell(self, kind: EventKind, detail: str, number: int | None = None) -> None:
        """Tell that something happened to it now."""
        self._tell(DeviceEvent(time.monotonic_ns(), self.name, kind, detail, number))

    def ask(self, call: Callable[[Handle], T]) -> T | None:
        """Return what a call about this GPU returns, or None when it fails or the GPU is lost."""
        with contextlib.suppress(pynvml.NVMLError):
            return self.ask_or_raise(call)
        return None

    def ask_or_raise(self, call: Callable[[Handle], T]) -> T | None:
        """Return what a call about this GPU returns, or None when the GPU is lost.

        Raises:
            pynvml.NVMLError: The call fails for another reason.
        """
        handle = self._handle
        if handle is None:
            return None
        try:
            return call(handle)
        except _LOST as error:
            self._lose(str(error))
            return None

    def first_offered(self, what: str, readers: Sequence[Reader]) -> Reader | None:
        """Return the first way to read a counter that this GPU has; None, and told once, when it has none."""
        reason = ""
        for reader in readers:
            try:
                self.ask_or_raise(reader)
            except NEVER as error:
                reason = str(error)
            except pynvml.NVMLError:
                return reader
            else:
                return reader
        self.tell(EventKind.LACKS, f"{what} ({reason})")
        return None

    def _lose(self, reason: str) -> None:
        with self._losing:
            if self._handle is None:
                return
            self._handle = None
        self.tell(EventKind.LOST, reason)


def field(field_id: int, *, scale: float = 1.0, wide_only: bool = False) -> Reader:
    """Return a reader of one of the driver's numbered fields; each field has an error code of its own.

    Args:
        field_id: Its number.
        scale: What to multiply it with.
        wide_only: Whether it is no use with 32 bits.
    """

    def read(handle: Handle) -> float:
        (found,) = pynvml.nvmlDeviceGetFieldValues(handle, [field_id])
        if found.nvmlReturn != pynvml.NVML_SUCCESS:
            raise pynvml.NVMLError(found.nvmlReturn)
        member = _FIELD_MEMBERS.get(found.valueType)
        if member is None or (wide_only and member not in _WIDE):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
        return float(getattr(found.value, member)) * scale

    return read


_FIELD_MEMBERS = {
    pynvml.NVML_VALUE_TYPE_DOUBLE: "dVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
    pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    pynvml.NVML_VALUE_TYPE_SIGNED_LONG_LONG: "sllVal",
}
_WIDE = ("ulVal", "ullVal", "sllVal")
