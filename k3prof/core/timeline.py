"""What was seen while servers worked: samples of counters, phases, and the clocks that date them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Readings = NDArray[np.float64]


@dataclass(frozen=True)
class ClockAnchor:
    """One instant on two clocks, so that monotonic times can be shown as dates.

    Attributes:
        monotonic_ns: CLOCK_MONOTONIC.
        unix_ns: Nanoseconds since 1970 in UTC, read at the same moment.
    """

    monotonic_ns: int
    unix_ns: int

    def unix_at(self, monotonic_ns: int) -> int:
        """Return the date of a monotonic time, in nanoseconds since 1970 in UTC."""
        return self.unix_ns + monotonic_ns - self.monotonic_ns


class PhaseKind(StrEnum):
    """What the server was asked to do at a time."""

    LOAD = "load"
    WARMUP = "warm-up"
    UNTRACED = "untraced"
    """A repetition without the tracer, to see what the tracer costs; its figures do not count."""
    PREFILL = "prefill"
    DECODE = "decode"
    IDLE = "idle"


@dataclass(frozen=True)
class Phase:
    """An interval of one kind of work, marked from the client's own times.

    Attributes:
        kind: What was going on.
        begin_ns: Monotonic start.
        end_ns: Monotonic end.
        workload: The workload's name; empty where none was running.
        repetition: Which repetition of the workload, from 0.
    """

    kind: PhaseKind
    begin_ns: int
    end_ns: int
    workload: str = ""
    repetition: int = 0


class Counter(StrEnum):
    """What can be sampled. The text names the quantity and its unit."""

    CPU_TIME_NS = "cpu_time_ns"
    """Cumulative time on a processor, of all threads of a process."""
    BUSY_TIME_NS = "busy_time_ns"
    """Cumulative time in which something ran on a device, from the begin and end of each thing that ran."""
    BUSY_FRAC = "busy_frac"
    """Share of the counter's own window in which the device was busy."""
    MEMORY_BUSY_FRAC = "memory_busy_frac"
    """Share of the counter's own window in which memory was read or written: time, not bandwidth."""
    MEMORY_BYTES = "memory_bytes"
    """What programs hold, without what the driver keeps for itself where that is told apart."""
    MEMORY_RESERVED_BYTES = "memory_reserved_bytes"
    """What the driver keeps for itself."""
    POWER_W = "power_w"
    """Mean over the counter's own window."""
    POWER_INSTANT_W = "power_instant_w"
    ENERGY_J = "energy_j"
    """Cumulative energy."""
    PCIE_TX_BYTES = "pcie_tx_bytes"
    """Cumulative bytes that the device sent, the link's protocol included."""
    PCIE_RX_BYTES = "pcie_rx_bytes"
    """Cumulative bytes that the device received, likewise."""
    PCIE_TX_BYTES_PER_S = "pcie_tx_bytes_per_s"
    """What the device sent in the counter's own window: a glimpse, not a sum."""
    PCIE_RX_BYTES_PER_S = "pcie_rx_bytes_per_s"
    PCIE_GENERATION = "pcie_generation"
    """Of the link now: an idle one is slowed down to save power."""
    PCIE_WIDTH = "pcie_width"
    """Lanes of the link now."""
    SM_MHZ = "sm_mhz"
    MEMORY_MHZ = "memory_mhz"
    P_STATE = "p_state"
    """Performance state: 0 is the highest, 15 the lowest."""
    POWER_CAPPED_NS = "power_capped_ns"
    """Cumulative time in which the power limit held clocks down."""
    THERMAL_SLOWDOWN_NS = "thermal_slowdown_ns"
    """Cumulative time in which the driver held clocks down against heat."""
    HARDWARE_THERMAL_SLOWDOWN_NS = "hardware_thermal_slowdown_ns"
    """Cumulative time in which the hardware itself did."""
    POWER_BRAKE_NS = "power_brake_ns"
    """Cumulative time in which the power supply asked for lower clocks."""
    HOST_CPU_FRAC = "host_cpu_frac"
    HOST_AVAILABLE_BYTES = "host_available_bytes"
    MAJOR_FAULTS = "major_faults"
    """Cumulative page faults that waited for a disk."""
    THROTTLED_NS = "throttled_ns"
    """Cumulative time in which the cgroup's quota kept runnable threads waiting."""
    FREQUENCY_MHZ = "frequency_mhz"
    LATENESS_NS = "lateness_ns"
    """How long after its deadline the sampler took a sample."""
    READ_ERRORS = "read_errors"
    """Cumulative samples that could not be read."""

    @property
    def cumulative(self) -> bool:
        """Whether only differences mean something."""
        return self in _CUMULATIVE


_CUMULATIVE = frozenset(
    {
        Counter.CPU_TIME_NS,
        Counter.BUSY_TIME_NS,
        Counter.MAJOR_FAULTS,
        Counter.THROTTLED_NS,
        Counter.READ_ERRORS,
        Counter.ENERGY_J,
        Counter.PCIE_TX_BYTES,
        Counter.PCIE_RX_BYTES,
        Counter.POWER_CAPPED_NS,
        Counter.THERMAL_SLOWDOWN_NS,
        Counter.HARDWARE_THERMAL_SLOWDOWN_NS,
        Counter.POWER_BRAKE_NS,
    }
)

BUSY_COUNTERS = frozenset({Counter.CPU_TIME_NS, Counter.BUSY_TIME_NS, Counter.BUSY_FRAC})
"""What a device's busy share can be read from; a device has one of them."""


@dataclass(frozen=True, eq=False)
class Series:
    """Samples of one counter of one device, in order of time.

    Attributes:
        device: The device's name: `RPC0`, `CUDA1`, `CPU` (llama-server itself), `host` (the whole machine).
        counter: What was read.
        period_ns: The counter's own resolution: the window it averages over, or the sampling interval.
        time_ns: Monotonic times, shape (samples,), int64, strictly increasing.
        value: Readings, shape (samples,), float64.
    """

    device: str
    counter: Counter
    period_ns: int
    time_ns: NDArray[np.int64]
    value: NDArray[np.float64]


def busy_share(series: Series, begin_ns: int, end_ns: int) -> float | None:
    """Return the mean busy share of a device in an interval, or None where it was not observed.

    For cumulative time the share is the exact difference over the interval (interpolated at its edges);
    for a utilisation counter, the mean of the readings whose window ends inside.
    """
    if end_ns <= begin_ns or series.time_ns.size == 0:
        return None
    if series.counter.cumulative:
        if begin_ns < series.time_ns[0] or end_ns > series.time_ns[-1]:
            return None
        begin, end = np.interp([begin_ns, end_ns], series.time_ns, series.value)
        return float((end - begin) / (end_ns - begin_ns))
    inside = (series.time_ns > begin_ns) & (series.time_ns <= end_ns)
    return float(series.value[inside].mean()) if inside.any() else None


def mean_share(series: Series, intervals: Iterable[tuple[int, int]]) -> float | None:
    """Return the share over several intervals, each weighing as much as its length; None where none was observed."""
    shares = [(busy_share(series, begin_ns, end_ns), end_ns - begin_ns) for begin_ns, end_ns in intervals]
    observed = [(share, ns) for share, ns in shares if share is not None]
    return sum(share * ns for share, ns in observed) / sum(ns for _, ns in observed) if observed else None


def reading(series: Series, intervals: Iterable[tuple[int, int]], of: Callable[[Readings], Any]) -> float | None:
    """Return a statistic of the readings taken in some intervals; None where there are none."""
    inside = np.zeros(series.time_ns.size, bool)
    for begin_ns, end_ns in intervals:
        inside |= (series.time_ns > begin_ns) & (series.time_ns <= end_ns)
    known = series.value[inside & ~np.isnan(series.value)]
    return float(of(known)) if known.size else None


def busy_steps(series: Series, begin_ns: int, end_ns: int) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return a device's busy share between successive samples.

    Returns:
        Edges, shape (steps + 1,), int64 monotonic ns; shares between them, shape (steps,), each from 0 up.
        Both empty when fewer than two samples lie in the interval.
    """
    lo, hi = np.searchsorted(series.time_ns, [begin_ns, end_ns], side="left")
    time_ns, value = series.time_ns[max(lo - 1, 0) : hi + 1], series.value[max(lo - 1, 0) : hi + 1]
    if time_ns.size < 2:
        return np.empty(0, np.int64), np.empty(0, np.float64)
    if series.counter.cumulative:
        return time_ns, np.diff(value) / np.diff(time_ns)
    return time_ns, value[1:]
