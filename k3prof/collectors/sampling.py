"""The sampling process: reads counters at absolute deadlines and sends them to the process that started it.

Each source is read in a thread of its own, so that a slow one (a driver call of 20 ms, a `/proc` file) never delays
another; reading mostly waits in the kernel, where Python's threads do not hinder each other.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Iterable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from k3prof.collectors.host import HostSource
from k3prof.collectors.nvml import GpuSource
from k3prof.collectors.process import Process, ProcessMemory, ProcessorTime
from k3prof.collectors.sampler import SamplerPlan
from k3prof.collectors.source import Channel, Source
from k3prof.collectors.tick import observe_tick
from k3prof.core.timeline import Counter, Series
from k3prof.errors import MachineError

SEND_INTERVAL_NS = 400_000_000

_THREAD_SWITCH_S = 0.0002
_LOWEST_REALTIME_PRIORITY = 1


class Lane(threading.Thread):
    """One source, read at its deadlines until it is told to end."""

    def __init__(self, source: Source) -> None:
        super().__init__(daemon=True)
        self.source = source
        self._failure: str | None = None
        self.reading = True
        self._rows: deque[tuple[int, int, Sequence[float | None]]] = deque()

    def run(self) -> None:
        """Read. A source that breaks its promise not to raise ends its own lane only."""
        try:
            self._read_at_deadlines()
        except Exception as error:
            names = ", ".join(sorted({channel.device for channel in self.source.channels}))
            self._failure = f"reading {names} ended: {type(error).__name__}: {error}"

    def _read_at_deadlines(self) -> None:
        schedule, read, keep = self.source.schedule, self.source.read, self._rows.append
        deadline_ns = schedule.next_after(time.monotonic_ns())
        while self.reading:
            time.sleep(max(deadline_ns - time.monotonic_ns(), 0) / 1e9)
            values = read()
            now_ns = time.monotonic_ns()
            keep((now_ns, now_ns - deadline_ns, values))
            deadline_ns = schedule.next_after(max(now_ns, deadline_ns))

    def take_failure(self) -> str | None:
        """Return why reading ended, once."""
        failure, self._failure = self._failure, None
        return failure

    def take(self) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
        """Take what was read since the last call.

        Returns:
            Monotonic times, shape (rows,); lateness in ns, shape (rows,); readings, shape (rows, channels), NaN for
            those that failed.
        """
        rows = [self._rows.popleft() for _ in range(len(self._rows))]
        return (
            np.array([time_ns for time_ns, _, _ in rows], np.int64),
            np.array([late_ns for _, late_ns, _ in rows], np.float64),
            np.array([values for _, _, values in rows], np.float64).reshape(len(rows), len(self.source.channels)),
        )


class Desk:
    """Turns what the lanes have read into series, and keeps count of what they could not read."""

    def __init__(self, name: str, sources: Iterable[Source]) -> None:
        """Name the sampler; its lateness is that of its most frequent source."""
        self.lanes = [Lane(source) for source in sources]
        self._errors: Tally[str] = Tally({channel.device: 0 for lane in self.lanes for channel in lane.source.channels})
        self._punctual = min(self.lanes, key=lambda lane: lane.source.schedule.interval_ns, default=None)
        self._name = name

    def start(self) -> None:
        """Begin to read."""
        for lane in self.lanes:
            lane.start()

    def stop(self) -> None:
        """Let every lane end at its next deadline."""
        for lane in self.lanes:
            lane.reading = False

    def failures(self) -> list[str]:
        """Return why lanes have ended since the last call."""
        return [failure for lane in self.lanes if (failure := lane.take_failure())]

    def collect(self) -> list[Series]:
        """Return one series for each channel that was read since the last call, and each device's errors so far."""
        collected: list[Series] = []
        for lane in self.lanes:
            time_ns, late_ns, values = lane.take()
            if time_ns.size == 0:
                continue
            for channel, column in zip(lane.source.channels, values.T, strict=True):
                read = ~np.isnan(column)
                self._errors[channel.device] += int(column.size - read.sum())
                collected.append(_series(channel, time_ns[read], column[read]))
            if lane is self._punctual:
                channel = Channel(self._name, Counter.LATENESS_NS, lane.source.schedule.interval_ns)
                collected.append(_series(channel, time_ns, late_ns))
        now_ns = np.array([time.monotonic_ns()])
        for device, errors in self._errors.items():
            channel = Channel(device, Counter.READ_ERRORS, SEND_INTERVAL_NS)
            collected.append(_series(channel, now_ns, np.array([float(errors)])))
        return [series for series in collected if series.time_ns.size]


def _series(channel: Channel, time_ns: NDArray[np.int64], value: NDArray[np.float64]) -> Series:
    return Series(channel.device, channel.counter, channel.period_ns, time_ns, value)


def open_sources(plan: SamplerPlan) -> list[Source]:
    """Return the sources that a plan needs.

    Raises:
        MachineError: GPUs are to be watched and NVML does not have them.
    """
    sources: list[Source] = []
    if plan.processes:
        processes = [(device, Process(pid)) for device, pid in plan.processes]
        sources.append(ProcessorTime(processes, plan.processor_interval_ns, observe_tick()))
        sources.append(ProcessMemory(processes, plan.memory_interval_ns))
    if plan.host:
        sources.append(HostSource(plan.host_interval_ns))
    if plan.gpus:
        sources.append(GpuSource(plan.gpus, plan.gpu_interval_ns))
    return sources


def serve(connection: Connection) -> None:
    """Receive a name and a plan, sample, and send series until a message arrives or the other side is gone."""
    name, plan = connection.recv()
    if plan.processes:
        _be_punctual()
    try:
        desk = Desk(name, open_sources(plan))
    except MachineError as error:
        connection.send(error.message)
        return
    desk.start()
    asked_to_stop = False
    while not asked_to_stop:
        asked_to_stop = connection.poll(SEND_INTERVAL_NS / 1e9)
        connection.send(desk.collect())
        for failure in desk.failures():
            connection.send(failure)


def _be_punctual() -> None:
    """Ask to be woken on time, ahead of the busy processes that are watched, as far as this user may.

    In the real-time class the latest of 600 wake-ups beside two busy loops on two cores came after 0.06 ms, in the
    ordinary class after 16 ms, with negative niceness after 15 ms. Without the slack that the kernel gives ordinary
    timers, the median wake-up of an otherwise idle machine is 0.05 ms late instead of 0.1 ms.
    """
    sys.setswitchinterval(_THREAD_SWITCH_S)
    with contextlib.suppress(OSError):
        Path("/proc/self/timerslack_ns").write_text("1")
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(_LOWEST_REALTIME_PRIORITY))


if __name__ == "__main__":
    # The other side ends by closing its end, whether it stops, crashes or is killed.
    with contextlib.suppress(EOFError, BrokenPipeError, ConnectionResetError):
        serve(Connection(int(sys.argv[1])))
    # Lanes may sit in a driver call that does not return.
    os._exit(0)
