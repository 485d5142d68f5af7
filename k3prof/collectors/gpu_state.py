"""What the NVIDIA driver says of each GPU at the moment: who uses it, and what slows it down."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from typing import TypeVar

import pynvml

from k3prof.collectors.nvml_library import Handle, library
from k3prof.collectors.nvml_processes import process_name
from k3prof.collectors.nvml_utilisation import LONGEST_WINDOW_NS, snapshot, window_ns
from k3prof.core.device import Device
from k3prof.core.machine.gpu import GpuProcess, GpuState, PcieLink

_SLOWING = {
    pynvml.nvmlClocksEventReasonSwPowerCap: "power limit",
    pynvml.nvmlClocksEventReasonHwSlowdown: "hardware slowdown",
    pynvml.nvmlClocksEventReasonSwThermalSlowdown: "temperature",
    pynvml.nvmlClocksEventReasonHwThermalSlowdown: "temperature (hardware)",
    pynvml.nvmlClocksEventReasonHwPowerBrakeSlowdown: "power brake",
    pynvml.nvmlClocksEventReasonSyncBoost: "held to the pace of another GPU",
}

T = TypeVar("T")


def gpu_states(gpus: Sequence[Device]) -> list[GpuState]:
    """Ask the driver about GPUs, by their UUIDs; what it does not tell is unknown."""
    with contextlib.suppress(pynvml.NVMLError), library():
        return [_state(gpu) for gpu in gpus]
    return [GpuState(gpu.name) for gpu in gpus]


def driver_version() -> str | None:
    """Return the driver's version, or None where there is no driver that tells."""
    with contextlib.suppress(pynvml.NVMLError), library():
        return str(pynvml.nvmlSystemGetDriverVersion())
    return None


def _state(gpu: Device) -> GpuState:
    try:
        return _ask(gpu, pynvml.nvmlDeviceGetHandleByUUID(gpu.uuid))
    except pynvml.NVMLError:
        # Lost or gone. A lost GPU is not asked again, since that can crash the driver.
        return GpuState(gpu.name)


def _ask(gpu: Device, handle: Handle) -> GpuState:
    # Only the second version of the call keeps apart what the driver has reserved.
    memory = _told(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle, version=pynvml.nvmlMemory_v2))
    older_memory = memory or _told(lambda: pynvml.nvmlDeviceGetMemoryInfo(handle))
    busy_frac, busy_window_ns = _busy(handle)
    slowed_by, held_by_setting = _clock_reasons(handle)
    ecc = _told(lambda: pynvml.nvmlDeviceGetEccMode(handle))
    mig = _told(lambda: pynvml.nvmlDeviceGetMigMode(handle))
    persistence = _told(lambda: pynvml.nvmlDeviceGetPersistenceMode(handle))
    return GpuState(
        name=gpu.name,
        memory_bytes=gpu.memory_bytes,
        free_bytes=int(older_memory.free) if older_memory else None,
        used_bytes=int(memory.used) if memory else None,
        busy_frac=busy_frac,
        busy_window_ns=busy_window_ns,
        sm_mhz=_told(lambda: pynvml.nvmlDeviceGetClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        highest_sm_mhz=_told(lambda: pynvml.nvmlDeviceGetMaxClockInfo(handle, pynvml.NVML_CLOCK_SM)),
        slowed_by=slowed_by,
        held_by_setting=held_by_setting,
        persistent=None if persistence is None else persistence == pynvml.NVML_FEATURE_ENABLED,
        ecc=None if ecc is None else ecc[0] == pynvml.NVML_FEATURE_ENABLED,
        bus_bits=_told(lambda: pynvml.nvmlDeviceGetMemoryBusWidth(handle)),
        mig=None if mig is None else mig[0] == pynvml.NVML_DEVICE_MIG_ENABLE,
        link=_link(handle),
        processes=_processes(handle),
    )


def _busy(handle: Handle) -> tuple[float | None, int | None]:
    """Return the busy share and the window it averages over."""
    percents = _told(lambda: snapshot(handle))
    if percents is None:
        return None, None
    busy_frac = None if math.isnan(percents[0]) else percents[0] / 100
    return busy_frac, _told(lambda: window_ns(handle)) or LONGEST_WINDOW_NS


def _clock_reasons(handle: Handle) -> tuple[tuple[str, ...], bool]:
    reasons = _told(lambda: pynvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    if reasons is None:
        # Its name until driver 535.
        reasons = _told(lambda: pynvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle)) or 0
    slowed_by = tuple(text for bit, text in _SLOWING.items() if reasons & bit)
    return slowed_by, bool(reasons & pynvml.nvmlClocksEventReasonApplicationsClocksSetting)


def _link(handle: Handle) -> PcieLink | None:
    figures = [
        _told(lambda: pynvml.nvmlDeviceGetCurrPcieLinkGeneration(handle)),
        _told(lambda: pynvml.nvmlDeviceGetCurrPcieLinkWidth(handle)),
        _told(lambda: pynvml.nvmlDeviceGetMaxPcieLinkGeneration(handle)),
        _told(lambda: pynvml.nvmlDeviceGetMaxPcieLinkWidth(handle)),
    ]
    known = [figure for figure in figures if figure is not None]
    return PcieLink(*known) if len(known) == len(figures) else None


def _processes(handle: Handle) -> tuple[GpuProcess, ...]:
    computing = _told(lambda: pynvml.nvmlDeviceGetComputeRunningProcesses(handle)) or []
    drawing = _told(lambda: pynvml.nvmlDeviceGetGraphicsRunningProcesses(handle)) or []
    found = {process.pid: process.usedGpuMemory for process in (*drawing, *computing)}
    return tuple(GpuProcess(pid, process_name(pid), memory) for pid, memory in sorted(found.items()))


def _told(call: Callable[[], T]) -> T | None:
    try:
        return call()
    except pynvml.NVMLError_GpuIsLost:
        raise
    except pynvml.NVMLError:
        return None
