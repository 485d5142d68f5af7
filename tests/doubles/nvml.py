"""A double of NVIDIA's management library at its C boundary: the real `pynvml` runs, with its ctypes marshalling.

`installed(FakeNvml([...]))` takes the place of the shared object. Methods are named like its symbols and write through
the pointers that they are given; a symbol that is missing here is missing to pynvml as well.
"""

# ruff: noqa: N802 (the functions bear the names of the library's symbols)
from __future__ import annotations

import contextlib
import ctypes
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pynvml

A40_BYTES = 46068 << 20
RING_ENTRIES = 72
UNTOLD = 2**64 - 1
DRIVER_VERSION = "550.54.15"

BusySeconds = Callable[[float], float]
"""How long a GPU had been busy since time 0, at a time in seconds."""


def idle(_at_s: float) -> float:
    """Never busy."""
    return 0.0


def square_wave(period_s: float, on_s: float, offset_s: float = 0.0) -> BusySeconds:
    """Busy for `on_s` of every `period_s`, beginning at `offset_s`."""

    def busy_seconds(at_s: float) -> float:
        cycles, rest_s = divmod(at_s - offset_s, period_s)
        return cycles * on_s + min(rest_s, on_s)

    return busy_seconds


@dataclass(frozen=True)
class Fault:
    """An error code in place of an answer.

    Attributes:
        code: What the call returns.
        symbol: The call that fails; all calls about the GPU when empty.
        from_s: When it begins.
        until_s: When it is over.
    """

    code: int
    symbol: str = ""
    from_s: float = 0.0
    until_s: float = math.inf


@dataclass
class FakeGpu:
    """One GPU that follows a script.

    Attributes:
        uuid: NVIDIA's identifier.
        bus: PCI bus number; domain and device are 0.
        name: Product name.
        memory_bytes: Its memory.
        used_bytes: What programs use of it.
        reserved_bytes: What the driver keeps, which only the second version of the call tells apart.
        busy: When it works.
        window_s: What its utilisation averages over.
        power_mw: Power.
        percent: Utilisation to report whatever `busy` says; for garbage.
        persistent: Whether persistence mode is on.
        ecc: Whether error correction is on.
        mig: Whether it is divided into slices.
        bus_bits: Width of its memory's bus.
        sm_mhz: Clock of its processors, and the highest.
        clock_reasons: Bits that say what keeps the clocks down.
        link: PCIe generation and width now, then the best of each.
        processes: pid and bytes of each program that computes on it; None where the driver does not tell.
        drawing: The same, of each program that draws.
        faults: Calls that fail.
    """

    uuid: str
    bus: int
    name: str = "NVIDIA A40"
    memory_bytes: int = A40_BYTES
    used_bytes: int = 0
    reserved_bytes: int = 600 << 20
    busy: BusySeconds = idle
    window_s: float = 1 / 6
    power_mw: int = 70_000
    percent: int | None = None
    persistent: bool = True
    ecc: bool = False
    mig: bool = False
    bus_bits: int = 384
    sm_mhz: tuple[int, int] = (1740, 1740)
    clock_reasons: int = 0
    link: tuple[int, int, int, int] = (4, 16, 4, 16)
    processes: Sequence[tuple[int, int | None]] = ()
    drawing: Sequence[tuple[int, int | None]] = ()
    faults: Sequence[Fault] = field(default_factory=list)

    def utilisation(self, at_s: float) -> int:
        """Return the whole percents of the last full window."""
        if self.percent is not None:
            return self.percent
        end_s = math.floor(at_s / self.window_s) * self.window_s
        return math.floor(100 * (self.busy(end_s) - self.busy(end_s - self.window_s)) / self.window_s)


class FakeNvml:
    """The library: some GPUs in NVML's own order, on a clock that tests may set."""

    def __init__(
        self,
        gpus: Sequence[FakeGpu],
        *,
        clock: Callable[[], float] = time.monotonic,
        init_code: int = pynvml.NVML_SUCCESS,
        missing: Sequence[str] = (),
    ) -> None:
        self.gpus = list(gpus)
        self.calls: list[str] = []
        self._clock = clock
        self._init_code = init_code
        self._missing = set(missing)

    def __getattr__(self, symbol: str) -> Callable[..., int]:
        implementation = getattr(_Symbols, symbol, None)
        if implementation is None or symbol in self._missing:
            raise AttributeError(symbol)

        def call(*args: Any) -> int:
            self.calls.append(symbol)
            if args and isinstance(args[0], pynvml.c_nvmlDevice_t):
                gpu = self.gpus[ctypes.cast(args[0], ctypes.c_void_p).value - 1]
                return self._fault(gpu, symbol) or implementation(self, gpu, *args[1:]) or pynvml.NVML_SUCCESS
            return implementation(self, *args) or pynvml.NVML_SUCCESS

        return call

    @property
    def now_s(self) -> float:
        """The time on the library's clock."""
        return self._clock()

    def _fault(self, gpu: FakeGpu, symbol: str) -> int:
        for fault in gpu.faults:
            if fault.symbol in ("", symbol) and fault.from_s <= self.now_s < fault.until_s:
                return fault.code
        return pynvml.NVML_SUCCESS

    def open_gpu(self, gpu: FakeGpu, symbol: str, handle: Any) -> int:
        """Write the GPU's handle, its place in the list counted from 1."""
        ctypes.cast(ctypes.pointer(handle._obj), ctypes.POINTER(ctypes.c_void_p))[0] = self.gpus.index(gpu) + 1
        return self._fault(gpu, symbol)


class _Symbols:
    """The library's functions. Those about a GPU get the FakeGpu in place of its handle; None means success."""

    @staticmethod
    def nvmlInitWithFlags(library: FakeNvml, flags: int) -> int:
        return library._init_code

    @staticmethod
    def nvmlShutdown(library: FakeNvml) -> None:
        pass

    @staticmethod
    def nvmlDeviceGetCount_v2(library: FakeNvml, count: Any) -> None:
        count._obj.value = len(library.gpus)

    @staticmethod
    def nvmlDeviceGetHandleByIndex_v2(library: FakeNvml, index: Any, handle: Any) -> int:
        return library.open_gpu(library.gpus[index.value], "nvmlDeviceGetHandleByIndex_v2", handle)

    @staticmethod
    def nvmlDeviceGetHandleByUUID(library: FakeNvml, uuid: Any, handle: Any) -> int:
        for gpu in library.gpus:
            if gpu.uuid.encode() == uuid.value:
                return library.open_gpu(gpu, "nvmlDeviceGetHandleByUUID", handle)
        return pynvml.NVML_ERROR_NOT_FOUND

    @staticmethod
    def nvmlDeviceGetName(library: FakeNvml, gpu: FakeGpu, text: Any, length: Any) -> None:
        text.value = gpu.name.encode()

    @staticmethod
    def nvmlDeviceGetUUID(library: FakeNvml, gpu: FakeGpu, text: Any, length: Any) -> None:
        text.value = gpu.uuid.encode()

    @staticmethod
    def nvmlDeviceGetPciInfo_v3(library: FakeNvml, gpu: FakeGpu, pci: Any) -> None:
        pci._obj.domain, pci._obj.bus, pci._obj.device = 0, gpu.bus, 0
        pci._obj.busId = f"00000000:{gpu.bus:02X}:00.0".encode()

    @staticmethod
    def nvmlDeviceGetMemoryInfo(library: FakeNvml, gpu: FakeGpu, memory: Any) -> None:
        memory._obj.total, memory._obj.used = gpu.memory_bytes, gpu.used_bytes + gpu.reserved_bytes
        memory._obj.free = gpu.memory_bytes - memory._obj.used

    @staticmethod
    def nvmlDeviceGetMemoryInfo_v2(library: FakeNvml, gpu: FakeGpu, memory: Any) -> int:
        if memory._obj.version != pynvml.nvmlMemory_v2:
            return pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        memory._obj.total, memory._obj.used = gpu.memory_bytes, gpu.used_bytes
        memory._obj.reserved = gpu.reserved_bytes
        memory._obj.free = gpu.memory_bytes - gpu.used_bytes - gpu.reserved_bytes
        return pynvml.NVML_SUCCESS

    @staticmethod
    def nvmlDeviceGetUtilizationRates(library: FakeNvml, gpu: FakeGpu, utilisation: Any) -> None:
        utilisation._obj.gpu, utilisation._obj.memory = gpu.utilisation(library.now_s), 0

    @staticmethod
    def nvmlDeviceGetPowerUsage(library: FakeNvml, gpu: FakeGpu, milliwatts: Any) -> None:
        milliwatts._obj.value = gpu.power_mw

    @staticmethod
    def nvmlSystemGetDriverVersion(library: FakeNvml, text: Any, length: Any) -> None:
        text.value = DRIVER_VERSION.encode()

    @staticmethod
    def nvmlDeviceGetPersistenceMode(library: FakeNvml, gpu: FakeGpu, state: Any) -> None:
        state._obj.value = gpu.persistent

    @staticmethod
    def nvmlDeviceGetEccMode(library: FakeNvml, gpu: FakeGpu, now: Any, pending: Any) -> None:
        now._obj.value = pending._obj.value = gpu.ecc

    @staticmethod
    def nvmlDeviceGetMigMode(library: FakeNvml, gpu: FakeGpu, now: Any, pending: Any) -> None:
        now._obj.value = pending._obj.value = gpu.mig

    @staticmethod
    def nvmlDeviceGetMemoryBusWidth(library: FakeNvml, gpu: FakeGpu, bits: Any) -> None:
        bits._obj.value = gpu.bus_bits

    @staticmethod
    def nvmlDeviceGetClockInfo(library: FakeNvml, gpu: FakeGpu, kind: Any, megahertz: Any) -> None:
        megahertz._obj.value = gpu.sm_mhz[0]

    @staticmethod
    def nvmlDeviceGetMaxClockInfo(library: FakeNvml, gpu: FakeGpu, kind: Any, megahertz: Any) -> None:
        megahertz._obj.value = gpu.sm_mhz[1]

    @staticmethod
    def nvmlDeviceGetCurrentClocksEventReasons(library: FakeNvml, gpu: FakeGpu, reasons: Any) -> None:
        reasons._obj.value = gpu.clock_reasons

    @staticmethod
    def nvmlDeviceGetCurrentClocksThrottleReasons(library: FakeNvml, gpu: FakeGpu, reasons: Any) -> None:
        reasons._obj.value = gpu.clock_reasons

    @staticmethod
    def nvmlDeviceGetCurrPcieLinkGeneration(library: FakeNvml, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[0]

    @staticmethod
    def nvmlDeviceGetCurrPcieLinkWidth(library: FakeNvml, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[1]

    @staticmethod
    def nvmlDeviceGetMaxPcieLinkGeneration(library: FakeNvml, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[2]

    @staticmethod
    def nvmlDeviceGetMaxPcieLinkWidth(library: FakeNvml, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[3]

    @staticmethod
    def nvmlDeviceGetComputeRunningProcesses_v3(library: FakeNvml, gpu: FakeGpu, count: Any, processes: Any) -> int:
        return _list_processes(gpu.processes, count, processes)

    @staticmethod
    def nvmlDeviceGetGraphicsRunningProcesses_v3(library: FakeNvml, gpu: FakeGpu, count: Any, processes: Any) -> int:
        return _list_processes(gpu.drawing, count, processes)

    @staticmethod
    def nvmlDeviceGetSamples(
        library: FakeNvml, gpu: FakeGpu, kind: Any, last_seen_us: Any, value_kind: Any, count: Any, samples: Any
    ) -> int:
        """The ring of utilisation samples, by the protocol of two calls: first for the size, then for the samples."""
        if kind.value != pynvml.NVML_GPU_UTILIZATION_SAMPLES:
            return pynvml.NVML_ERROR_NOT_SUPPORTED
        newest = math.floor(library.now_s / gpu.window_s)
        ends_s = [number * gpu.window_s for number in range(max(newest - RING_ENTRIES + 1, 1), newest + 1)]
        ends_s = [end_s for end_s in ends_s if end_s * 1e6 > last_seen_us.value]
        count._obj.value = len(ends_s)
        value_kind._obj.value = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        for place, end_s in enumerate(ends_s if samples is not None else []):
            samples[place].timeStamp = round(end_s * 1e6)
            samples[place].sampleValue.uiVal = gpu.utilisation(end_s)
        return pynvml.NVML_SUCCESS if ends_s else pynvml.NVML_ERROR_NOT_FOUND


def _list_processes(running: Sequence[tuple[int, int | None]], count: Any, processes: Any) -> int:
    """Write down programs by the protocol of two calls: first for their number, then for the programs."""
    room = count._obj.value
    count._obj.value = len(running)
    if processes is None or room < len(running):
        return pynvml.NVML_ERROR_INSUFFICIENT_SIZE if running else pynvml.NVML_SUCCESS
    for place, (pid, n_bytes) in enumerate(running):
        processes[place].pid = pid
        processes[place].usedGpuMemory = UNTOLD if n_bytes is None else n_bytes
    return pynvml.NVML_SUCCESS


@contextlib.contextmanager
def installed(library: FakeNvml) -> Iterator[FakeNvml]:
    """Put the double in the place of the shared object, and take it away again."""
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield library
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
