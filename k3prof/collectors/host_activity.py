"""What a machine does while k3prof itself does nothing: who uses its processors, and who takes them away."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from k3prof.collectors import cgroup
from k3prof.collectors.cgroup import read_text
from k3prof.collectors.host import parse_named_numbers
from k3prof.core.machine.host import BusyProcess, HostActivity, Owner, RunningProgram

_STEAL_FIELD = 7
_IDLE_FIELDS = slice(3, 5)
_ALIAS = "k3prof-"
"""How the alias begins that k3prof gives its servers."""


@dataclass(frozen=True)
class ProcessorTimes:
    """Time of all processors together since boot, in the kernel's USER_HZ units; see proc_stat(5).

    Attributes:
        busy: Spent on anything on this machine.
        steal: Given to other machines by the hypervisor.
        total: Passed.
        processors: How many processors there are.
    """

    busy: int
    steal: int
    total: int
    processors: int


def parse_processor_times(text: str) -> ProcessorTimes | None:
    """Read `/proc/stat`, or return None when it is not such a text."""
    rows = [line.split() for line in text.splitlines() if line.startswith("cpu")]
    if not rows or rows[0][0] != "cpu" or len(rows[0]) < 5 or not all(field.isdecimal() for field in rows[0][1:]):
        return None
    # Guest times, behind the first eight, are counted in user and nice already.
    times = [int(field) for field in rows[0][1:9]]
    steal = times[_STEAL_FIELD] if len(times) > _STEAL_FIELD else 0
    idle = sum(times[_IDLE_FIELDS])
    return ProcessorTimes(sum(times) - idle - steal, steal, sum(times), len(rows) - 1)


@dataclass(frozen=True)
class Snapshot:
    """Cumulative counters at one moment.

    Attributes:
        monotonic_ns: When.
        processors: Of all processes together; None when the kernel does not tell.
        processes: Of each process by pid: its name and its processor time in s.
        throttled_ns: Time for which quotas held threads back.
        swapped_in_pages: Pages read back from swap.
    """

    monotonic_ns: int
    processors: ProcessorTimes | None
    processes: Mapping[int, tuple[str, float]]
    throttled_ns: int | None
    swapped_in_pages: int | None

    @classmethod
    def take(cls, root: Path) -> Snapshot:
        """Read all of them now."""
        return cls(
            time.monotonic_ns(),
            parse_processor_times(read_text(root / "proc/stat") or ""),
            _process_times(),
            cgroup.throttled_ns(root),
            parse_named_numbers(read_text(root / "proc/vmstat") or "").get("pswpin"),
        )


def watch(interval_s: float, programs: Collection[str], root: Path = Path("/")) -> HostActivity:
    """Watch the machine for a while, asleep.

    Args:
        interval_s: How long. The kernel counts in hundredths of a second: 0.5 s tells 2 % of a core apart.
        programs: Names of programs to report whatever they do.
        root: Where `/proc` and `/sys` lie; processes are always this machine's own.
    """
    before = Snapshot.take(root)
    time.sleep(interval_s)
    return activity_between(before, Snapshot.take(root), running_programs(programs))


def activity_between(before: Snapshot, after: Snapshot, programs: Sequence[RunningProgram]) -> HostActivity:
    """Return what happened between two snapshots."""
    interval_s = (after.monotonic_ns - before.monotonic_ns) / 1e9
    used = {
        pid: max(spent_s - before.processes.get(pid, (name, 0.0))[1], 0.0) / interval_s
        for pid, (name, spent_s) in after.processes.items()
    }
    own_cores = used.pop(os.getpid(), 0.0)
    busy = [BusyProcess(pid, after.processes[pid][0], cores) for pid, cores in used.items() if cores > 0]
    busy_cores = steal_frac = since_boot = None
    first, last = before.processors, after.processors
    if first is not None and last is not None and last.total > first.total:
        passed = last.total - first.total
        busy_cores = max(last.busy - first.busy, 0) / passed * last.processors
        steal_frac = max(last.steal - first.steal, 0) / passed
        since_boot = last.steal / last.total
    return HostActivity(
        interval_s=interval_s,
        busy_cores=busy_cores,
        busy=tuple(sorted(busy, key=lambda process: -process.cores)),
        own_cores=own_cores,
        programs=tuple(programs),
        steal_frac=steal_frac,
        steal_since_boot_frac=since_boot,
        throttled_ns=_rise(before.throttled_ns, after.throttled_ns),
        swapped_in_pages=_rise(before.swapped_in_pages, after.swapped_in_pages),
    )


def running_programs(names: Collection[str]) -> list[RunningProgram]:
    """Return the running programs of these names, and who started them."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if (name := _program(process)) in names:
                memory = process.memory_info().rss
                found.append(RunningProgram(process.pid, name, _owner(process), memory))
    return found


def _program(process: psutil.Process) -> str:
    """Return a process's program; the kernel cuts the names it keeps after 15 characters."""
    argv = process.cmdline()
    return Path(argv[0]).name if argv else process.name()


def _owner(process: psutil.Process) -> Owner:
    """Tell by the parent, since k3prof starts servers itself, and they get another parent when it dies."""
    parent = process.parent()
    parents_argv = parent.cmdline() if parent is not None else []
    if is_k3prof(parents_argv):
        return Owner.SWEEP
    marked = any(word.startswith(_ALIAS) for word in process.cmdline())
    return Owner.ORPHAN if marked and not _is_python(parents_argv) else Owner.OTHER


def is_k3prof(argv: Sequence[str]) -> bool:
    """Return whether a command is k3prof: its own program, Python running that, or `python -m k3prof.…`."""
    if argv and Path(argv[0]).name == "k3prof":
        return True
    if not _is_python(argv) or len(argv) < 2:
        return False
    return Path(argv[1]).name == "k3prof" or (argv[1] == "-m" and argv[2:3] != [] and argv[2].startswith("k3prof."))


def _is_python(argv: Sequence[str]) -> bool:
    return bool(argv) and Path(argv[0]).name.startswith("python")


def _process_times() -> dict[int, tuple[str, float]]:
    times = {}
    for process in psutil.process_iter():
        with suppress(psutil.Error), process.oneshot():
            spent = process.cpu_times()
            times[process.pid] = (process.name(), spent.user + spent.system)
    return times


def _rise(before: int | None, after: int | None) -> int | None:
    return None if before is None or after is None else max(after - before, 0)
