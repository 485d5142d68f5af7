"""How many devices work at a time: the parallelism degree P.

By linearity the sum of the devices' mean busy shares is the expected number of devices busy at once, whatever window
the counter averages over. P = 1.0 is what one device at a time looks like. P > 1 proves overlap: some of the time at
least two devices were busy. P <= 1 alone does not prove that devices take turns: two half-busy devices that overlap
give 1 as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from k3prof.core.timeline import Counter, Series, busy_share

CONFIDENCE = 0.90

_BLOCK_NS = 1_000_000_000
_WINDOWED_BLOCK_NS = 3_000_000_000
_PERIODS_PER_BLOCK = 3
_LEAST_TILED_FRAC = 0.9
ROUNDED_UP_FRAC = 0.005
ROUNDED_DOWN_FRAC = 0.01
"""Whole percents read up to half a percent too high where the driver rounds to the nearest, and up to one too low where
it drops decimals. Which it does is not documented. Windows that see different shares average the error out to 0 or to
half a percent; regular work may not: with five devices that take turns of exactly 28 ms, seen through windows of 1/6 s
without decimals, P reads 0.966."""


class Question(StrEnum):
    """What one may want to conclude from P."""

    OVERLAP = "two or more devices were busy at once"
    NONE_BUSY = "none of the devices was busy"
    TURNS = "the devices took turns: never two at once"


class Answer(StrEnum):
    """What P says to it."""

    PROVEN = "proven"
    REFUTED = "refuted"
    OPEN = "open"


@dataclass(frozen=True)
class Claim:
    """What P supports, and how much of the time it holds for.

    Attributes:
        question: What is claimed.
        answer: Whether that follows from P.
        at_least_frac: Share of the time for which it must hold, from 0.
        at_most_frac: Share of the time for which it can hold, to 1.
        decided_by: What else must be known; empty where P is enough.
    """

    question: Question
    answer: Answer
    at_least_frac: float
    at_most_frac: float
    decided_by: str = ""


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
        bias_low: How much of `degree - low` allows for the driver's rounding, which no repetition averages out.
        bias_high: How much of `high - degree` does.
    """

    degree: float
    low: float | None
    high: float | None
    blocks: int
    devices: tuple[str, ...]
    resolution_ns: int
    bias_low: float = 0.0
    bias_high: float = 0.0

    @property
    def proves_overlap(self) -> bool:
        """Whether even the interval's lower end needs two devices at once."""
        return self.low is not None and self.low > 1.0

    @property
    def claims(self) -> tuple[Claim, ...]:
        """What follows from the interval for the number X of devices busy at a moment, of which P is the mean.

        With n devices, P <= P(X >= 1) + (n - 1) P(X >= 2) <= 1 + (n - 1) P(X >= 2), so the time with two or more is at
        least (P - 1) / (n - 1); by Markov's inequality it is at most P / 2. The time with none is at least 1 - P, and
        at most 1 - P / n, since no more than n are ever busy.
        """
        if self.low is None or self.high is None:
            return tuple(Claim(question, Answer.OPEN, 0.0, 1.0, _MORE_BLOCKS) for question in Question)
        devices = len(self.devices)
        overlap = max(self.low - 1, 0) / (devices - 1) if devices > 1 else 0.0
        overlap_at_most = min(max(self.high, 0) / 2, 1.0) if devices > 1 else 0.0
        none = max(1 - self.high, 0.0)
        if devices == 1:
            turns = Claim(Question.TURNS, Answer.PROVEN, 1.0, 1.0)
        elif self.proves_overlap:
            turns = Claim(Question.TURNS, Answer.REFUTED, 1 - overlap_at_most, 1 - overlap)
        else:
            turns = Claim(Question.TURNS, Answer.OPEN, 1 - overlap_at_most, 1.0, _SECOND_EQUATION)
        return (
            _claim(Question.OVERLAP, overlap, overlap_at_most, _SECOND_EQUATION),
            _claim(Question.NONE_BUSY, none, 1 - max(self.low, 0) / devices, _SECOND_EQUATION),
            turns,
        )


_MORE_BLOCKS = "more time: one block alone has no interval"
_SECOND_EQUATION = (
    "the time of each device per token: busy share × token time must equal what its bytes take at its bandwidth, and "
    "the rest of the token what the host was measured to take"
)


def _claim(question: Question, at_least: float, at_most: float, decided_by: str) -> Claim:
    if at_least > 0:
        return Claim(question, Answer.PROVEN, at_least, at_most)
    if at_most <= 0:
        return Claim(question, Answer.REFUTED, 0.0, 0.0)
    return Claim(question, Answer.OPEN, 0.0, at_most, decided_by)


def parallelism(series: Sequence[Series], intervals: Sequence[tuple[int, int]]) -> Parallelism | None:
    """Return P of the devices behind `series` (one busy counter each) over `intervals` of monotonic ns.

    Each interval is cut into equal blocks of at least three counter periods, and of at least one second, or three for
    counters that average over a window. Of those the first period of an interval is left out, since that window began
    before it, and blocks that were not tiled by readings do not count. The interval of P is Student's over the blocks,
    each weighing as much as its length, widened by what whole percents can hide. None when no block was observed on
    every device.
    """
    if not series:
        return None
    resolution_ns = max(one.period_ns for one in series)
    windowed = sum(one.counter is Counter.BUSY_FRAC for one in series)
    trim_ns = resolution_ns if windowed else 0
    shortest_ns = max(_WINDOWED_BLOCK_NS if windowed else _BLOCK_NS, _PERIODS_PER_BLOCK * resolution_ns)
    blocks = [block for begin, end in intervals for block in _blocks(begin + trim_ns, end, shortest_ns)]
    observed = [(sum(shares), end - begin) for begin, end in blocks if (shares := _shares(series, begin, end))]
    if not observed:
        return None
    sums, lengths_ns = (np.array(column, np.float64) for column in zip(*observed, strict=True))
    degree = float(np.average(sums, weights=lengths_ns))
    low = high = None
    bias_low, bias_high = ROUNDED_UP_FRAC * windowed, ROUNDED_DOWN_FRAC * windowed
    if len(observed) > 1:
        half_width = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(observed) - 1)) * _standard_error(sums, lengths_ns)
        low, high = degree - half_width - bias_low, degree + half_width + bias_high
    names = tuple(one.device for one in series)
    return Parallelism(degree, low, high, len(observed), names, resolution_ns, bias_low, bias_high)


def _shares(series: Sequence[Series], begin_ns: int, end_ns: int) -> list[float]:
    """Return the busy share of each device in a block, or nothing when one was not observed all through it."""
    shares = [busy_share(one, begin_ns, end_ns) if _tiled(one, begin_ns, end_ns) else None for one in series]
    known = [share for share in shares if share is not None]
    return known if len(known) == len(series) else []


def _tiled(series: Series, begin_ns: int, end_ns: int) -> bool:
    if series.counter is not Counter.BUSY_FRAC:
        return True
    inside = np.searchsorted(series.time_ns, [begin_ns, end_ns], side="right")
    # Where in a block its first window ends is chance: one less may fit than its length has room for.
    return bool(inside[1] - inside[0] >= _LEAST_TILED_FRAC * ((end_ns - begin_ns) // series.period_ns - 1))


def _standard_error(values: NDArray[np.float64], weights: NDArray[np.float64]) -> float:
    """Return the standard error of a weighted mean (Cochran, Sampling Techniques, 6.4): s / √n for equal weights."""
    n = values.size
    residuals = weights * (values - np.average(values, weights=weights))
    return float(np.sqrt(n / (n - 1) * np.sum(residuals**2)) / np.sum(weights))


def _blocks(begin_ns: int, end_ns: int, shortest_ns: int) -> list[tuple[int, int]]:
    if end_ns <= begin_ns:
        return []
    count = max((end_ns - begin_ns) // shortest_ns, 1)
    edges = np.linspace(begin_ns, end_ns, int(count) + 1).astype(np.int64)
    return list(pairwise(edges.tolist()))
