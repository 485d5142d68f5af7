"""How many devices work at a time: the parallelism degree P.

By linearity the sum of the devices' mean busy shares is the expected number of devices busy at once, whatever window
the counter averages over. P = 1.0 is what one device at a time looks like. P > 1 proves overlap: some of the time at
least two devices were busy. P <= 1 alone does not prove that devices take turns: two half-busy devices that overlap
give 1 as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import stats

from k3prof.core.timeline import Counter, Series, busy_share

CONFIDENCE = 0.90
_BLOCK_NS = 1_000_000_000
_WINDOWS_PER_BLOCK = 3
_INTEGER_PERCENT_BIAS = 0.005


@dataclass(frozen=True)
class Parallelism:
    """The parallelism degree of some devices over some time.

    Attributes:
        degree: P, the mean number of devices busy at once.
        low: Lower end of its 90 % interval; None when one block alone was observed.
        high: Upper end.
        blocks: Blocks of time it rests on, the unit of the interval.
        devices: The devices counted, by name.
        resolution_ns: The coarsest period among the counters it was read from.
    """

    degree: float
    low: float | None
    high: float | None
    blocks: int
    devices: tuple[str, ...]
    resolution_ns: int

    @property
    def proves_overlap(self) -> bool:
        """Whether even the interval's lower end needs two devices at once."""
        return self.low is not None and self.low > 1.0


def parallelism(series: Sequence[Series], intervals: Sequence[tuple[int, int]]) -> Parallelism | None:
    """Return P of the devices behind `series` (one busy counter each) over `intervals` of monotonic ns.

    Each interval is cut into equal blocks of at least a second and three counter periods; the first period of an
    interval is left out for counters that average over a window, since that window began before it. The interval
    of P is Student's over the blocks, widened by half a percent per device for counters that the driver rounds to
    whole percents. None when no block was observed on every device.
    """
    if not series:
        return None
    resolution_ns = max(one.period_ns for one in series)
    windowed = any(one.counter is Counter.BUSY_FRAC for one in series)
    trim_ns = resolution_ns if windowed else 0
    shares: list[float] = []
    for begin_ns, end_ns in intervals:
        for block_begin_ns, block_end_ns in _blocks(begin_ns + trim_ns, end_ns, resolution_ns):
            block = [busy_share(one, block_begin_ns, block_end_ns) for one in series]
            observed = [share for share in block if share is not None]
            if len(observed) == len(block):
                shares.append(sum(observed))
    if not shares:
        return None
    degree = float(np.mean(shares))
    low = high = None
    if len(shares) > 1:
        half_width = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(shares) - 1) * stats.sem(shares))
        half_width += _INTEGER_PERCENT_BIAS * len(series) if windowed else 0.0
        low, high = degree - half_width, degree + half_width
    return Parallelism(degree, low, high, len(shares), tuple(one.device for one in series), resolution_ns)


def _blocks(begin_ns: int, end_ns: int, resolution_ns: int) -> list[tuple[int, int]]:
    shortest_ns = max(_BLOCK_NS, _WINDOWS_PER_BLOCK * resolution_ns)
    if end_ns <= begin_ns:
        return []
    count = max((end_ns - begin_ns) // shortest_ns, 1)
    edges = np.linspace(begin_ns, end_ns, int(count) + 1).astype(np.int64)
    return list(pairwise(edges.tolist()))
