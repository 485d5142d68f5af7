"""How GPUs reach each other, which does not change while they are watched."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from itertools import combinations

import pynvml

from k3prof.collectors.nvml_library import Handle, WatchedGpu, library
from k3prof.core.device import Device
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.machine.gpu import GpuPath
from k3prof.core.machine.topology import told_paths

_PATHS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "on one board",
    pynvml.NVML_TOPOLOGY_SINGLE: "over one PCIe switch (PIX)",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "over several PCIe switches (PXB)",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "over a PCIe host bridge (PHB)",
    pynvml.NVML_TOPOLOGY_NODE: "within one NUMA node (NODE)",
    pynvml.NVML_TOPOLOGY_SYSTEM: "between NUMA nodes (SYS)",
}
_ACCESSES = {0: "reads", 1: "writes", 2: "NVLink", 3: "atomics"}
"""NVML's numbers of what one GPU may do in another's memory."""


def gpu_paths(gpus: Sequence[Device]) -> list[GpuPath]:
    """Ask the driver how GPUs reach each other; pairs of which it does not tell are left out."""
    events: list[DeviceEvent] = []
    with contextlib.suppress(pynvml.NVMLError), library():
        tell_topology([WatchedGpu(gpu.name, gpu.uuid or "", events.append) for gpu in gpus])
    return told_paths(events)


def tell_topology(gpus: Sequence[WatchedGpu]) -> None:
    """Tell of each pair of GPUs which way data go between them, and what one may do in the other's memory."""
    for gpu, peer in combinations(gpus, 2):
        if (text := _between(gpu, peer)) is not None:
            gpu.tell(EventKind.PEER, f"{peer.name}: {text}")


def _between(gpu: WatchedGpu, peer: WatchedGpu) -> str | None:
    return gpu.ask(lambda handle: peer.ask(lambda other: _describe(handle, other)))


def _describe(handle: Handle, peer: Handle) -> str | None:
    """Say how one GPU reaches another; None where the driver does not tell, even for the loss of either of them."""
    try:
        level = pynvml.nvmlDeviceGetTopologyCommonAncestor(handle, peer)
    except pynvml.NVMLError:
        return None
    allowed = [name for number, name in _ACCESSES.items() if _allows(handle, peer, number)]
    return f"{_PATHS.get(level, f'level {level}')}; peer access: {', '.join(allowed) or 'none'}"


def _allows(handle: Handle, peer: Handle, access: int) -> bool:
    try:
        return bool(pynvml.nvmlDeviceGetP2PStatus(handle, peer, access) == pynvml.NVML_P2P_STATUS_OK)
    except pynvml.NVMLError:
        return False
