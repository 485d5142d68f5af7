from __future__ import annotations

import os
import threading
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.host_settings import allowed_processors, host_settings, may_trace_all, physical_cores
from k3prof.core.machine.host import HostSettings

CPUS = "sys/devices/system/cpu"
SIBLINGS = {0: "0,4", 1: "1,5", 4: "0,4", 5: "1,5"}
POD = {
    "proc/self/status": "Name:\tpython\nCapEff:\t00000000a80c25fb\nCpus_allowed_list:\t0-1,4-5\n",
    "proc/meminfo": "SwapTotal: 8000 kB\nSwapFree: 5000 kB\n",
    "proc/sys/kernel/numa_balancing": "1\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n",
    "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
    "sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n",
    "sys/bus/pci/devices/0000:02:00.0/vendor": "0x8086\n",
    "sys/bus/pci/devices/0000:02:00.0/class": "0x030000\n",
    **{f"{CPUS}/cpu{cpu}/topology/thread_siblings_list": text for cpu, text in SIBLINGS.items()},
    **{f"{CPUS}/cpu{cpu}/cache/index1/level": "1" for cpu in SIBLINGS},
    **{f"{CPUS}/cpu{cpu}/cache/index1/shared_cpu_list": str(cpu) for cpu in SIBLINGS},
    **{f"{CPUS}/cpu{cpu}/cache/index3/level": "3" for cpu in SIBLINGS},
    **{f"{CPUS}/cpu{cpu}/cache/index3/shared_cpu_list": "0-7" for cpu in SIBLINGS},
}


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    for path, text in POD.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_a_pods_settings_are_read(pod):
    settings = host_settings(pod)
    assert settings.cores == ((0, 4), (1, 5))
    assert settings.last_level_caches == 1
    assert settings.numa_balancing is True
    assert settings.clock_source == "hpet"
    assert settings.swap_used_bytes == 3000 * 1024
    assert settings.may_trace_all is True


def test_only_display_functions_of_nvidia_count_as_gpus(pod):
    assert host_settings(pod).nvidia_on_bus == 1


def test_what_a_machine_does_not_tell_is_unknown(tmp_path):
    settings = host_settings(tmp_path)
    assert settings == HostSettings(may_be_realtime=settings.may_be_realtime)


def test_processors_without_known_siblings_are_cores_of_their_own(tmp_path):
    assert physical_cores((2, 3), tmp_path) == ((2,), (3,))


def test_a_process_confined_to_one_thread_of_a_core_has_one_core(pod):
    assert physical_cores((4,), pod) == ((4,),)


@given(st.integers(0, 2**41 - 1))
def test_the_capability_to_trace_is_bit_19(capabilities):
    """CAP_SYS_PTRACE in include/uapi/linux/capability.h."""
    assert may_trace_all(f"CapEff:\t{capabilities:016x}\n") is bool(capabilities & 1 << 19)


@given(st.text())
def test_any_text_in_place_of_a_status_is_survived(text):
    assert may_trace_all(text) in {None, True, False}


def test_this_machine_agrees_with_the_system_calls():
    assert set(allowed_processors()) == os.sched_getaffinity(0)
    settings = host_settings()
    assert sorted(cpu for core in settings.cores for cpu in core) == sorted(os.sched_getaffinity(0))
    assert settings.swap_used_bytes == psutil.swap_memory().used


def test_asking_for_real_time_priority_leaves_none_behind():
    before = os.sched_getscheduler(0)
    asked = host_settings().may_be_realtime
    assert asked in {True, False}
    assert os.sched_getscheduler(0) == before
    assert threading.active_count() == 1
