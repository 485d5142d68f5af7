"""The verdict on a hypothesis: what was found, by which rule, and how sure it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from k3prof.core.refutation.evidence import Evidence, Grade
from k3prof.core.refutation.hypothesis import Hypothesis


class Ruling(StrEnum):
    """The judgement."""

    SUPPORTED = "supported"
    REFUTED = "refuted"
    INCONCLUSIVE = "inconclusive"


class Magnitude(StrEnum):
    """How large an effect is, by its whole interval, against what was predicted."""

    NO_EFFECT = "no effect"
    """Too small to matter."""
    SMALLER = "smaller"
    AS_PREDICTED = "as predicted"
    LARGER = "larger"
    OPPOSITE = "opposite"
    """The other way round."""


@dataclass(frozen=True)
class Effect:
    """What was found: a ratio candidate / baseline, or a threshold's metric in its unit.

    Attributes:
        estimate: The geometric mean of the blocks' ratios; the mean of the blocks' levels.
        low: Lower end of its 90 % interval, Student's t over blocks; None when fewer than two blocks count.
        high: Upper end.
        blocks: How many blocks it rests on.
    """

    estimate: float
    low: float | None
    high: float | None
    blocks: int


@dataclass(frozen=True)
class Verdict:
    """What is to be thought of a hypothesis, and why.

    Attributes:
        hypothesis: What was judged.
        ruling: The judgement.
        rule: The rule that decided, with its figures, in one sentence.
        magnitude: The effect's size against the prediction; None for thresholds and where the interval does not tell.
        effect: What was found; None when nothing was measured.
        grade: How much evidence there is.
        reasons: Why it is inconclusive; empty otherwise.
        blocks_needed: For an inconclusive one, how many more blocks it would probably take; None where none would help,
            or nobody can tell.
        is_final: Whether more blocks would change nothing: decided, impossible, or the last look has been taken.
        evidence: What it was judged by.
    """

    hypothesis: Hypothesis
    ruling: Ruling
    rule: str
    magnitude: Magnitude | None = None
    effect: Effect | None = None
    grade: Grade = Grade.NONE
    reasons: tuple[str, ...] = ()
    blocks_needed: int | None = None
    is_final: bool = False
    evidence: Evidence = field(default_factory=Evidence)
