"""What the kernel knows about single processes: processor time, resident memory, major faults."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from k3prof.collectors.source import Channel, Schedule
from k3prof.collectors.tick import Tick
from k3prof.core.timeline import Counter

_CPUCLOCK_SCHED = 2
_MAJOR_FAULTS_FIELD = 12
_STATE_FIELD = 3
_DEAD_STATES = frozenset("ZXx")
_STAT_BYTES = 4096
_AS_OF_NOW_NS = 300_000
_MOST_TRIES = 3


@dataclass(frozen=True)
class ProcessStat:
    """What is used of `/proc/<pid>/stat`.

    Attributes:
        state: `R` runs or waits to, `S` sleeps, `Z` has ended and waits to be noticed.
        major_faults: Cumulative page faults that waited for a disk.
    """

    state: str
    major_faults: int

    @property
    def dead(self) -> bool:
        """Whether the process has ended."""
        return self.state in _DEAD_STATES


def parse_stat(text: str) -> ProcessStat:
    """Read `/proc/<pid>/stat`, whose second field is the program's name in parentheses and may hold anything.

    Raises:
        ValueError: The text is not such a line.
    """
    fields = text.rpartition(")")[2].split()
    # proc(5) counts fields from 1; the first two end at the parenthesis.
    if len(fields) <= _MAJOR_FAULTS_FIELD - 3:
        raise ValueError(f"no line of /proc/<pid>/stat: {text[:80]!r}")
    return ProcessStat(fields[_STATE_FIELD - 3], int(fields[_MAJOR_FAULTS_FIELD - 3]))


class Process:
    """One process, followed from when this object is made.

    Its files in `/proc` are held open: they belong to this process, and reading them fails once it has gone, even
    when its pid has passed to another. Once it was seen dead, nothing more is read of it.

    Processor time is the kernel's clock of the process, which covers all its threads, the ended ones too, in one call
    (0.9 us here, against 24 us for adding up `/proc/<pid>/task/*/schedstat`, which forgets ended threads). Neither
    counts the slice in which a thread runs right now before the next scheduler tick or switch, so a reading can be
    behind by up to one tick (4 ms at 250 Hz) per running thread; the error does not add up. `ProcessorTime`
    therefore reads just after ticks.
    """

    def __init__(self, pid: int) -> None:
        self._clock = (~pid << 3) | _CPUCLOCK_SCHED
        self.alive = True
        self._stat = self._statm = -1
        try:
            folder = Path("/proc") / str(pid)
            self._stat = os.open(folder / "stat", os.O_RDONLY | os.O_CLOEXEC)
            self._statm = os.open(folder / "statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self.alive = False

    def close(self) -> None:
        """Let go of the process."""
        self.alive = False
        for descriptor in (self._stat, self._statm):
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def processor_time_ns(self) -> int | None:
        """Return the time that all its threads have spent on a processor, or None once it has gone."""
        if not self.alive:
            return None
        try:
            return time.clock_gettime_ns(self._clock)
        except OSError:
            self.alive = False
            return None

    def memory_and_faults(self) -> tuple[int, int] | None:
        """Return resident bytes and cumulative major faults, or None once it has ended.

        This is also where its end is noticed while it still waits for its parent to ask.
        """
        if not self.alive:
            return None
        try:
            stat = parse_stat(os.pread(self._stat, _STAT_BYTES, 0).decode(errors="replace"))
            resident_pages = int(os.pread(self._statm, _STAT_BYTES, 0).split()[1])
        except (OSError, ValueError, IndexError):
            self.alive = False
            return None
        if stat.dead:
            self.alive = False
            return None
        return resident_pages * os.sysconf("SC_PAGE_SIZE"), stat.major_faults


class ProcessorTime:
    """Processor time of processes, each under the name of the device it stands for."""

    def __init__(self, processes: Sequence[tuple[str, Process]], interval_ns: int, tick: Tick | None) -> None:
        """Read as often as `interval_ns` asks, just after scheduler ticks where their time is known."""
        self._processes = [process for _, process in processes]
        self.schedule = tick.schedule(interval_ns) if tick else Schedule(interval_ns)
        self.channels = tuple(
            Channel(device, Counter.CPU_TIME_NS, self.schedule.interval_ns) for device, _ in processes
        )

    def read(self) -> Sequence[float | None]:
        """Return cumulative ns on a processor of each process, all as of now.

        A machine that takes our processor away amid the readings would let them stand for different times, which
        shows as a device busier than it can be; then they are taken again.
        """
        for _ in range(_MOST_TRIES):
            began_ns = time.monotonic_ns()
            readings = [process.processor_time_ns() for process in self._processes]
            if time.monotonic_ns() - began_ns < _AS_OF_NOW_NS:
                break
        return readings


class ProcessMemory:
    """Resident memory and major faults of processes, each under the name of the device it stands for."""

    def __init__(self, processes: Sequence[tuple[str, Process]], interval_ns: int) -> None:
        self._processes = [process for _, process in processes]
        self.schedule = Schedule(interval_ns)
        self.channels = tuple(
            Channel(device, counter, interval_ns)
            for device, _ in processes
            for counter in (Counter.MEMORY_BYTES, Counter.MAJOR_FAULTS)
        )

    def read(self) -> Sequence[float | None]:
        """Return resident bytes and cumulative major faults of each process, in turn."""
        readings = [process.memory_and_faults() or (None, None) for process in self._processes]
        return [value for pair in readings for value in pair]
