"""What blocks say of one figure: its interval, how sure it lies on one side of a bound, how many blocks that takes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from scipy.special import nctdtr, stdtr, stdtrit

from k3prof.core.refutation.evidence import Block, Figure
from k3prof.core.refutation.hypothesis import Band

CONFIDENCE = 0.90
"""Of every interval that is shown; each of its ends is wrong in one of twenty cases."""
POWER = 0.90
MOST_BLOCKS = 10_000
"""More than anybody would measure: such a difference is one that blocks do not show."""
_ROUNDING = 1e-12
"""Relative differences below this are the arithmetic's own."""

Key = TypeVar("Key")


@dataclass(frozen=True)
class Sample:
    """A figure over blocks, each of which counts as one observation.

    Attributes:
        mean: Its mean over the blocks.
        sd: Standard deviation over the blocks; 0 for a single one.
        blocks: How many there are, at least one.
        bias_low: How far below the mean the truth may lie for reasons that more blocks do not average out.
        bias_high: How far above.
        is_constant: Whether all blocks agree to the last digit, so that their scatter says nothing.
    """

    mean: float
    sd: float
    blocks: int
    bias_low: float = 0.0
    bias_high: float = 0.0
    is_constant: bool = False

    @property
    def standard_error(self) -> float:
        """Of the mean."""
        return self.sd / math.sqrt(self.blocks)

    @property
    def interval(self) -> Band | None:
        """Student's t over blocks at `CONFIDENCE`, widened by the biases; None for a single block."""
        if self.blocks < 2:
            return None
        half_width = float(stdtrit(self.blocks - 1, (1 + CONFIDENCE) / 2)) * self.standard_error
        return Band(self.mean - half_width - self.bias_low, self.mean + half_width + self.bias_high)

    def p_above(self, bound: float) -> float:
        """Return the one-sided p value against `the truth is at most bound`."""
        return 0.0 if bound == -math.inf else self._p((self.mean - self.bias_low) - bound)

    def p_below(self, bound: float) -> float:
        """Return the one-sided p value against `the truth is at least bound`."""
        return 0.0 if bound == math.inf else self._p(bound - (self.mean + self.bias_high))

    def p_within(self, band: Band) -> float:
        """Return the p value against `the truth lies outside`: two one-sided tests (TOST), the worse of them."""
        return max(self.p_above(band.low), self.p_below(band.high))

    def p_outside(self, band: Band) -> float:
        """Return the p value against `the truth lies within`.

        Twice the smaller one where both ends are finite: there are two ways to be wrong then.
        """
        ways = [1.0 if math.isinf(band.low) else self.p_below(band.low)]
        ways.append(1.0 if math.isinf(band.high) else self.p_above(band.high))
        return min(1.0, min(ways) * finite_ends(band))

    def _p(self, distance: float) -> float:
        """Return how likely a mean this far on the right side of a bound is, were the truth at the bound."""
        if self.sd == 0:
            return 1.0
        return float(stdtr(self.blocks - 1, -distance / self.standard_error))


def of_log_ratios(blocks: Sequence[Block]) -> Sample:
    """Return the sample of the blocks' log ratios; all figures must have a logarithm."""
    biases = [_log_biases(block) for block in blocks]
    return _sample([block.log_ratio for block in blocks], biases, scale=1.0)


def of_levels(blocks: Sequence[Block]) -> Sample:
    """Return the sample of the blocks' levels, in the metric's unit."""
    levels = [block.level for block in blocks]
    values = [level.value for level in levels]
    return _sample(values, [(level.bias_low, level.bias_high) for level in levels], scale=max(map(abs, values)))


def holm(shares: Mapping[Key, float], undecided: int) -> Iterator[tuple[Key, int]]:
    """Yield what Holm's sequentially rejective procedure decides, and among how many it was decided.

    Holm (1979): the smallest p value is compared with the level over the number of undecided hypotheses; if it
    passes, that one no longer counts and the next smallest is compared.

    Args:
        shares: For each hypothesis that may be decided now, its p value over the level it would have alone.
        undecided: How many of the set are undecided, those included that cannot be decided now.
    """
    for key in sorted(shares, key=lambda key: shares[key]):
        if not shares[key] * undecided <= 1:
            return
        yield key, undecided
        undecided -= 1


def blocks_to_tell(truth: float, sd: float, band: Band, level: float) -> int | None:
    """Return how many blocks show with probability `POWER` on which side of a band's ends the truth lies.

    The power is that of the noncentral t distribution. For many blocks it tends to the usual
    ((z_level + z_power) sd / distance)² + z_level² / 2.

    Returns:
        At least 2; None when the truth lies at an end, or when it would take more than `MOST_BLOCKS`.
    """
    if truth in band:
        distances = [abs(truth - end) for end in (band.low, band.high) if math.isfinite(end)]
    else:
        distances = [min(abs(truth - band.low), abs(truth - band.high))]
        level /= finite_ends(band)
    if not sd > 0 or not min(distances) > 0:
        return None

    def suffices(blocks: int) -> bool:
        return sum(_miss(distance / sd, blocks, level) for distance in distances) <= 1 - POWER

    # From few to many: far out, where any number would do, the distribution's tail underflows to nonsense.
    enough = 2
    while not suffices(enough):
        enough *= 2
        if enough > MOST_BLOCKS:
            return None
    too_few = enough // 2
    while enough - too_few > 1:
        middle = (too_few + enough) // 2
        too_few, enough = (too_few, middle) if suffices(middle) else (middle, enough)
    return enough


def finite_ends(band: Band) -> int:
    """Return how many ends of a band are finite."""
    return math.isfinite(band.low) + math.isfinite(band.high)


def _miss(distance_in_sd: float, blocks: int, level: float) -> float:
    """Return how often a one-sided t test misses a truth that far from its bound."""
    degrees = blocks - 1
    noncentrality = min(distance_in_sd, 1e3) * math.sqrt(blocks)
    return float(nctdtr(degrees, noncentrality, stdtrit(degrees, 1 - level)))


def _sample(values: Sequence[float], biases: Sequence[tuple[float, float]], scale: float) -> Sample:
    count = len(values)
    mean = math.fsum(value / count for value in values)
    sd = math.hypot(*(value - mean for value in values)) / math.sqrt(count - 1) if count > 1 else 0.0
    low, high = (math.fsum(side) / count for side in zip(*biases, strict=True))
    is_constant = count > 1 and max(values) - min(values) <= _ROUNDING * scale
    return Sample(mean, sd, count, low, high, is_constant)


def _log_biases(block: Block) -> tuple[float, float]:
    """Return how far below and above a block's log ratio the truth may lie."""
    if block.candidate is None:
        raise ValueError("a threshold's block has no ratio")
    low = sum(map(_log_below, block.candidate)) + sum(map(_log_above, block.baseline))
    high = sum(map(_log_above, block.candidate)) + sum(map(_log_below, block.baseline))
    return low / 2, high / 2


def _log_below(figure: Figure) -> float:
    share = figure.bias_low / figure.value
    return -math.log1p(-share) if share < 1 else math.inf


def _log_above(figure: Figure) -> float:
    return math.log1p(figure.bias_high / figure.value)
