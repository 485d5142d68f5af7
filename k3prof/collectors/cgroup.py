"""What control groups (version 1 and 2) allow this process, and for how long they made it wait."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TypeVar

V2 = ""
"""The controller's name under which version 2 stands in `/proc/self/cgroup`."""

_NO_MEMORY_LIMIT_BYTES = 1 << 60
"""Version 1 writes "no limit" as the largest multiple of the page size, just under 2^63."""

N = TypeVar("N", int, float)

_OCTAL_ESCAPE = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class CgroupMount:
    """One mounted hierarchy of control groups.

    Attributes:
        controllers: The version 1 controllers it serves; only `V2` for the unified hierarchy.
        root: Which group of the hierarchy is mounted; not `/` inside many containers.
        point: Where.
    """

    controllers: frozenset[str]
    root: str
    point: str


def parse_mounts(mountinfo: str) -> list[CgroupMount]:
    """Return the control group mounts in the text of `/proc/self/mountinfo`; see proc_pid_mountinfo(5)."""
    mounts = []
    for line in mountinfo.splitlines():
        mounted, dash, filesystem = line.partition(" - ")
        left, right = mounted.split(" "), filesystem.split(" ")
        if not dash or len(left) < 5 or len(right) < 3:
            continue
        root, point = (_OCTAL_ESCAPE.sub(lambda match: chr(int(match[1], 8)), text) for text in left[3:5])
        if right[0] == "cgroup2":
            mounts.append(CgroupMount(frozenset({V2}), root, point))
        elif right[0] == "cgroup":
            mounts.append(CgroupMount(frozenset(right[2].split(",")), root, point))
    return mounts


def parse_membership(text: str) -> dict[str, str]:
    """Return the own group's path for each controller in the text of `/proc/self/cgroup` (`id:controllers:path`)."""
    rows = [line.split(":", 2) for line in text.splitlines()]
    return {controller: row[2] for row in rows if len(row) == 3 for controller in row[1].split(",")}


def parse_cpu_max(text: str) -> float | None:
    """Return the cores that version 2's `cpu.max` allows (`150000 100000` is 1.5), None for no limit."""
    quota, _, period = text.strip().partition(" ")
    return _cores(quota, period) if quota != "max" else None


def parse_cfs_quota(quota_us: str, period_us: str) -> float | None:
    """Return the cores that version 1's `cpu.cfs_quota_us` and `cpu.cfs_period_us` allow, None for no limit."""
    return _cores(quota_us.strip(), period_us.strip())


def _cores(quota_us: str, period_us: str) -> float | None:
    if not (quota_us.isdecimal() and period_us.isdecimal()) or int(period_us) == 0:
        return None
    return int(quota_us) / int(period_us)


def parse_throttled_ns(cpu_stat: str) -> int | None:
    """Return the throttled time in the text of `cpu.stat`, or None where it has none.

    Version 2 gives `throttled_usec`, version 1 `throttled_time` in nanoseconds.
    """
    unit_ns = {"throttled_usec": 1000, "throttled_time": 1}
    for line in cpu_stat.splitlines():
        name, _, value = line.partition(" ")
        if name in unit_ns and value.strip().isdecimal():
            return int(value) * unit_ns[name]
    return None


def parse_memory_limit_bytes(text: str) -> int | None:
    """Return the limit in `memory.max` (version 2) or `memory.limit_in_bytes` (version 1), None for no limit."""
    limit = text.strip()
    return int(limit) if limit.isdecimal() and int(limit) < _NO_MEMORY_LIMIT_BYTES else None


def cpu_quota_cores(root: Path = Path("/")) -> float | None:
    """Return how many cores' worth of time the own groups allow, the tightest of them; None for no quota."""
    return _tightest(root, "cpu", _group_quota_cores)


def memory_limit_bytes(root: Path = Path("/")) -> int | None:
    """Return how much memory the own groups allow, the tightest of them; None for no limit."""
    return _tightest(root, "memory", _group_memory_limit_bytes)


def throttled_ns(root: Path = Path("/")) -> int | None:
    """Return the cumulative time for which quotas kept runnable threads of the own groups waiting.

    It is summed over the own group and those above it, each of which can have a quota, and, by the kernel, over
    processors. None where no group tells.
    """
    told = [parse_throttled_ns(read_text(folder / "cpu.stat") or "") for folder in _own_folders(root, "cpu")]
    return sum(one for one in told if one is not None) if any(one is not None for one in told) else None


def read_text(path: Path) -> str | None:
    """Return a small file's text, or None when it cannot be read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def _tightest(root: Path, controller: str, limit: Callable[[Path], N | None]) -> N | None:
    limits = [one for folder in _own_folders(root, controller) if (one := limit(folder)) is not None]
    return min(limits, default=None)


def _group_quota_cores(folder: Path) -> float | None:
    if (cpu_max := read_text(folder / "cpu.max")) is not None:
        return parse_cpu_max(cpu_max)
    quota, period = read_text(folder / "cpu.cfs_quota_us"), read_text(folder / "cpu.cfs_period_us")
    return parse_cfs_quota(quota, period) if quota and period else None


def _group_memory_limit_bytes(folder: Path) -> int | None:
    for name in ("memory.max", "memory.limit_in_bytes"):
        if (text := read_text(folder / name)) is not None:
            return parse_memory_limit_bytes(text)
    return None


def _own_folders(root: Path, controller: str) -> Iterator[Path]:
    """Yield the folders of the own group and of every group above it that can be seen from here."""
    membership = parse_membership(read_text(root / "proc/self/cgroup") or "")
    mounts = parse_mounts(read_text(root / "proc/self/mountinfo") or "")
    for wanted in (controller, V2):
        for mount in mounts:
            if wanted in mount.controllers and wanted in membership:
                point = root / mount.point.lstrip("/")
                below = _below(membership[wanted], mount.root)
                folders = [point / group for group in (below, *below.parents)]
                yield from (folder for folder in folders if folder.is_dir())
                return


def _below(group: str, mount_root: str) -> PurePosixPath:
    """Return where the group lies under the mount; a group outside of what is mounted counts as its top."""
    path = PurePosixPath(group)
    if ".." in path.parts or not path.is_relative_to(mount_root):
        return PurePosixPath()
    return path.relative_to(mount_root)
