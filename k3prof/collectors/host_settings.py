"""How a machine is set, as far as it matters to a measurement."""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from pathlib import Path

from k3prof.collectors.cgroup import read_text
from k3prof.collectors.host import parse_cpu_list, parse_named_numbers
from k3prof.core.machine.host import HostSettings

_CPUS = "sys/devices/system/cpu"
_CLOCK_SOURCE = "sys/devices/system/clocksource/clocksource0/current_clocksource"
_CAP_SYS_PTRACE = 19
_NVIDIA_VENDOR, _DISPLAY_CLASS = "0x10de", "0x03"


def host_settings(root: Path = Path("/")) -> HostSettings:
    """Look at the machine whose `/proc` and `/sys` lie under `root`."""
    allowed = allowed_processors(root)
    meminfo_kib = parse_named_numbers(_text(root, "proc/meminfo"))
    balancing = _text(root, "proc/sys/kernel/numa_balancing")
    return HostSettings(
        cores=physical_cores(allowed, root),
        last_level_caches=_last_level_caches(allowed, root),
        numa_balancing=int(balancing) != 0 if balancing.isdecimal() else None,
        clock_source=_text(root, _CLOCK_SOURCE) or None,
        swap_used_bytes=_swap_used_bytes(meminfo_kib),
        may_be_realtime=_may_be_realtime(),
        may_trace_all=may_trace_all(_text(root, "proc/self/status")),
        nvidia_on_bus=_nvidia_on_bus(root),
    )


def allowed_processors(root: Path = Path("/")) -> tuple[int, ...]:
    """Return the processors that this process may run on; none where the kernel does not tell."""
    listed = _status_field(_text(root, "proc/self/status"), "Cpus_allowed_list")
    with suppress(ValueError):
        return parse_cpu_list(listed)
    return ()


def physical_cores(processors: tuple[int, ...], root: Path = Path("/")) -> tuple[tuple[int, ...], ...]:
    """Group processors by physical core; one whose siblings are not told counts as a core of its own."""
    groups: dict[tuple[int, ...], list[int]] = {}
    for cpu in processors:
        groups.setdefault(_cpu_list(root, f"{_CPUS}/cpu{cpu}/topology/thread_siblings_list") or (cpu,), []).append(cpu)
    return tuple(tuple(group) for group in groups.values())


def may_trace_all(status: str) -> bool | None:
    """Return whether the text of `/proc/self/status` shows the capability to look into any process."""
    effective = _status_field(status, "CapEff")
    with suppress(ValueError):
        return bool(int(effective, 16) >> _CAP_SYS_PTRACE & 1)
    return None


def _last_level_caches(processors: tuple[int, ...], root: Path) -> int | None:
    caches = set()
    for cpu in processors:
        folders = list(root.glob(f"{_CPUS}/cpu{cpu}/cache/index*"))
        levels = [((read_text(folder / "level") or "0").strip(), folder) for folder in folders]
        if levels:
            last = max(levels)[1].relative_to(root)
            caches.add(_cpu_list(root, f"{last}/shared_cpu_list") or (cpu,))
    return len(caches) or None


def _swap_used_bytes(meminfo_kib: dict[str, int]) -> int | None:
    if not {"SwapTotal", "SwapFree"} <= meminfo_kib.keys():
        return None
    return (meminfo_kib["SwapTotal"] - meminfo_kib["SwapFree"]) * 1024


def _nvidia_on_bus(root: Path) -> int | None:
    functions = list(root.glob("sys/bus/pci/devices/*"))
    ids = [((read_text(one / "vendor") or "").strip(), (read_text(one / "class") or "").strip()) for one in functions]
    found = sum(vendor == _NVIDIA_VENDOR and kind.startswith(_DISPLAY_CLASS) for vendor, kind in ids)
    return found if functions else None


def _may_be_realtime() -> bool:
    """Try it in a thread of its own, which takes the priority with it when it ends."""
    granted = []

    def ask() -> None:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
            granted.append(True)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    return bool(granted)


def _cpu_list(root: Path, path: str) -> tuple[int, ...]:
    with suppress(ValueError):
        return parse_cpu_list(_text(root, path))
    return ()


def _status_field(status: str, name: str) -> str:
    rows = (line.partition(":") for line in status.splitlines())
    return next((value.strip() for found, _, value in rows if found == name), "")


def _text(root: Path, path: str) -> str:
    return (read_text(root / path) or "").strip()
