from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.machine.diagnosis import Level
from k3prof.core.machine.host import HostSettings
from k3prof.core.machine.host_checks import SLOW_CLOCKS, check_host, python_profile, small_shared_memory, stand_ins
from tests.doubles.machines import FACTS, GB, SETTINGS, UNTOLD_FACTS


def test_a_machine_in_good_order_gives_no_finding():
    assert check_host(FACTS, SETTINGS) == []


def test_what_a_machine_does_not_tell_is_held_against_nothing():
    assert check_host(UNTOLD_FACTS, HostSettings()) == []


BAD_FACTS = [
    ({"cores_allowed": 3}, Level.WARNING, "cores", "3 may be used (processor affinity)", "threads = 3"),
    ({"governors": ("performance", "powersave")}, Level.WARNING, "frequency", "powersave", "performance"),
    ({"tickless_cores": 2}, Level.WARNING, "counters", "2 processors run without", "taskset"),
    ({"numa_nodes": 2}, Level.NOTE, "NUMA", "2 memory nodes", "numa"),
    ({"memory_limit_bytes": 8 * GB}, Level.NOTE, "memory", "8.0 GB of 64.0 GB", "--model"),
]
BAD_SETTINGS = [
    ({"clock_source": "hpet"}, Level.WARNING, "clock", "hpet", "tsc"),
    ({"swap_used_bytes": 3 * GB}, Level.NOTE, "swap", "3.0 GB", "swapoff"),
    ({"may_be_realtime": False}, Level.NOTE, "sampler", "real-time", "ulimit -r"),
    ({"cores": ((0, 1), (2, 3))}, Level.NOTE, "cores", "4 processors are 2 cores", "taskset -c 0,2 "),
]


@pytest.mark.parametrize(("bad", "level", "subject", "said", "remedy"), BAD_FACTS)
def test_each_bad_fact_gives_just_its_finding_and_a_remedy(bad, level, subject, said, remedy):
    (finding,) = check_host(replace(FACTS, **bad), SETTINGS)
    assert (finding.level, finding.subject) == (level, subject)
    assert said in finding.message
    assert remedy in finding.remedy


@pytest.mark.parametrize(("bad", "level", "subject", "said", "remedy"), BAD_SETTINGS)
def test_each_bad_setting_gives_just_its_finding_and_a_remedy(bad, level, subject, said, remedy):
    (finding,) = check_host(FACTS, replace(SETTINGS, **bad))
    assert (finding.level, finding.subject) == (level, subject)
    assert said in finding.message
    assert remedy in finding.remedy


def test_a_pod_that_shows_96_cores_and_may_use_7_65_is_told_to_use_7_threads():
    (finding,) = check_host(replace(FACTS, cores_visible=96, cores_allowed=96, cpu_quota_cores=7.65), SETTINGS)
    assert "96 cores are visible, 7.65 may be used (the CPU quota" in finding.message
    assert "threads = 7 " in finding.remedy


def test_a_quota_below_one_core_still_asks_for_one_thread():
    findings = check_host(replace(FACTS, cpu_quota_cores=0.5), SETTINGS)
    assert [finding.subject for finding in findings] == ["cores", "cores"]
    assert "threads = 1 " in findings[0].remedy
    assert "nothing can overlap" in findings[1].message


def test_a_quota_that_allows_all_cores_is_no_finding():
    assert check_host(replace(FACTS, cpu_quota_cores=4.0), SETTINGS) == []


def test_page_migration_matters_only_between_memory_nodes():
    moving = replace(SETTINGS, numa_balancing=True)
    assert check_host(FACTS, moving) == []
    levels = [finding.level for finding in check_host(replace(FACTS, numa_nodes=2), moving)]
    assert levels == [Level.WARNING, Level.NOTE]


@pytest.mark.parametrize("clock", ["tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", None])
def test_clocks_that_are_read_without_a_system_call_are_no_finding(clock):
    assert clock not in SLOW_CLOCKS
    assert check_host(FACTS, replace(SETTINGS, clock_source=clock)) == []


def test_a_little_swap_is_no_finding():
    assert check_host(FACTS, replace(SETTINGS, swap_used_bytes=100 << 20)) == []


def test_small_shared_memory_matters_only_to_several_gpus():
    assert small_shared_memory(64 << 20, 1) is None
    assert small_shared_memory(2 << 30, 5) is None
    assert small_shared_memory(None, 5) is None
    finding = small_shared_memory(64 << 20, 2)
    assert finding is not None
    assert "64 MiB" in finding.message
    assert "--shm-size" in finding.remedy


@pytest.mark.parametrize(
    ("scope", "may_trace_all", "level", "said"),
    [
        (None, False, Level.OK, ""),
        (0, False, Level.OK, ""),
        (1, False, Level.NOTE, "only its own children"),
        (1, True, Level.OK, ""),
        (2, False, Level.NOTE, "nothing"),
        (2, True, Level.OK, ""),
        (3, True, Level.NOTE, "nothing"),
    ],
)
def test_profiling_python_needs_what_yama_allows(scope, may_trace_all, level, said):
    """The meaning of ptrace_scope is Documentation/admin-guide/LSM/Yama.rst of the kernel."""
    settings = replace(SETTINGS, may_trace_all=may_trace_all)
    finding = python_profile(replace(FACTS, ptrace_scope=scope), settings, installed=True)
    assert finding.level is level
    assert said in finding.message
    assert bool(finding.remedy) is (level is not Level.OK)


def test_profiling_python_needs_py_spy():
    finding = python_profile(FACTS, SETTINGS, installed=False)
    assert (finding.level, finding.remedy) == (Level.NOTE, "pip install py-spy")


def test_stand_ins_are_offered_with_the_number_that_can_be_busy_at_once():
    assert "rpc:2 to rpc:15; on 4 cores" in stand_ins(FACTS).message
    assert "unknown" in stand_ins(UNTOLD_FACTS).message
