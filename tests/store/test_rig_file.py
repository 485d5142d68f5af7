from __future__ import annotations

import pytest

from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.rig_file import read_rig

WHOLE = """
name = "five A40s"

[[devices]]
gpu = "A40"
count = 4
free_mib = 45490
bandwidth_gb_per_s = 560
bandwidth_is = "measured"

[[devices]]
gpu = "homemade"
memory_mib = 24000
bandwidth_gb_per_s = 300

[host]
memory_gib = 503
bandwidth_gb_per_s = 115

[link]
bandwidth_gb_per_s = 24
latency_us = 10
"""


def read(tmp_path, text):
    path = tmp_path / "rig.toml"
    path.write_text(text)
    return read_rig(path)


def problems(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        read(tmp_path, text)
    found = caught.value.problems if isinstance(caught.value, ConfigErrors) else (caught.value,)
    return [problem.message.removeprefix(f"{tmp_path}/") for problem in found]


def test_a_rig_is_read_whole(tmp_path):
    rig = read(tmp_path, WHOLE)
    assert rig.name == "five A40s"
    assert [(one.name, one.model) for one in rig.devices] == [(f"CUDA{i}", "A40") for i in range(4)] + [
        ("CUDA4", "homemade")
    ]
    assert [one.buffer_type for one in rig.devices] == [f"CUDA{i}" for i in range(5)]
    first, *_, last = rig.devices
    assert (first.memory_bytes, first.usable_bytes) == (46_068 * 2**20, 45_490 * 2**20)
    assert (first.bandwidth.gb_per_s, first.bandwidth.origin) == (560, "measured")
    assert (last.bandwidth.gb_per_s, last.bandwidth.origin) == (300, "given")
    assert (rig.host.memory_bytes, rig.host.bandwidth.gb_per_s) == (503 * 2**30, 115)
    assert (rig.link.bandwidth.gb_per_s, rig.link.latency_us) == (24, 10)


def test_a_gpu_in_the_table_needs_nothing_else(tmp_path):
    rig = read(tmp_path, '[[devices]]\ngpu = "A40"\n')
    assert rig.devices[0].bandwidth.origin == "datasheet"
    assert rig.link.bandwidth.gb_per_s == 31.5
    assert rig.name == str(tmp_path / "rig.toml")


def test_a_rig_without_bandwidth_is_refused(tmp_path):
    assert problems(tmp_path, "[[devices]]\nmemory_mib = 24000\n") == [
        "rig.toml: devices[0].bandwidth_gb_per_s: missing"
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "rig.toml: devices: missing"),
        ('name = "empty"', "rig.toml: devices: missing"),
        ("devices = []", "rig.toml: devices: an empty list"),
        ("[[devices]]\nbandwidth_gb_per_s = 300", "rig.toml: devices[0].memory_mib: missing"),
        ('[[devices]]\ngpu = "A41"', "rig.toml: devices[0].gpu: 'A41' is not in the table"),
        ('[[devices]]\ngpu = "A40"\ncount = 0', "rig.toml: devices[0].count: must be at least 1, not 0"),
        ('[[devices]]\ngpu = "A40"\ncount = 99999999', "rig.toml: devices: llama.cpp splits over at most 15 devices"),
        ('[[devices]]\ngpu = "A40"\nbandwith = 3', "rig.toml: devices[0].bandwith: unknown key"),
        ('[[devices]]\ngpu = "A40"\nbandwidth_is = "guessed"', "rig.toml: devices[0].bandwidth_is: "),
        ('[[devices]]\ngpu = "A40"\n[link]\nlatency_us = 3', "rig.toml: link.bandwidth_gb_per_s: missing"),
        ('[[devices]]\ngpu = "A40"\nbandwidth_gb_per_s = 0', "rig.toml: devices[0].bandwidth_gb_per_s: "),
        ('[[devices]]\ngpu = "A40"\nbandwidth_gb_per_s = inf', "rig.toml: devices[0].bandwidth_gb_per_s: "),
        ("devices = 5", "rig.toml: devices: must be a list, not 5"),
        ("[[devices]", "rig.toml: not TOML: "),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(tmp_path, text, message):
    (found,) = problems(tmp_path, text)
    assert found.startswith(message), found


def test_all_problems_are_named_together(tmp_path):
    text = '[[devices]]\nmemory_mib = 1\n[[devices]]\ngpu = "A41"\n'
    assert problems(tmp_path, text) == [
        "rig.toml: devices[0].bandwidth_gb_per_s: missing",
        "rig.toml: devices[1].gpu: 'A41' is not in the table",
    ]


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_rig(tmp_path / "none.toml")
