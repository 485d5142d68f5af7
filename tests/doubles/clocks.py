"""Clocks that stand until they are set."""

from __future__ import annotations

import time
from dataclasses import dataclass

UNIX_S = 1_790_000_000.0
"""What a standing clock adds to monotonic seconds to date them since 1970."""


@dataclass
class StandingClock:
    """All clocks of a machine.

    Attributes:
        now_s: The monotonic time.
        unix_s: What the time since 1970 is ahead of it.
        asleep_s: What the time since boot is ahead of it: the time that the machine was suspended.
    """

    now_s: float = 100.0
    unix_s: float = UNIX_S
    asleep_s: float = 0.0

    def __call__(self) -> float:
        """Return the monotonic time in seconds."""
        return self.now_s

    def gettime_ns(self, clock: int) -> int:
        """Stand in for `time.clock_gettime_ns`."""
        ahead_s = {time.CLOCK_MONOTONIC: 0.0, time.CLOCK_BOOTTIME: self.asleep_s, time.CLOCK_REALTIME: self.unix_s}
        return round(self.now_s * 1e9) + round(ahead_s[clock] * 1e9)
