"""What was measured to test hypotheses: figures of legs, legs in blocks, and what speaks against using them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from k3prof.core.trial import Caveat


@dataclass(frozen=True)
class Figure:
    """A metric's value from one leg: the median over its repetitions, or over all of its time.

    Attributes:
        value: The value, in the metric's unit.
        bias_low: How far below the value the truth may lie for reasons that no repetition averages out.
        bias_high: How far above.
    """

    value: float
    bias_low: float = 0.0
    bias_high: float = 0.0


Pair = tuple[Figure, Figure]
"""The figures of one arm's two legs in a block, in order of time."""


@dataclass(frozen=True)
class Block:
    """The unit of analysis: each arm twice, mirrored in time (ABBA or BAAB), so that a steady drift favours neither.

    Attributes:
        round: The round that it was part of.
        baseline: The baseline's two legs; of a threshold, its arm's.
        candidate: The candidate's two legs; None for a threshold.
    """

    round: int
    baseline: Pair
    candidate: Pair | None = None

    @property
    def level(self) -> Figure:
        """The mean of the first arm's legs."""
        return _mean(self.baseline)

    @property
    def log_ratio(self) -> float:
        """Half of (ln B₁ + ln B₂) - (ln A₁ + ln A₂), with A the baseline: a steady drift cancels.

        Raises:
            ValueError: There is no candidate, or a figure that has no logarithm.
        """
        if self.candidate is None:
            raise ValueError("a threshold's block has no ratio")
        return (_log_sum(self.candidate) - _log_sum(self.baseline)) / 2


def _mean(pair: Pair) -> Figure:
    first, second = pair
    return Figure(
        (first.value + second.value) / 2,
        (first.bias_low + second.bias_low) / 2,
        (first.bias_high + second.bias_high) / 2,
    )


def _log_sum(pair: Pair) -> float:
    return sum(math.log(figure.value) for figure in pair)


@dataclass(frozen=True)
class Voided:
    """A block that does not count.

    Attributes:
        round: The round that it was part of.
        reason: What spoilt it, and in which leg.
    """

    round: int
    reason: str


class Grade(StrEnum):
    """How much evidence there is."""

    REPLICATED = "replicated"
    """Blocks with fresh servers, both arms in each."""
    UNREPLICATED = "unreplicated"
    """Single figures, whose scatter is assumed and not measured."""
    NONE = "none"


@dataclass(frozen=True)
class Evidence:
    """All that a hypothesis is judged by.

    Attributes:
        blocks: Complete blocks that count, in order of time.
        again: Blocks of one placement against itself (A/A), with the same metric and workload; a gate for comparisons.
        voided: Blocks that do not count, and why.
        obstacle: Why no number of blocks would allow a verdict: `confounded by …`, `the change did not take`,
            `no data for …`; empty when nothing stands in the way.
        caveats: Reasons to doubt its figures that do not void them.
    """

    blocks: tuple[Block, ...] = ()
    again: tuple[Block, ...] = ()
    voided: tuple[Voided, ...] = ()
    obstacle: str = ""
    caveats: tuple[Caveat, ...] = ()
