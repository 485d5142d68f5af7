from __future__ import annotations

import os
import time

import pytest

from k3prof.core.device import Device, DeviceKind
from k3prof.core.machine.topology import describe_paths, told_paths
from k3prof.core.timeline import Counter, Series
from k3prof.llama.devices import DevicePlan
from k3prof.workflows.observe import Observer, gpus_of
from tests.doubles.nvml_library import built, gpu

S = 1_000_000_000
FOREIGN_PID = 2**22 + 7


@pytest.fixture
def seen(tmp_path, monkeypatch) -> tuple[list[Series], Observer]:
    """Three GPUs: one shared with another program, one that falls off after it was seen, one that lacks a counter."""
    fails_ns = time.monotonic_ns() + 3 * S
    library = built(
        tmp_path,
        [
            gpu("GPU-a", 1, f"program {os.getpid()}", f"program {FOREIGN_PID}", "wave 100000000 50000000 0"),
            gpu("GPU-b", 2, f"program {os.getpid()}", f"lost {fails_ns}", f"xid {fails_ns - S // 20} 79"),
            gpu("GPU-c", 3, "lacks nvmlDeviceGetTotalEnergyConsumption"),
        ],
    )
    for name, value in library.env.items():
        monkeypatch.setenv(name, value)
    devices = [Device(f"CUDA{n}", DeviceKind.CUDA, uuid=f"GPU-{letter}") for n, letter in enumerate("abc")]
    samples: list[Series] = []
    observer = Observer(gpus_of(DevicePlan(tuple(devices), ())), samples.extend)
    observer.own_pids.add(os.getpid())
    with observer:
        time.sleep(max(fails_ns - time.monotonic_ns(), 0) / S + 0.5)
    return samples, observer


def test_what_happens_to_gpus_while_they_are_watched_becomes_caveats(seen):
    samples, observer = seen
    found = {caveat.code: caveat.message for caveat in observer.caveats}
    assert found.keys() == {"device-lost", "gpu-xid", "gpu-shared", "counters-missing"}
    assert found["device-lost"].startswith("CUDA1: lost after")
    assert found["gpu-xid"].startswith("CUDA1: Xid 79 (the GPU has fallen off the bus), after")
    assert found["gpu-shared"] == f"CUDA0: another program computed there: pid {FOREIGN_PID}"
    told = found["counters-missing"].removeprefix("not offered by the driver: ").split("; ")
    assert [one.partition(" (")[0] for one in told] == ["CUDA0, CUDA1: pcie_tx_bytes", "CUDA2: energy_j"]
    assert {one.device for one in samples if one.counter is Counter.BUSY_FRAC} == {"CUDA0", "CUDA1", "CUDA2"}
    assert describe_paths(told_paths(observer.events)) == [
        "all 3 pairs: within one NUMA node (NODE); peer access: reads, writes"
    ]
