"""NVIDIA's GPUs: which are here, and everything that can be watched of them."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pynvml

from k3prof.collectors.nvml_counters import GpuCounters, pcie_throughputs, pcie_totals, quick_counters, slow_counters
from k3prof.collectors.nvml_events import ErrorWatch
from k3prof.collectors.nvml_library import NO_NVIDIA, Tell, WatchedGpu, library, required
from k3prof.collectors.nvml_processes import ProgramWatch
from k3prof.collectors.nvml_topology import tell_topology
from k3prof.collectors.nvml_utilisation import UtilisationRecord
from k3prof.collectors.source import RecordSource, Source
from k3prof.core.device import Device, DeviceKind
from k3prof.errors import MachineError


@dataclass(frozen=True)
class GpuIntervals:
    """How often GPUs are read.

    Attributes:
        quick_ns: Counters whose reading takes microseconds.
        slow_ns: Those that take up to some milliseconds, and at least the driver's record of utilisation.
        pcie_ns: PCIe throughputs, of GPUs that do not count bytes; each reading takes 20 ms in each direction.
    """

    quick_ns: int = 50_000_000
    slow_ns: int = 1_000_000_000
    pcie_ns: int = 500_000_000


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
        except NO_NVIDIA:
            return []
        except pynvml.NVMLError as error:
            raise MachineError(f"the NVIDIA driver refuses: {error}", "see what `nvidia-smi` says") from None
        gpus = [_describe(index) for index in range(required("count its GPUs", pynvml.nvmlDeviceGetCount))]
    gpus.sort(key=lambda gpu: gpu.pci_bus_id or "")
    return [replace(gpu, name=f"CUDA{index}") for index, gpu in enumerate(gpus)]


def open_gpus(
    gpus: Sequence[tuple[str, str]], intervals: GpuIntervals, tell: Tell
) -> tuple[list[Source], list[RecordSource]]:
    """Start to watch GPUs.

    Each GPU has sources of its own, so that one whose driver calls hang delays no other. A GPU that cannot be found,
    or that is lost later, is told once and unknown from then on.

    Args:
        gpus: Of each, the device name that samples and events shall carry and the UUID.
        intervals: How often to read.
        tell: Gets what happens and what is found out; called from any thread.

    Raises:
        MachineError: There is no NVML, or it refuses.
    """
    required("start", pynvml.nvmlInit)
    driver = str(required("tell its version", pynvml.nvmlSystemGetDriverVersion))
    watched = [WatchedGpu(device, uuid, tell) for device, uuid in gpus]
    polled: list[Source] = []
    recorded: list[RecordSource] = [ErrorWatch(watched)]
    for gpu in watched:
        polled += _polled(gpu, intervals, driver)
        recorded += [UtilisationRecord(gpu, intervals.slow_ns), ProgramWatch(gpu)]
    tell_topology(watched)
    return polled, recorded


def _polled(gpu: WatchedGpu, intervals: GpuIntervals, driver: str) -> list[Source]:
    found = [
        GpuCounters(gpu, quick_counters(), intervals.quick_ns),
        GpuCounters(gpu, slow_counters(driver), intervals.slow_ns),
        GpuCounters(gpu, pcie_totals(), intervals.slow_ns),
    ]
    if not found[-1].channels:
        found.append(GpuCounters(gpu, pcie_throughputs(), intervals.pcie_ns))
    return [source for source in found if source.channels]


def _describe(index: int) -> Device:
    handle = required(f"open GPU {index} (NVML's number)", lambda: pynvml.nvmlDeviceGetHandleByIndex(index))
    pci = required(f"tell the PCI address of GPU {index}", lambda: pynvml.nvmlDeviceGetPciInfo(handle))
    try:
        # Every version of the call has the same total.
        memory_bytes: int | None = int(pynvml.nvmlDeviceGetMemoryInfo(handle).total)
    except pynvml.NVMLError:
        memory_bytes = None
    return Device(
        name="",
        kind=DeviceKind.CUDA,
        description=required(f"name GPU {index}", lambda: pynvml.nvmlDeviceGetName(handle)),
        memory_bytes=memory_bytes,
        uuid=required(f"tell the UUID of GPU {index}", lambda: pynvml.nvmlDeviceGetUUID(handle)),
        pci_bus_id=f"{pci.domain:08x}:{pci.bus:02x}:{pci.device:02x}.0",
    )
