"""Two ways of doing one thing, compared while the machine changes: interleaved arms, the ratio and its interval."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np
from scipy import stats

CONFIDENCE = 0.90
FEWEST_BLOCKS = 6
"""With fewer, a lucky narrow interval proves nothing."""

Arm = Callable[[], float]
"""Does the thing once and returns a positive reading."""


@dataclass(frozen=True)
class Ratio:
    """A ratio of two arms.

    Attributes:
        value: Geometric mean over blocks.
        low: Lower end of its 90 % interval: Student's t on the blocks' log ratios.
        high: Upper end.
        blocks: How many blocks it rests on, at least two.
    """

    value: float
    low: float
    high: float
    blocks: int

    def __str__(self) -> str:
        return f"{self.value:.3f} × [{self.low:.3f}, {self.high:.3f}]"

    def at_least(self, bound: float) -> bool | None:
        """Return whether the ratio is no less than `bound`; None when the blocks cannot tell: few, or apart."""
        if self.blocks < FEWEST_BLOCKS or self.low < bound <= self.high:
            return None
        return self.low >= bound


@dataclass(frozen=True)
class Block:
    """Readings of both arms taken one after another, so that a steady drift of the machine falls on both alike."""

    a: tuple[float, float]
    b: tuple[float, float]

    @property
    def log_ratio(self) -> float:
        """Logarithm of the ratio of a to b, of geometric means."""
        return float(np.log(self.a).mean() - np.log(self.b).mean())


def interleaved(blocks: int, a: Arm, b: Arm) -> list[Block]:
    """Run blocks of ABBA and BAAB in turn."""
    return [_block(a, b, swapped=number % 2 == 1) for number in range(blocks)]


def ratio(blocks: Sequence[Block]) -> Ratio:
    """Return the ratio of arm a to arm b."""
    return from_logs([block.log_ratio for block in blocks])


def paired_ratio(pairs: Sequence[tuple[float, float]]) -> Ratio:
    """Return the ratio of the first to the second of readings of the same event; each pair is a block."""
    return from_logs([log(a) - log(b) for a, b in pairs])


def from_logs(log_ratios: Sequence[float]) -> Ratio:
    """Return the ratio that blocks' log ratios give."""
    middle = float(np.mean(log_ratios))
    half_width = float(stats.t.ppf((1 + CONFIDENCE) / 2, len(log_ratios) - 1) * stats.sem(log_ratios))
    return Ratio(exp(middle), exp(middle - half_width), exp(middle + half_width), len(log_ratios))


def _block(a: Arm, b: Arm, swapped: bool) -> Block:
    outer, inner = (b, a) if swapped else (a, b)
    first, second, third, fourth = outer(), inner(), inner(), outer()
    outside, inside = (first, fourth), (second, third)
    return Block(inside, outside) if swapped else Block(outside, inside)
