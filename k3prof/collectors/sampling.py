"""The sampling process: reads counters at absolute deadlines and sends them to the process that started it.

Each source is read in a lane of its own, so that a slow one (a driver call of 20 ms, a `/proc` file) never delays
another.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter as Tally
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from k3prof.collectors.host import HostSource
from k3prof.collectors.lanes import DrainingLane, Lane, PollingLane
from k3prof.collectors.nvml import open_gpus
from k3prof.collectors.nvml_library import Tell
from k3prof.collectors.process import Process, ProcessMemory, ProcessorTime
from k3prof.collectors.sampler import Report, SamplerPlan
from k3prof.collectors.source import Channel, RecordSource, Source
from k3prof.collectors.tick import observe_tick
from k3prof.core.events import DeviceEvent
from k3prof.core.timeline import Counter, Series
from k3prof.errors import MachineError

SEND_INTERVAL_NS = 400_000_000

_DRAIN_PATIENCE_S = 1.0
"""For a last look into the driver's records, which it may take its time to open."""

_THREAD_SWITCH_S = 0.0002
_LOWEST_REALTIME_PRIORITY = 1


class Desk:
    """Turns what the lanes have read into series, and keeps count of what they could not read."""

    def __init__(self, name: str, sources: Iterable[Source], records: Iterable[RecordSource] = ()) -> None:
        """Name the sampler; its lateness is that of its most frequent source."""
        self.polling = [PollingLane(source) for source in sources]
        self.draining = [DrainingLane(record) for record in records]
        self.lanes: list[Lane] = [*self.polling, *self.draining]
        devices = {device for lane in self.lanes for device in lane.devices if device}
        self._errors: Tally[str] = Tally(dict.fromkeys(devices, 0))
        self._punctual = min(self.polling, key=lambda lane: lane.source.schedule.interval_ns, default=None)
        self._name = name

    def start(self) -> None:
        """Begin to read."""
        for lane in self.lanes:
            lane.start()

    def stop(self, patience_s: float = 0.0) -> None:
        """Let every lane end, and wait for records to be drained, but no longer than patience lasts."""
        for lane in self.lanes:
            lane.end()
        give_up_s = time.monotonic() + patience_s
        for lane in self.draining:
            lane.join(max(give_up_s - time.monotonic(), 0))

    def failures(self) -> list[str]:
        """Return why lanes have ended since the last call."""
        return [failure for lane in self.lanes if (failure := lane.take_failure())]

    def collect(self) -> list[Series]:
        """Return one series for each channel that was read since the last call, and each device's errors so far."""
        collected: list[Series] = []
        for lane in self.polling:
            time_ns, late_ns, values = lane.take()
            if time_ns.size == 0:
                continue
            for channel, column in zip(lane.source.channels, values.T, strict=True):
                collected.append(self._without_errors(_series(channel, time_ns, column)))
            if lane is self._punctual:
                channel = Channel(self._name, Counter.LATENESS_NS, lane.source.schedule.interval_ns)
                collected.append(_series(channel, time_ns, late_ns))
        collected += [self._without_errors(series) for lane in self.draining for series in lane.take()]
        now_ns = np.array([time.monotonic_ns()])
        for device, errors in self._errors.items():
            channel = Channel(device, Counter.READ_ERRORS, SEND_INTERVAL_NS)
            collected.append(_series(channel, now_ns, np.array([float(errors)])))
        return [series for series in collected if series.time_ns.size]

    def _without_errors(self, series: Series) -> Series:
        read = ~np.isnan(series.value)
        self._errors[series.device] += int(read.size - read.sum())
        return replace(series, time_ns=series.time_ns[read], value=series.value[read])


def _series(channel: Channel, time_ns: NDArray[np.int64], value: NDArray[np.float64]) -> Series:
    return Series(channel.device, channel.counter, channel.period_ns, time_ns, value)


def open_desk(name: str, plan: SamplerPlan, tell: Tell) -> Desk:
    """Open the sources that a plan needs.

    Raises:
        MachineError: GPUs are to be watched and NVML does not have them.
    """
    sources: list[Source] = []
    records: list[RecordSource] = []
    if plan.processes:
        processes = [(device, Process(pid)) for device, pid in plan.processes]
        sources.append(ProcessorTime(processes, plan.processor_interval_ns, observe_tick()))
        sources.append(ProcessMemory(processes, plan.memory_interval_ns))
    if plan.host:
        sources.append(HostSource(plan.host_interval_ns))
    if plan.gpus:
        polled, recorded = open_gpus(plan.gpus, plan.gpu_intervals, tell)
        sources += polled
        records += recorded
    return Desk(name, sources, records)


def serve(connection: Connection) -> None:
    """Receive a name and a plan, sample, and send reports until a message arrives or the other side is gone."""
    name, plan = connection.recv()
    if plan.processes:
        _be_punctual()
    events: deque[DeviceEvent] = deque()
    try:
        desk = open_desk(name, plan, events.append)
    except MachineError as error:
        connection.send(Report(failures=(error.message,)))
        return
    desk.start()
    connection.send(Report())
    asked_to_stop = False
    while not asked_to_stop:
        asked_to_stop = connection.poll(SEND_INTERVAL_NS / 1e9)
        if asked_to_stop:
            desk.stop(_DRAIN_PATIENCE_S)
        series, told = desk.collect(), [events.popleft() for _ in range(len(events))]
        connection.send(Report(tuple(series), tuple(told), tuple(desk.failures())))


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
