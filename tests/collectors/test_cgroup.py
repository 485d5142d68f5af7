from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.cgroup import (
    cpu_quota_cores,
    memory_limit_bytes,
    parse_cfs_quota,
    parse_cpu_max,
    parse_membership,
    parse_memory_limit_bytes,
    parse_mounts,
    parse_throttled_ns,
    throttled_ns,
)

V1_CPU_MOUNT = "32 31 0:29 {root} /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct"
V1_MEMORY_MOUNT = "36 31 0:32 {root} /sys/fs/cgroup/memory rw,nosuid - cgroup cgroup rw,memory"
V2_MOUNT = "41 31 0:38 {root} /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate"
HYBRID_MOUNT = "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw"
NO_V1_LIMIT = "9223372036854771712\n"


def lay_out(root: Path, membership: str, mounts: list[str], files: dict[str, str]) -> Path:
    for path, text in {
        "proc/self/cgroup": membership,
        "proc/self/mountinfo": "\n".join(mounts) + "\n",
        **{f"sys/fs/cgroup/{path}": text for path, text in files.items()},
    }.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


def test_a_pod_of_version_1_that_shows_96_cores_gets_its_quota_of_7_65(tmp_path):
    """RunPod mounts the container's own group, while /proc names it by the host's path."""
    root = lay_out(
        tmp_path,
        "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n0::/docker/abc\n",
        [V1_CPU_MOUNT.format(root="/docker/abc"), V1_MEMORY_MOUNT.format(root="/docker/abc")],
        {
            "cpu,cpuacct/cpu.cfs_quota_us": "765000\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
            "cpu,cpuacct/cpu.stat": "nr_periods 4567\nnr_throttled 3115\nthrottled_time 1234567890\n",
            "memory/memory.limit_in_bytes": "50000000000\n",
        },
    )
    assert cpu_quota_cores(root) == 7.65
    assert memory_limit_bytes(root) == 50_000_000_000
    assert throttled_ns(root) == 1_234_567_890


def test_of_nested_groups_of_version_2_the_tightest_counts_and_throttling_adds_up(tmp_path):
    root = lay_out(
        tmp_path,
        "0::/user.slice/job/step\n",
        [V2_MOUNT.format(root="/")],
        {
            "cpu.stat": "usage_usec 9\n",
            "user.slice/cpu.max": "400000 100000\n",
            "user.slice/cpu.stat": "usage_usec 5\nthrottled_usec 1000\n",
            "user.slice/job/cpu.max": "150000 100000\n",
            "user.slice/job/cpu.stat": "usage_usec 5\nthrottled_usec 234\n",
            "user.slice/job/step/cpu.max": "max 100000\n",
            "user.slice/job/step/cpu.stat": "usage_usec 5\nthrottled_usec 0\n",
            "user.slice/memory.max": "8589934592\n",
            "user.slice/job/step/memory.max": "max\n",
            "sibling/cpu.max": "1000 100000\n",
        },
    )
    assert cpu_quota_cores(root) == 1.5
    assert memory_limit_bytes(root) == 8 << 30
    assert throttled_ns(root) == 1_234_000


def test_a_hybrid_machine_is_read_where_its_controllers_are(tmp_path):
    root = lay_out(
        tmp_path,
        "3:cpu,cpuacct:/\n0::/\n",
        [HYBRID_MOUNT, V1_CPU_MOUNT.format(root="/")],
        {
            "unified/cpu.max": "1000 100000\n",
            "cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
            "cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        },
    )
    assert cpu_quota_cores(root) is None


@pytest.mark.parametrize("group", ["/elsewhere/entirely", "/../../outside", "/gone"])
def test_a_group_that_cannot_be_seen_from_here_is_judged_by_the_top_that_can(tmp_path, group):
    mount_root = "/docker/abc" if group == "/elsewhere/entirely" else "/"
    root = lay_out(tmp_path, f"0::{group}\n", [V2_MOUNT.format(root=mount_root)], {"cpu.max": "200000 100000\n"})
    assert cpu_quota_cores(root) == 2.0


def test_a_machine_without_control_groups_has_no_limits(tmp_path):
    assert cpu_quota_cores(tmp_path) is None
    assert memory_limit_bytes(tmp_path) is None
    assert throttled_ns(tmp_path) is None


@given(quota_us=st.integers(1000, 10**9), period_us=st.integers(1000, 10**6))
def test_both_versions_say_the_same_of_the_same_quota(quota_us, period_us):
    expected = quota_us / period_us
    assert parse_cpu_max(f"{quota_us} {period_us}\n") == expected
    assert parse_cfs_quota(f"{quota_us}\n", f"{period_us}\n") == expected


@given(text=st.text())
def test_text_that_is_no_quota_is_no_limit(text):
    assert parse_cpu_max("max " + text) is None
    assert parse_cfs_quota("-1", text) is None
    parse_cpu_max(text)
    parse_throttled_ns(text)
    parse_memory_limit_bytes(text)


@given(us=st.integers(0, 10**15))
def test_throttled_time_is_given_in_ns_from_either_unit(us):
    assert parse_throttled_ns(f"nr_throttled 1\nthrottled_usec {us}\n") == us * 1000
    assert parse_throttled_ns(f"nr_throttled 1\nthrottled_time {us * 1000}\n") == us * 1000


def test_a_version_1_group_without_a_memory_limit_has_none():
    assert parse_memory_limit_bytes(NO_V1_LIMIT) is None
    assert parse_memory_limit_bytes("max\n") is None


@given(text=st.text())
def test_any_text_is_read_as_some_number_of_mounts_and_memberships(text):
    parse_mounts(text)
    parse_membership(text)


@given(st.text(st.characters(codec="ascii", exclude_characters="\0/\n\r"), min_size=1))
def test_a_mount_point_of_any_name_is_unescaped(name):
    escaped = "".join(f"\\{ord(char):03o}" if char in " \t\\" else char for char in name)
    line = f"41 31 0:38 / /{escaped} rw - cgroup2 cgroup2 rw"
    mounts = parse_mounts(line) if len(line.splitlines()) == 1 else []
    assert [mount.point for mount in mounts] in ([], [f"/{name}"])
    if name.isprintable():
        assert mounts
