from __future__ import annotations

import os
import platform
from dataclasses import fields, replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.host_facts import host_facts, parse_cache_bytes

SYSTEM = "sys/devices/system"
POD = {
    "proc/sys/kernel/osrelease": "5.15.0-113-generic\n",
    "proc/cpuinfo": "processor\t: 0\nmodel name\t: AMD EPYC 7742: 64-Core\n\nprocessor\t: 1\nmodel name\t: other\n",
    "proc/meminfo": "MemTotal: 1000 kB\nMemAvailable: 900 kB\n",
    "proc/loadavg": "3.25 2.00 1.00 5/1234 99\n",
    "proc/self/status": "Name:\tpython\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7,64-71\n",
    "proc/self/cgroup": "0::/kubepods/pod1\n",
    "proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
    "proc/sys/kernel/yama/ptrace_scope": "1\n",
    "sys/fs/cgroup/cpu.max": "765000 100000\n",
    "sys/fs/cgroup/memory.max": "512000\n",
    f"{SYSTEM}/cpu/online": "0-95\n",
    f"{SYSTEM}/cpu/nohz_full": "4-7\n",
    f"{SYSTEM}/node/online": "0-1\n",
    f"{SYSTEM}/cpu/cpufreq/policy0/scaling_governor": "powersave\n",
    f"{SYSTEM}/cpu/cpufreq/policy1/scaling_governor": "performance\n",
    f"{SYSTEM}/cpu/cpufreq/policy2/scaling_governor": "powersave\n",
    f"{SYSTEM}/cpu/cpu0/cache/index0/level": "1\n",
    f"{SYSTEM}/cpu/cpu0/cache/index0/size": "32K\n",
    f"{SYSTEM}/cpu/cpu0/cache/index3/level": "3\n",
    f"{SYSTEM}/cpu/cpu0/cache/index3/size": "16384K\n",
}


@pytest.fixture
def pod(tmp_path: Path) -> Path:
    for path, text in POD.items():
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tmp_path


def test_a_pod_is_described_by_what_it_may_use_as_well_as_by_what_it_sees(pod):
    facts = host_facts(pod)
    assert facts.kernel == "5.15.0-113-generic"
    assert facts.cpu_model == "AMD EPYC 7742: 64-Core"
    assert (facts.cores_visible, facts.cores_allowed, facts.cpu_quota_cores) == (96, 16, 7.65)
    assert facts.cores_usable == 7.65
    assert facts.governors == ("performance", "powersave")
    assert facts.tickless_cores == 4
    assert facts.last_level_cache_bytes == 16 << 20
    assert facts.numa_nodes == 2
    assert (facts.memory_bytes, facts.memory_limit_bytes) == (1_024_000, 512_000)
    assert facts.memory_available_bytes == 512_000
    assert facts.load_average == 3.25
    assert facts.ptrace_scope == 1
    assert facts.container == "kubernetes"


def test_what_a_machine_does_not_tell_is_unknown(tmp_path):
    facts = host_facts(tmp_path)
    known = {name.name for name in fields(facts) if getattr(facts, name.name) is not None}
    assert known == {"governors", "tickless_cores"}
    assert facts.governors == ()
    assert facts.cores_usable is None


def test_without_a_quota_affinity_alone_limits_the_cores(pod):
    assert replace(host_facts(pod), cpu_quota_cores=None).cores_usable == 16


@pytest.mark.parametrize(("file", "kind"), [(".dockerenv", "docker"), ("run/.containerenv", "podman")])
def test_a_containers_own_file_tells_its_kind(tmp_path, file, kind):
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    assert host_facts(tmp_path).container == kind


@given(st.text())
def test_only_sizes_are_read_as_a_caches_size(text):
    parse_cache_bytes(text)
    assert parse_cache_bytes("x" + text) is None
    assert [parse_cache_bytes(size) for size in ("512", "32K\n", "1M", "2G")] == [512, 32 << 10, 1 << 20, 2 << 30]


def test_this_machine_is_described_as_other_tools_describe_it():
    facts = host_facts()
    assert facts.kernel == platform.release()
    assert facts.cores_visible == psutil.cpu_count()
    assert facts.cores_allowed == len(os.sched_getaffinity(0))
    assert facts.memory_bytes == psutil.virtual_memory().total
    assert facts.load_average == pytest.approx(os.getloadavg()[0], abs=0.5)
