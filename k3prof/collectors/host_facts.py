"""What does not change about a machine while a sweep runs, as far as it matters to a measurement."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from k3prof.collectors import cgroup
from k3prof.collectors.cgroup import read_text
from k3prof.collectors.host import available_bytes, parse_cpu_list, parse_named_numbers
from k3prof.core.machine.host import HostFacts

_CACHE_SIZE = re.compile(r"(\d+)([KMG]?)")
_CACHE_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_CONTAINER_FILES = {".dockerenv": "docker", "run/.containerenv": "podman"}
_CONTAINER_GROUPS = {"kubepods": "kubernetes", "docker": "docker", "libpod": "podman", "lxc": "lxc"}


def host_facts(root: Path = Path("/")) -> HostFacts:
    """Look at the machine whose `/proc`, `/sys` and `/dev` lie under `root`."""
    meminfo_kib = parse_named_numbers(_text(root, "proc/meminfo"))
    limit_bytes = cgroup.memory_limit_bytes(root)
    load = _text(root, "proc/loadavg").split()
    ptrace_scope = _text(root, "proc/sys/kernel/yama/ptrace_scope")
    return HostFacts(
        kernel=_text(root, "proc/sys/kernel/osrelease") or None,
        cpu_model=_field(root, "proc/cpuinfo", ("model name", "Model", "CPU part")),
        cores_visible=_listed(_text(root, "sys/devices/system/cpu/online")),
        cores_allowed=_listed(_field(root, "proc/self/status", ("Cpus_allowed_list",)) or ""),
        cpu_quota_cores=cgroup.cpu_quota_cores(root),
        governors=_governors(root),
        tickless_cores=_listed(_text(root, "sys/devices/system/cpu/nohz_full")) or 0,
        last_level_cache_bytes=_last_level_cache_bytes(root),
        numa_nodes=_listed(_text(root, "sys/devices/system/node/online")),
        memory_bytes=meminfo_kib["MemTotal"] * 1024 if "MemTotal" in meminfo_kib else None,
        memory_available_bytes=_within(available_bytes(root), limit_bytes),
        memory_limit_bytes=limit_bytes,
        load_average=float(load[0]) if load else None,
        ptrace_scope=int(ptrace_scope) if ptrace_scope.isdecimal() else None,
        shm_bytes=_filesystem_bytes(root / "dev/shm"),
        container=_container(root),
    )


def parse_cache_bytes(text: str) -> int | None:
    """Read a cache's size as sysfs gives it: `32768K`; None for anything else."""
    match = _CACHE_SIZE.fullmatch(text.strip())
    return int(match[1]) * _CACHE_UNITS[match[2]] if match else None


def _text(root: Path, path: str) -> str:
    return (read_text(root / path) or "").strip()


def _field(root: Path, path: str, names: Iterable[str]) -> str | None:
    """Return the value of the first of these names in a file of `name: value` lines."""
    rows = [line.partition(":") for line in _text(root, path).splitlines()]
    values = {name.strip(): value.strip() for name, colon, value in reversed(rows) if colon}
    return next((values[name] for name in names if name in values), None)


def _listed(text: str) -> int | None:
    try:
        return len(parse_cpu_list(text)) or None
    except ValueError:
        return None


def _governors(root: Path) -> tuple[str, ...]:
    files = root.glob("sys/devices/system/cpu/cpufreq/policy*/scaling_governor")
    return tuple(sorted({text for file in files if (text := (read_text(file) or "").strip())}))


def _last_level_cache_bytes(root: Path) -> int | None:
    folders = root.glob("sys/devices/system/cpu/cpu0/cache/index*")
    levels = [((read_text(folder / "level") or "0").strip(), read_text(folder / "size") or "") for folder in folders]
    return parse_cache_bytes(max(levels)[1]) if levels else None


def _within(available: int | None, limit: int | None) -> int | None:
    return min((one for one in (available, limit) if one is not None), default=None)


def _filesystem_bytes(path: Path) -> int | None:
    try:
        size = os.statvfs(path)
    except OSError:
        return None
    return size.f_blocks * size.f_frsize


def _container(root: Path) -> str | None:
    for file, kind in _CONTAINER_FILES.items():
        if (root / file).exists():
            return kind
    groups = _text(root, "proc/self/cgroup")
    return next((kind for word, kind in _CONTAINER_GROUPS.items() if word in groups), None)
