"""NVIDIA's management library: which GPUs are here, and their utilisation, memory and power.

With `gpu_state.py`, the only door to `pynvml`. A GPU is known by its UUID and its PCI address, never by NVML's index,
whose order is not guaranteed and need not be CUDA's. What a GPU, a driver or a container does not tell is unknown and
stops nothing else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np
import pynvml

from k3prof.collectors.source import Channel, Schedule
from k3prof.core.device import Device, DeviceKind
from k3prof.core.timeline import Counter
from k3prof.errors import MachineError

LONGEST_WINDOW_NS = 1_000_000_000
"""NVML's utilisation averages over 1/6 to 1 s by product; its power over 1 s on Ampere and later but the GA100."""

_NO_NVIDIA = (pynvml.NVMLError_LibraryNotFound, pynvml.NVMLError_DriverNotLoaded)
_NEVER = (pynvml.NVMLError_NotSupported, pynvml.NVMLError_NoPermission, pynvml.NVMLError_FunctionNotFound)
_FEWEST_SAMPLES = 3

Handle = Any
MemoryFigures = Any
Reader = Callable[[Handle], float | None]
T = TypeVar("T")


def list_gpus() -> list[Device]:
    """Return the GPUs of this machine in the order of their PCI addresses, which is how CUDA is told to number them.

    Returns:
        Devices `CUDA0`…; none where there is no NVIDIA library or driver.

    Raises:
        MachineError: There is a driver, but it refuses or has lost a GPU.
    """
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(library())
        except _NO_NVIDIA:
            return []
        except pynvml.NVMLError as error:
            raise MachineError(f"the NVIDIA driver refuses: {error}", "see what `nvidia-smi` says") from None
        gpus = [_describe(index) for index in range(_required("count its GPUs", pynvml.nvmlDeviceGetCount))]
    gpus.sort(key=lambda gpu: gpu.pci_bus_id or "")
    return [replace(gpu, name=f"CUDA{index}") for index, gpu in enumerate(gpus)]


class GpuSource:
    """Utilisation, memory and power of GPUs.

    Counters that a GPU does not support, or does not let us read, are not offered; one that fails later is unknown
    for as long as it fails. A GPU that cannot be found is unknown altogether. One that the driver has lost is not asked
    again, since that can crash the driver.
    """

    def __init__(self, gpus: Sequence[tuple[str, str]], interval_ns: int) -> None:
        """Find the GPUs.

        Args:
            gpus: Of each, the device name that samples shall carry and the UUID.
            interval_ns: How often to read.

        Raises:
            MachineError: There is no NVML, or it refuses.
        """
        _required("start", pynvml.nvmlInit)
        self._gpus = [_WatchedGpu(device, uuid, interval_ns) for device, uuid in gpus]
        self.schedule = Schedule(interval_ns)
        self.channels = tuple(channel for gpu in self._gpus for channel in gpu.channels)

    def read(self) -> Sequence[float | None]:
        """Return busy share, memory and power of each GPU, as far as it offers them."""
        return [value for gpu in self._gpus for value in gpu.read()]


class _WatchedGpu:
    def __init__(self, device: str, uuid: str, interval_ns: int) -> None:
        self._handle: Handle | None = None
        with contextlib.suppress(pynvml.NVMLError):
            self._handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        counters = {
            Counter.BUSY_FRAC: (_busy_frac, self._utilisation_window_ns()),
            Counter.MEMORY_BYTES: (_memory_bytes, interval_ns),
            Counter.POWER_W: (_power_w, LONGEST_WINDOW_NS),
        }
        offered = {counter: pair for counter, pair in counters.items() if self._offers(pair[0])}
        self._readers = [reader for reader, _ in offered.values()]
        self.channels = [Channel(device, counter, period_ns) for counter, (_, period_ns) in offered.items()]

    def read(self) -> list[float | None]:
        return [self._read(reader) for reader in self._readers]

    def _read(self, reader: Reader) -> float | None:
        if self._handle is None:
            return None
        try:
            return reader(self._handle)
        except pynvml.NVMLError_GpuIsLost:
            self._handle = None
        except pynvml.NVMLError:
            pass
        return None

    def _offers(self, reader: Reader) -> bool:
        if self._handle is None:
            return True
        try:
            reader(self._handle)
        except _NEVER:
            return False
        except pynvml.NVMLError:
            return True
        return True

    def _utilisation_window_ns(self) -> int:
        """Return the window that utilisation averages over: the spacing of the samples which the driver keeps."""
        if self._handle is None:
            return LONGEST_WINDOW_NS
        try:
            _, samples = pynvml.nvmlDeviceGetSamples(self._handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES, 0)
        except pynvml.NVMLError:
            return LONGEST_WINDOW_NS
        times_us = sorted({sample.timeStamp for sample in samples if sample.timeStamp > 0})
        if len(times_us) < _FEWEST_SAMPLES:
            return LONGEST_WINDOW_NS
        return min(int(np.median(np.diff(times_us))) * 1000, LONGEST_WINDOW_NS)


def _busy_frac(handle: Handle) -> float | None:
    percent = pynvml.nvmlDeviceGetUtilizationRates(handle).gpu
    return float(percent) / 100 if percent <= 100 else None


def _memory_bytes(handle: Handle) -> float | None:
    memory = _memory(handle)
    return float(memory.used) if memory.used <= memory.total else None


def _memory(handle: Handle) -> MemoryFigures:
    """Return memory figures; the second version's `used` leaves out what the driver keeps for itself."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2)
    except (pynvml.NVMLError_FunctionNotFound, pynvml.NVMLError_ArgumentVersionMismatch):
        return pynvml.nvmlDeviceGetMemoryInfo(handle)


def _power_w(handle: Handle) -> float | None:
    return float(pynvml.nvmlDeviceGetPowerUsage(handle)) / 1000


@contextlib.contextmanager
def library() -> Iterator[None]:
    """Have the library ready for as long as the context lasts; `pynvml.NVMLError` when it does not start."""
    pynvml.nvmlInit()
    try:
        yield
    finally:
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()


def _describe(index: int) -> Device:
    handle = _required(f"open GPU {index} (NVML's number)", lambda: pynvml.nvmlDeviceGetHandleByIndex(index))
    pci = _required(f"tell the PCI address of GPU {index}", lambda: pynvml.nvmlDeviceGetPciInfo(handle))
    try:
        memory_bytes: int | None = int(_memory(handle).total)
    except pynvml.NVMLError:
        memory_bytes = None
    return Device(
        name="",
        kind=DeviceKind.CUDA,
        description=_required(f"name GPU {index}", lambda: pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory_bytes,
        uuid=_required(f"tell the UUID of GPU {index}", lambda: pynvml.nvmlDeviceGetUUID(handle)),
        pci_bus_id=f"{pci.domain:08x}:{pci.bus:02x}:{pci.device:02x}.0",
    )


def _required(what: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except pynvml.NVMLError as error:
        raise MachineError(f"the NVIDIA driver could not {what}: {error}", "see what `nvidia-smi` says") from None
