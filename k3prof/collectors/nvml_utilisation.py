"""The driver's own record of utilisation, drained: readings that tile the time, where polling sees some and some twice.

The driver averages over windows of its own (1/6 to 1 s by product) and keeps the last 72 or so of each GPU. What the
record lacks, snapshots fill: while a GPU idles some drivers record nothing, and some record nothing ever.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median_low

import numpy as np
import pynvml

from k3prof.collectors.nvml_library import Handle, WatchedGpu
from k3prof.collectors.source import Schedule
from k3prof.core.timeline import Counter, Series

LONGEST_WINDOW_NS = 1_000_000_000
"""NVML documents windows of 1/6 to 1 s."""

_SHORTEST_WINDOW_NS = 10_000_000
_FEWEST_READINGS = 3
_WINDOWS_PER_DRAIN = 3
_SILENT_WINDOWS = 3
"""A record that has not grown for so long leaves the word to snapshots."""
_OLDEST_NS = 60_000_000_000
"""Readings as old as this by one clock were not dated by it: the longest record known spans 16 s."""
_LARGEST_TIME_US = 2**53
_FULL_PERCENT = 100

Readings = list[tuple[int, float]]
"""Times and percents, in order of time."""
Clock = Callable[[int], int]
"""Like `time.clock_gettime_ns`."""

_DATING_CLOCKS = (time.CLOCK_REALTIME, time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)


def read_record(handle: Handle, kind: int) -> Readings:
    """Read a whole record, in the driver's own µs, without unused (time 0) and impossible (above 100 %) readings.

    Returns:
        Readings, dated by the ends of their windows; none while the driver has recorded nothing.

    Raises:
        pynvml.NVMLError: The driver keeps no such record, or fails.
    """
    try:
        _, samples = pynvml.nvmlDeviceGetSamples(handle, kind, 0)
    except (pynvml.NVMLError_NotFound, pynvml.NVMLError_InvalidArgument):
        return []
    found = {sample.timeStamp: sample.sampleValue.uiVal for sample in samples}
    return sorted(
        (time_us, float(percent))
        for time_us, percent in found.items()
        if 0 < time_us < _LARGEST_TIME_US and percent <= _FULL_PERCENT
    )


def spacing_ns(record: Readings) -> int | None:
    """Return the usual time between readings, which is the window that each averages over; None when it is unclear."""
    if len(record) < _FEWEST_READINGS:
        return None
    return _plausible_window_ns(median_low(later - earlier for (earlier, _), (later, _) in pairwise(record)) * 1000)


def window_ns(handle: Handle) -> int | None:
    """Return the window that utilisation averages over, or None where the driver does not show it now.

    The encoder's utilisation comes from the same record as the processors', and with its period.
    """
    try:
        found_ns = spacing_ns(read_record(handle, pynvml.NVML_GPU_UTILIZATION_SAMPLES))
    except pynvml.NVMLError_GpuIsLost:
        raise
    except pynvml.NVMLError:
        found_ns = None
    return found_ns or _plausible_window_ns(pynvml.nvmlDeviceGetEncoderUtilization(handle)[1] * 1000)


def snapshot(handle: Handle) -> tuple[float, float]:
    """Return the utilisation of processors and of memory in the last window, in percent; NaN for what cannot be."""
    rates = pynvml.nvmlDeviceGetUtilizationRates(handle)
    gpu, memory = (float(percent) if percent <= _FULL_PERCENT else np.nan for percent in (rates.gpu, rates.memory))
    return gpu, memory


def on_monotonic_clock(record: Readings, clock: Clock) -> Readings:
    """Return a record dated in monotonic ns; nothing when it is dated by no clock of this machine, or is old.

    Drivers date by the time since 1970, or (on a DGX Spark) by the time since boot. The middle reading decides which,
    so that a few wrong times do no harm.
    """
    if not record:
        return []
    middle_ns = record[len(record) // 2][0] * 1000
    age_ns, dating = min(((clock(one) - middle_ns, one) for one in _DATING_CLOCKS), key=lambda pair: abs(pair[0]))
    if abs(age_ns) > _OLDEST_NS:
        return []
    offset_ns = clock(dating) - clock(time.CLOCK_MONOTONIC)
    return [(time_us * 1000 - offset_ns, percent) for time_us, percent in record]


class Track:
    """One counter's readings on their way from the record and from snapshots into one series.

    Args:
        begin_ns: Monotonic time from which readings are wanted.
    """

    def __init__(self, begin_ns: int) -> None:
        self._last_ns = begin_ns
        self._snapshots: Readings = []

    def note(self, time_ns: int, percent: float) -> None:
        """Note a snapshot."""
        self._snapshots.append((time_ns, percent))

    def take(self, record: Readings, period_ns: int, settled_ns: int) -> Readings:
        """Return the readings that are new, at least half a window apart.

        Args:
            record: The whole record, on the monotonic clock.
            period_ns: The window.
            settled_ns: Before this, the record will not grow any more: its holes may be filled.
        """
        half_ns = period_ns // 2
        fresh: Readings = []
        last_ns = self._last_ns
        for time_ns, percent in record:
            if time_ns > last_ns + half_ns:
                fresh.append((time_ns, percent))
                last_ns = time_ns
        settled_ns = max(settled_ns, last_ns)
        times_ns = [self._last_ns, *(time_ns for time_ns, _ in fresh)]
        fills = [one for one in self._snapshots if one[0] <= settled_ns and _far_from(times_ns, one[0], half_ns)]
        self._snapshots = [one for one in self._snapshots if one[0] > settled_ns]
        taken = sorted(fresh + fills)
        if taken:
            self._last_ns = taken[-1][0]
        return taken


class UtilisationRecord:
    """Utilisation of one GPU's processors and memory: a `RecordSource`.

    A snapshot is taken once a window, so that it weighs as much as a reading of the record.

    Args:
        gpu: The GPU.
        interval_ns: How often to drain at most; long windows are drained by threes.
        clock: Where the time comes from.
    """

    def __init__(self, gpu: WatchedGpu, interval_ns: int, clock: Clock = time.clock_gettime_ns) -> None:
        self.device = gpu.name
        self._gpu = gpu
        self._clock = clock
        self._interval_ns = interval_ns
        self._window_ns = gpu.ask(window_ns)
        self._has_snapshots = gpu.first_offered("utilisation", [lambda handle: snapshot(handle)[0]]) is not None
        self._recorded = {counter: kind for counter, kind in _KINDS.items() if _records(gpu, counter, kind)}
        now_ns = clock(time.CLOCK_MONOTONIC)
        self._tracks = {counter: Track(now_ns) for counter in _KINDS}
        self._drained_ns = now_ns

    @property
    def period_ns(self) -> int:
        """The window that utilisation averages over; the longest that is documented until the driver shows its own."""
        return self._window_ns or LONGEST_WINDOW_NS

    @property
    def schedule(self) -> Schedule:
        """Once a window."""
        return Schedule(self.period_ns)

    def drain(self) -> Sequence[Series]:
        """Take a snapshot, and return now and then what the driver has recorded meanwhile."""
        now_ns = self._clock(time.CLOCK_MONOTONIC)
        if self._has_snapshots:
            percents = self._gpu.ask(snapshot) or (np.nan, np.nan)
            for track, percent in zip(self._tracks.values(), percents, strict=True):
                track.note(now_ns, percent)
        if now_ns - self._drained_ns < max(self._interval_ns, _WINDOWS_PER_DRAIN * self.period_ns):
            return ()
        return self._take(now_ns - _SILENT_WINDOWS * self.period_ns)

    def finish(self) -> Sequence[Series]:
        """Return everything that has not been returned."""
        return self._take(self._clock(time.CLOCK_MONOTONIC))

    def _take(self, settled_ns: int) -> Sequence[Series]:
        self._drained_ns = self._clock(time.CLOCK_MONOTONIC)
        records = {counter: self._read(kind) for counter, kind in self._recorded.items()}
        if self._window_ns is None:
            self._window_ns = next((found for one in records.values() if (found := spacing_ns(one))), None)
        newest_ns = self._drained_ns + self.period_ns // 2
        series: list[Series] = []
        for counter, track in self._tracks.items():
            record = on_monotonic_clock(records.get(counter, []), self._clock)
            taken = track.take([one for one in record if one[0] <= newest_ns], self.period_ns, settled_ns)
            time_ns, percent = np.array([at for at, _ in taken], np.int64), np.array([value for _, value in taken])
            series.append(Series(self.device, counter, self.period_ns, time_ns, percent / _FULL_PERCENT))
        return [one for one in series if one.time_ns.size]

    def _read(self, kind: int) -> Readings:
        return self._gpu.ask(lambda handle: read_record(handle, kind)) or []


_KINDS = {
    Counter.BUSY_FRAC: pynvml.NVML_GPU_UTILIZATION_SAMPLES,
    Counter.MEMORY_BUSY_FRAC: pynvml.NVML_MEMORY_UTILIZATION_SAMPLES,
}


def _records(gpu: WatchedGpu, counter: Counter, kind: int) -> bool:
    def read(handle: Handle) -> float:
        return float(len(read_record(handle, kind)))

    return gpu.first_offered(f"a record of {counter}", [read]) is not None


def _plausible_window_ns(found_ns: int) -> int | None:
    return min(found_ns, LONGEST_WINDOW_NS) if _SHORTEST_WINDOW_NS <= found_ns < 2 * LONGEST_WINDOW_NS else None


def _far_from(times_ns: list[int], time_ns: int, distance_ns: int) -> bool:
    place = bisect_right(times_ns, time_ns)
    return all(abs(time_ns - one_ns) > distance_ns for one_ns in times_ns[max(place - 1, 0) : place + 1])
