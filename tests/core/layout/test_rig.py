from __future__ import annotations

import pytest

from k3prof.core.layout.hardware import DATASHEETS
from k3prof.core.layout.rig import GPUS, RESERVED_BYTES, RigDevice, bandwidth_of, find_gpu, parse_rig
from k3prof.errors import ConfigError


def test_five_a40s():
    rig = parse_rig("5xA40")
    assert [device.name for device in rig.devices] == [f"CUDA{index}" for index in range(5)]
    assert {device.memory_bytes for device in rig.devices} == {46_068 * 2**20}
    assert {(device.bandwidth.gb_per_s, device.bandwidth.origin) for device in rig.devices} == {(696, "datasheet")}
    assert (rig.link.bandwidth.gb_per_s, rig.link.bandwidth.origin, rig.link.latency_us) == (31.5, "datasheet", None)
    assert rig.bandwidth("CPU") is None


@pytest.mark.parametrize("text", ["A40", "1xa40", "1 × A40", "1*A40"])
def test_one_gpu_may_be_written_in_several_ways(text):
    assert [device.model for device in parse_rig(text).devices] == ["A40"]


def test_different_gpus_are_joined_by_the_slowest_link():
    rig = parse_rig("1xH200+2xL40S")
    assert [device.model for device in rig.devices] == ["H200", "L40S", "L40S"]
    assert rig.link.bandwidth.gb_per_s == 31.5


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        ("5xA41", "--rig '5xA41': no GPU in the table is called 'A41'", "did you mean A40?"),
        ("5xB9000", "--rig '5xB9000': no GPU in the table is called 'B9000'", "describe others in a rig.toml"),
        ("0xA40", "--rig '0xA40': '0xA40' is no number of GPUs", "write 5xA40, or the path of a rig.toml"),
        ("", "--rig '': '' is no number of GPUs", "write 5xA40"),
        ("16xA40", "--rig '16xA40': llama.cpp splits over at most 15 devices, not 16", ""),
    ],
)
def test_what_is_no_rig_is_refused(text, message, hint):
    with pytest.raises(ConfigError) as caught:
        parse_rig(text)
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_every_gpu_in_the_table_has_a_datasheet():
    assert {gpu.name for gpu in GPUS} == {sheet.name for sheet in DATASHEETS}
    assert all(bandwidth_of(gpu).gb_per_s > 0 for gpu in GPUS)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA A40", "A40"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA A100-SXM4-80GB", "A100 80 SXM"),
        ("NVIDIA H100 80GB HBM3", "H100 SXM"),
    ],
)
def test_gpus_are_known_by_what_the_driver_calls_them(name, expected):
    assert find_gpu(name).name == expected


def test_a_nameless_device_is_no_gpu():
    assert find_gpu("") is None


def test_what_was_found_free_counts_before_what_is_assumed():
    device = parse_rig("A40").devices[0]
    assert device.usable_bytes == device.memory_bytes - RESERVED_BYTES
    assert RigDevice("CUDA0", device.kind, memory_bytes=100, free_bytes=70).usable_bytes == 70
    assert RigDevice("CUDA0", device.kind).usable_bytes is None
