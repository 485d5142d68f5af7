from __future__ import annotations

import pynvml
import pytest

from k3prof.collectors.nvml_library import WatchedGpu
from k3prof.collectors.nvml_topology import gpu_paths, tell_topology
from k3prof.core.device import Device, DeviceKind
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.machine.gpu import GpuPath
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import FakeGpu, Fault


def told(gpus: list[FakeGpu], **library) -> list[DeviceEvent]:
    events: list[DeviceEvent] = []
    with installed(FakeNvml(gpus, **library)):
        tell_topology([WatchedGpu(f"CUDA{place}", gpu.uuid, events.append) for place, gpu in enumerate(gpus)])
    return events


@pytest.mark.parametrize(
    ("level", "accesses", "text"),
    [
        (pynvml.NVML_TOPOLOGY_SINGLE, (0, 1), "over one PCIe switch (PIX); peer access: reads, writes"),
        (pynvml.NVML_TOPOLOGY_SYSTEM, (), "between NUMA nodes (SYS); peer access: none"),
        (pynvml.NVML_TOPOLOGY_HOSTBRIDGE, (0, 1, 2, 3), "(PHB); peer access: reads, writes, NVLink, atomics"),
        (99, (), "level 99; peer access: none"),
    ],
)
def test_each_pair_is_told_once_with_its_way_and_what_it_allows(level, accesses, text):
    gpus = [FakeGpu(f"GPU-{place}", place + 1) for place in range(3)]
    events = told(gpus, topology=level, peer_accesses=accesses)
    assert [(event.device, event.detail[:5]) for event in events] == [
        ("CUDA0", "CUDA1"),
        ("CUDA0", "CUDA2"),
        ("CUDA1", "CUDA2"),
    ]
    assert all(event.kind is EventKind.PEER and event.detail.endswith(text) for event in events)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_GPU_IS_LOST])
def test_a_way_that_the_driver_does_not_tell_is_left_out_and_neither_gpu_is_blamed(code):
    mute = Fault(code, "nvmlDeviceGetTopologyCommonAncestor")
    assert told([FakeGpu("GPU-1", 1), FakeGpu("GPU-2", 2, faults=[mute])]) == []


def by_node(one: FakeGpu, other: FakeGpu) -> int:
    """Two GPUs at a switch on each of two sockets."""
    return pynvml.NVML_TOPOLOGY_SINGLE if one.bus // 2 == other.bus // 2 else pynvml.NVML_TOPOLOGY_SYSTEM


def test_a_machine_is_asked_for_the_ways_between_the_gpus_that_one_sees():
    devices = [Device(f"CUDA{place}", DeviceKind.CUDA, uuid=f"GPU-{place + 1}") for place in range(3)]
    with installed(FakeNvml([FakeGpu(f"GPU-{bus}", bus) for bus in range(4)], topology=by_node)):
        assert gpu_paths(devices) == [
            GpuPath("CUDA0", "CUDA1", "between NUMA nodes (SYS); peer access: none"),
            GpuPath("CUDA0", "CUDA2", "between NUMA nodes (SYS); peer access: none"),
            GpuPath("CUDA1", "CUDA2", "over one PCIe switch (PIX); peer access: none"),
        ]
        assert gpu_paths(devices[:1]) == gpu_paths([]) == []


def test_without_a_driver_there_are_no_ways():
    with installed(FakeNvml([], init_code=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)):
        assert gpu_paths([Device("CUDA0", DeviceKind.CUDA, uuid="GPU-1")] * 2) == []
