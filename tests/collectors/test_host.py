from __future__ import annotations

from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.host import (
    HOST_DEVICE,
    CpuTimes,
    HostSource,
    available_bytes,
    parse_cpu_list,
    parse_cpu_times,
    parse_named_numbers,
)
from k3prof.core.timeline import Counter

MEMINFO = "MemTotal:       24684092 kB\nMemFree:        20000000 kB\nMemAvailable:   23000000 kB\n"
VMSTAT = "nr_free_pages 5988452\npgfault 987654\npgmajfault 1234\n"


def lay_out(root: Path, files: dict[str, str]) -> Path:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def read(source: HostSource) -> dict[Counter, float | None]:
    values = source.read()
    return {channel.counter: value for channel, value in zip(source.channels, values, strict=True)}


@given(st.lists(st.integers(0, 2**40), min_size=10, max_size=10))
def test_busy_time_is_all_but_idle_and_waiting_for_a_disk(fields):
    user, nice, system, idle, iowait, irq, softirq, steal, *_ = fields
    text = "cpu  " + " ".join(map(str, fields)) + "\ncpu0 1 2 3\n"
    assert parse_cpu_times(text) == CpuTimes(
        busy=user + nice + system + irq + softirq + steal,
        total=user + nice + system + idle + iowait + irq + softirq + steal,
    )


@given(st.text())
def test_what_is_no_line_of_processor_times_is_unknown(text):
    assert parse_cpu_times("intr " + text) is None
    assert parse_cpu_times("cpu  1 2 x 4") is None
    parse_cpu_times(text)


@given(
    before=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
    after=st.tuples(st.integers(0, 10**9), st.integers(0, 10**9)),
)
def test_the_busy_share_lies_between_0_and_1_or_is_unknown(before, after):
    share = CpuTimes(*after).share_since(CpuTimes(*before))
    assert share is None or 0 <= share <= 1
    assert (share is None) == (after[1] <= before[1])


@given(st.sets(st.integers(0, 500)))
def test_a_list_of_processors_is_read_back_from_its_ranges(cpus):
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][1] == cpu - 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    text = ",".join(f"{first}" if first == last else f"{first}-{last}" for first, last in ranges)
    assert parse_cpu_list(text + "\n") == tuple(sorted(cpus))


@given(st.text())
def test_lines_that_name_no_number_are_passed_over(text):
    parse_named_numbers(text)
    assert parse_named_numbers(f"{VMSTAT}garbage\nname: word\n")["pgmajfault"] == 1234


def test_a_machine_is_read_counter_by_counter(tmp_path):
    cpufreq = "sys/devices/system/cpu/cpufreq"
    root = lay_out(
        tmp_path,
        {
            "proc/stat": "cpu  100 0 100 800 0 0 0 0 0 0\n",
            "proc/meminfo": MEMINFO,
            "proc/vmstat": VMSTAT,
            f"{cpufreq}/policy0/scaling_cur_freq": "2000000\n",
            f"{cpufreq}/policy1/scaling_cur_freq": "3000000\n",
            "proc/self/cgroup": "0::/\n",
            "proc/self/mountinfo": "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/cpu.stat": "usage_usec 5\nthrottled_usec 7\n",
        },
    )
    source = HostSource(10**9, root)
    lay_out(tmp_path, {"proc/stat": "cpu  150 0 125 825 0 0 0 0 0 0\n"})
    assert {channel.device for channel in source.channels} == {HOST_DEVICE}
    assert read(source) == {
        Counter.HOST_CPU_FRAC: 0.75,
        Counter.HOST_AVAILABLE_BYTES: 23_000_000 * 1024,
        Counter.MAJOR_FAULTS: 1234,
        Counter.FREQUENCY_MHZ: 2500,
        Counter.THROTTLED_NS: 7000,
    }


def test_what_a_machine_does_not_have_is_not_offered(tmp_path):
    root = lay_out(tmp_path, {"proc/meminfo": MEMINFO})
    assert [channel.counter for channel in HostSource(10**9, root).channels] == [Counter.HOST_AVAILABLE_BYTES]


def test_a_counter_that_vanishes_becomes_unknown_and_the_others_go_on(tmp_path):
    source = HostSource(10**9, lay_out(tmp_path, {"proc/meminfo": MEMINFO, "proc/vmstat": VMSTAT}))
    (tmp_path / "proc/vmstat").unlink()
    assert read(source) == {Counter.HOST_AVAILABLE_BYTES: 23_000_000 * 1024, Counter.MAJOR_FAULTS: None}


def test_of_many_processors_only_a_few_are_asked_for_their_frequency(tmp_path):
    files = {f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_cur_freq": "1000000\n" for cpu in range(96)}
    source = HostSource(10**9, lay_out(tmp_path, files))
    assert read(source) == {Counter.FREQUENCY_MHZ: 1000}
    assert len(source._frequency_files) == 8


def test_this_machine_has_the_memory_and_faults_that_psutil_sees():
    assert available_bytes() == pytest.approx(psutil.virtual_memory().available, rel=0.1)
    times = parse_cpu_times(Path("/proc/stat").read_text())
    seen = psutil.cpu_times()
    # USER_HZ is 100 on every architecture that Linux runs llama.cpp on.
    assert times is not None
    assert times.total / 100 == pytest.approx(sum(seen) - seen.guest - seen.guest_nice, rel=0.01)
