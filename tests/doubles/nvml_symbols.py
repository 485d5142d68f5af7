"""The functions of NVIDIA's management library, as far as k3prof calls them, acted by scripted GPUs."""

# ruff: noqa: N802 (the functions bear the names of the library's symbols)
from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import pynvml

from tests.doubles.nvml_gpu import FakeGpu

UNTOLD = 2**64 - 1


class Symbols:
    """The library's functions. Those about a GPU get the FakeGpu in place of its handle; None means success."""

    @staticmethod
    def nvmlInitWithFlags(library: Any, flags: int) -> int:
        return library.init_code

    @staticmethod
    def nvmlShutdown(library: Any) -> None:
        pass

    @staticmethod
    def nvmlDeviceGetCount_v2(library: Any, count: Any) -> None:
        count._obj.value = len(library.gpus)

    @staticmethod
    def nvmlDeviceGetHandleByIndex_v2(library: Any, index: Any, handle: Any) -> int:
        return library.open_gpu(library.gpus[index.value], "nvmlDeviceGetHandleByIndex_v2", handle)

    @staticmethod
    def nvmlDeviceGetHandleByUUID(library: Any, uuid: Any, handle: Any) -> int:
        for gpu in library.gpus:
            if gpu.uuid.encode() == uuid.value:
                return library.open_gpu(gpu, "nvmlDeviceGetHandleByUUID", handle)
        return pynvml.NVML_ERROR_NOT_FOUND

    @staticmethod
    def nvmlDeviceGetName(library: Any, gpu: FakeGpu, text: Any, length: Any) -> None:
        text.value = gpu.name.encode()

    @staticmethod
    def nvmlDeviceGetUUID(library: Any, gpu: FakeGpu, text: Any, length: Any) -> None:
        text.value = gpu.uuid.encode()

    @staticmethod
    def nvmlDeviceGetPciInfo_v3(library: Any, gpu: FakeGpu, pci: Any) -> None:
        pci._obj.domain, pci._obj.bus, pci._obj.device = 0, gpu.bus, 0
        pci._obj.busId = f"00000000:{gpu.bus:02X}:00.0".encode()

    @staticmethod
    def nvmlDeviceGetMemoryInfo(library: Any, gpu: FakeGpu, memory: Any) -> None:
        memory._obj.total, memory._obj.used = gpu.memory_bytes, gpu.used_bytes + gpu.reserved_bytes
        memory._obj.free = gpu.memory_bytes - memory._obj.used

    @staticmethod
    def nvmlDeviceGetMemoryInfo_v2(library: Any, gpu: FakeGpu, memory: Any) -> int:
        if memory._obj.version != pynvml.nvmlMemory_v2:
            return pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH
        memory._obj.total, memory._obj.used = gpu.memory_bytes, gpu.used_bytes
        memory._obj.reserved = gpu.reserved_bytes
        memory._obj.free = gpu.memory_bytes - gpu.used_bytes - gpu.reserved_bytes
        return pynvml.NVML_SUCCESS

    @staticmethod
    def nvmlDeviceGetUtilizationRates(library: Any, gpu: FakeGpu, utilisation: Any) -> None:
        utilisation._obj.gpu = gpu.utilisation(library.now_s)
        utilisation._obj.memory = gpu.memory_utilisation(library.now_s)

    @staticmethod
    def nvmlDeviceGetPowerUsage(library: Any, gpu: FakeGpu, milliwatts: Any) -> None:
        milliwatts._obj.value = gpu.power_mw

    @staticmethod
    def nvmlSystemGetDriverVersion(library: Any, text: Any, length: Any) -> None:
        text.value = library.driver.encode()

    @staticmethod
    def nvmlDeviceGetPersistenceMode(library: Any, gpu: FakeGpu, state: Any) -> None:
        state._obj.value = gpu.persistent

    @staticmethod
    def nvmlDeviceGetEccMode(library: Any, gpu: FakeGpu, now: Any, pending: Any) -> None:
        now._obj.value = pending._obj.value = gpu.ecc

    @staticmethod
    def nvmlDeviceGetMigMode(library: Any, gpu: FakeGpu, now: Any, pending: Any) -> None:
        now._obj.value = pending._obj.value = gpu.mig

    @staticmethod
    def nvmlDeviceGetMemoryBusWidth(library: Any, gpu: FakeGpu, bits: Any) -> None:
        bits._obj.value = gpu.bus_bits

    @staticmethod
    def nvmlDeviceGetClockInfo(library: Any, gpu: FakeGpu, kind: Any, megahertz: Any) -> None:
        megahertz._obj.value = gpu.memory_mhz if kind.value == pynvml.NVML_CLOCK_MEM else gpu.sm_mhz[0]

    @staticmethod
    def nvmlDeviceGetMaxClockInfo(library: Any, gpu: FakeGpu, kind: Any, megahertz: Any) -> None:
        megahertz._obj.value = gpu.sm_mhz[1]

    @staticmethod
    def nvmlDeviceGetCurrentClocksEventReasons(library: Any, gpu: FakeGpu, reasons: Any) -> None:
        reasons._obj.value = gpu.clock_reasons

    @staticmethod
    def nvmlDeviceGetCurrentClocksThrottleReasons(library: Any, gpu: FakeGpu, reasons: Any) -> None:
        reasons._obj.value = gpu.clock_reasons

    @staticmethod
    def nvmlDeviceGetCurrPcieLinkGeneration(library: Any, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[0]

    @staticmethod
    def nvmlDeviceGetCurrPcieLinkWidth(library: Any, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[1]

    @staticmethod
    def nvmlDeviceGetMaxPcieLinkGeneration(library: Any, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[2]

    @staticmethod
    def nvmlDeviceGetMaxPcieLinkWidth(library: Any, gpu: FakeGpu, figure: Any) -> None:
        figure._obj.value = gpu.link[3]

    @staticmethod
    def nvmlDeviceGetComputeRunningProcesses_v3(library: Any, gpu: FakeGpu, count: Any, processes: Any) -> int:
        return _list_processes(gpu.processes, count, processes)

    @staticmethod
    def nvmlDeviceGetGraphicsRunningProcesses_v3(library: Any, gpu: FakeGpu, count: Any, processes: Any) -> int:
        return _list_processes(gpu.drawing, count, processes)

    @staticmethod
    def nvmlDeviceGetSamples(
        library: Any, gpu: FakeGpu, kind: Any, last_seen_us: Any, value_kind: Any, count: Any, samples: Any
    ) -> int:
        """By the protocol of two calls: first for the room that is needed, then for the samples."""
        if kind.value not in (pynvml.NVML_GPU_UTILIZATION_SAMPLES, pynvml.NVML_MEMORY_UTILIZATION_SAMPLES):
            return pynvml.NVML_ERROR_NOT_SUPPORTED
        recorded = [one for one in gpu.recorded(kind.value, library.now_s) if one[0] > last_seen_us.value or not one[0]]
        value_kind._obj.value = pynvml.NVML_VALUE_TYPE_UNSIGNED_INT
        count._obj.value = max(gpu.record.room, len(recorded)) if samples is None else len(recorded)
        for place, (at_us, percent) in enumerate(recorded if samples is not None else []):
            samples[place].timeStamp, samples[place].sampleValue.uiVal = at_us, percent
        return pynvml.NVML_SUCCESS if recorded else pynvml.NVML_ERROR_NOT_FOUND

    @staticmethod
    def nvmlDeviceGetEncoderUtilization(library: Any, gpu: FakeGpu, percent: Any, period_us: Any) -> None:
        percent._obj.value, period_us._obj.value = 0, gpu.encoder_period_us

    @staticmethod
    def nvmlDeviceGetFieldValues(library: Any, gpu: FakeGpu, count: Any, values: Any) -> None:
        for value in values._obj[: count.value]:
            found = gpu.fields.get(value.fieldId)
            value.nvmlReturn = pynvml.NVML_SUCCESS if found else pynvml.NVML_ERROR_NOT_SUPPORTED
            if found:
                value.valueType, amount_at = found
                member = "uiVal" if value.valueType == pynvml.NVML_VALUE_TYPE_UNSIGNED_INT else "ullVal"
                setattr(value.value, member, int(amount_at(library.now_s)))

    @staticmethod
    def nvmlDeviceGetTotalEnergyConsumption(library: Any, gpu: FakeGpu, millijoules: Any) -> None:
        millijoules._obj.value = round(gpu.energy_mj(library.now_s))

    @staticmethod
    def nvmlDeviceGetPcieThroughput(library: Any, gpu: FakeGpu, direction: Any, kilobytes_per_s: Any) -> None:
        kilobytes_per_s._obj.value = gpu.pcie_kb_per_s[direction.value]

    @staticmethod
    def nvmlDeviceGetPerformanceState(library: Any, gpu: FakeGpu, state: Any) -> None:
        state._obj.value = gpu.p_state

    @staticmethod
    def nvmlDeviceGetTopologyCommonAncestor(library: Any, gpu: FakeGpu, peer: FakeGpu, level: Any) -> None:
        level._obj.value = library.topology(gpu, peer) if callable(library.topology) else library.topology

    @staticmethod
    def nvmlDeviceGetP2PStatus(library: Any, gpu: FakeGpu, peer: FakeGpu, access: int, status: Any) -> None:
        allowed = access in library.peer_accesses
        status._obj.value = pynvml.NVML_P2P_STATUS_OK if allowed else pynvml.NVML_P2P_STATUS_CHIPSET_NOT_SUPPORTED

    @staticmethod
    def nvmlEventSetCreate(library: Any, events: Any) -> None:
        pass

    @staticmethod
    def nvmlDeviceGetSupportedEventTypes(library: Any, gpu: FakeGpu, kinds: Any) -> None:
        kinds._obj.value = pynvml.nvmlEventTypeXidCriticalError | pynvml.nvmlEventTypeDoubleBitEccError

    @staticmethod
    def nvmlDeviceRegisterEvents(library: Any, gpu: FakeGpu, kinds: Any, events: Any) -> None:
        missed = [error for error in gpu.errors if error.at_s <= library.now_s or not error.kind & kinds.value]
        library.pending += [(gpu, error) for error in gpu.errors if error not in missed]

    @staticmethod
    def nvmlEventSetWait_v2(library: Any, events: Any, data: Any, patience_ms: Any) -> int:
        for waiting in library.pending:
            gpu, error = waiting
            if error.at_s <= library.now_s:
                library.pending.remove(waiting)
                data._obj.device = ctypes.cast(library.gpus.index(gpu) + 1, pynvml.c_nvmlDevice_t)
                data._obj.eventType, data._obj.eventData = error.kind, error.number
                return pynvml.NVML_SUCCESS
        return pynvml.NVML_ERROR_TIMEOUT


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
