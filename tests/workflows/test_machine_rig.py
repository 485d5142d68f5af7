from __future__ import annotations

import pytest

from k3prof.collectors.host_facts import host_facts
from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.machine.host_bandwidth import BandwidthReading, HostBandwidth
from k3prof.errors import ConfigError
from k3prof.llama.devices import DevicePlan
from k3prof.store.bandwidth import write_bandwidth
from k3prof.workflows.bandwidth import bandwidth_path
from k3prof.workflows.machine_rig import machine_rig, named_rig

STAND_IN = Device("RPC0", DeviceKind.STAND_IN, "stand-in: one thread of this machine's processor")
A40 = Device("CUDA0", DeviceKind.CUDA, "NVIDIA A40", memory_bytes=46_068 * 2**20)
NAMELESS = Device("CUDA1", DeviceKind.CUDA, "something new", memory_bytes=2**34)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def plan(*devices):
    return DevicePlan((*devices, HOST), tuple(device.name for device in devices))


def test_what_was_not_measured_is_not_known():
    rig = machine_rig(plan(STAND_IN))
    assert [rig.bandwidth(name) for name in ("RPC0", "CPU")] == [None, None]
    assert (rig.devices[0].model, rig.devices[0].usable_bytes, rig.link) == ("", None, None)
    assert rig.host.memory_bytes > 2**30


def test_a_stand_in_reads_the_hosts_memory_with_one_thread():
    facts = host_facts()
    readings = (BandwidthReading(1, (10.0, 12.0)), BandwidthReading(2, (20.0,)))
    write_bandwidth(bandwidth_path(), HostBandwidth(facts.cpu_model, facts.cores_usable, 2**30, 0, readings))
    rig = machine_rig(plan(STAND_IN))
    assert [(rig.bandwidth(name).gb_per_s, rig.bandwidth(name).origin) for name in ("RPC0", "CPU")] == [
        (12.0, "measured"),
        (20.0, "measured"),
    ]


def test_gpus_are_known_by_their_datasheets():
    rig = machine_rig(plan(A40, NAMELESS))
    assert (rig.bandwidth("CUDA0").gb_per_s, rig.bandwidth("CUDA0").origin) == (696, "datasheet")
    assert rig.bandwidth("CUDA1") is None
    assert rig.devices[1].memory_bytes == 2**34
    assert rig.link.bandwidth.gb_per_s == 31.5


def test_a_rig_is_named_or_described(tmp_path):
    (tmp_path / "mine.toml").write_text('[[devices]]\ngpu = "H200"\n')
    assert named_rig("2xA40").name == "2xA40"
    assert [device.model for device in named_rig(str(tmp_path / "mine.toml")).devices] == ["H200"]
    with pytest.raises(ConfigError, match=r"gone\.toml: No such file"):
        named_rig("gone.toml")
