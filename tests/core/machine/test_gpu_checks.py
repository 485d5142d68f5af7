from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.machine.diagnosis import Level
from k3prof.core.machine.gpu import GpuProcess, GpuState, PcieLink
from k3prof.core.machine.gpu_checks import check_gpus, without_driver
from tests.doubles.machines import GB, a40

AT_WORK = {"busy_frac": 0.97, "sm_mhz": 1740}


def test_idle_gpus_in_good_order_give_no_finding_though_their_clocks_and_links_are_low():
    assert check_gpus([a40("CUDA0"), a40("CUDA1")]) == []
    assert check_gpus([]) == []


def test_what_a_driver_does_not_tell_is_held_against_nothing_but_the_missing_busy_share():
    (finding,) = check_gpus([GpuState("CUDA0")])
    assert (finding.level, finding.subject) == (Level.WARNING, "counters")


BAD = [
    (
        {"processes": (GpuProcess(31, "python3", 12 * GB),), "used_bytes": 12 * GB},
        *(Level.WARNING, "GPU in use", "CUDA1: python3 (pid 31) holds 12.0 GB", "kill 31"),
    ),
    ({"processes": (GpuProcess(31),)}, Level.WARNING, "GPU in use", "CUDA1: a program (pid 31)", "kill 31"),
    ({"used_bytes": 22 * GB}, Level.WARNING, "GPU in use", "do not show here: CUDA1: 22.0 GB", "nvidia-smi"),
    ({"slowed_by": ("temperature",)}, Level.WARNING, "GPU clocks", "CUDA1: temperature", "cool"),
    (
        {**AT_WORK, "link": PcieLink(4, 16, 4, 16), "sm_mhz": 900},
        Level.WARNING,
        "GPU clocks",
        "CUDA1: 900 of 1740 MHz",
        "-rgc",
    ),
    ({**AT_WORK, "link": PcieLink(2, 16, 4, 16)}, Level.WARNING, "PCIe", "CUDA1 gen2 x16 of gen4 x16", "dmesg"),
    (
        {"link": PcieLink(1, 8, 4, 16)},
        Level.NOTE,
        "PCIe",
        "CUDA1 gen1 x8 of gen4 x16; idle links slow down",
        "under load",
    ),
    ({"mig": True, "busy_window_ns": None}, Level.WARNING, "MIG", "CUDA1", "-mig 0"),
    ({"busy_window_ns": None}, Level.WARNING, "counters", "CUDA1: the driver tells no utilisation", "utility"),
    ({"persistent": False}, Level.NOTE, "GPU driver", "CUDA1: no persistence", "-pm 1"),
    ({"held_by_setting": True}, Level.NOTE, "GPU clocks", "CUDA1: 210 of 1740 MHz", "-rgc"),
    ({"ecc": True}, Level.NOTE, "GPU memory", "CUDA1: ECC", "-e 0"),
]


@pytest.mark.parametrize(("bad", "level", "subject", "said", "remedy"), BAD)
def test_each_bad_state_gives_just_its_finding_naming_the_gpu_and_a_remedy(bad, level, subject, said, remedy):
    (finding,) = check_gpus([a40("CUDA0"), replace(a40("CUDA1"), **bad)])
    assert (finding.level, finding.subject) == (level, subject)
    assert said in finding.message
    assert "CUDA0" not in finding.message
    assert remedy in finding.remedy


def test_the_same_on_all_gpus_is_said_once():
    gpus = [replace(a40(f"CUDA{index}"), persistent=False) for index in range(5)]
    (finding,) = check_gpus(gpus)
    assert finding.message.startswith("all 5 GPUs: ")


def test_a_slow_generation_is_not_judged_on_an_idle_gpu_but_is_under_load():
    """Two reports, one an artefact and one real: links at gen1 while idle; gen2 for hours at full utilisation."""
    slow = replace(a40("CUDA0"), link=PcieLink(1, 16, 4, 16))
    assert check_gpus([slow]) == []
    assert [finding.subject for finding in check_gpus([replace(slow, **AT_WORK)])] == ["PCIe"]


def test_low_clocks_with_a_known_reason_are_told_once():
    hot = replace(a40("CUDA0"), busy_frac=1.0, sm_mhz=600, slowed_by=("temperature",), link=None)
    assert [finding.message for finding in check_gpus([hot])] == ["clocks are held down now: CUDA0: temperature"]


def test_memory_is_unexplained_only_when_every_process_tells_what_it_holds():
    one_silent = replace(a40("CUDA0"), used_bytes=30 * GB, processes=(GpuProcess(1, "a", GB), GpuProcess(2, "b")))
    assert [finding.remedy for finding in check_gpus([one_silent])] == ["wait until it is done, or stop it: kill 1 2"]


def test_ecc_costs_nothing_in_hbm():
    assert check_gpus([replace(a40("CUDA0"), ecc=True, bus_bits=5120)]) == []


def test_a_pid_that_uses_several_gpus_is_to_be_killed_once():
    held = (GpuProcess(31, "python3", GB),)
    (finding,) = check_gpus([replace(a40(name), used_bytes=GB, processes=held) for name in ("CUDA0", "CUDA1")])
    assert finding.remedy.endswith("kill 31")


@pytest.mark.parametrize(("listed", "on_bus", "missed"), [(0, 5, True), (0, 0, False), (0, None, False), (5, 8, False)])
def test_gpus_on_the_bus_without_a_driver_are_not_passed_over(listed, on_bus, missed):
    """A container sees fewer GPUs than the bus has when it rents only some of them."""
    finding = without_driver(listed, on_bus)
    assert (finding is not None) is missed
    if finding is not None:
        assert "5 NVIDIA GPUs are on the PCI bus" in finding.message
        assert "--gpus all" in finding.remedy
