"""Figures that others published, what they concluded from them, and what is to be thought of both."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from k3prof.core.refutation.evidence import Grade
from k3prof.core.refutation.figures import Data
from k3prof.core.refutation.formula import Formula
from k3prof.core.refutation.hypothesis import Band
from k3prof.core.refutation.verdict import Magnitude, Ruling


@dataclass(frozen=True)
class Tolerance:
    """How far a stated number may lie from the recomputed one.

    Attributes:
        size: In the number's unit, either way.
        decimals: Digits after the point that the number is stated with, below 0 for zeros before it that are no
            figures; None when the size was given as such.
    """

    size: float
    decimals: int | None = None

    @classmethod
    def of_digits(cls, decimals: int) -> Tolerance:
        """Half a unit in the last digit: 1.77 is anything from 1.765 to 1.775, 7 anything from 6.5 to 7.5."""
        return cls(0.5 * 10.0**-decimals, decimals)


@dataclass(frozen=True)
class Check:
    """A number that was published, and how it follows from others.

    Attributes:
        name: What the number is.
        stated: The number, or one for each of a list.
        unit: Its unit, as published.
        because: The arithmetic in words.
        formula: How it is recomputed; None when it cannot be.
        tolerance: How far it may be off.
        rounded: Names of figures that were themselves published rounded; what that leaves open is no error.
        missing: What would have to be published to recompute it; empty when there is a formula.
        note: What the outcome means: `GiB and GB mixed up`.
        where: Where it stands, for messages.
    """

    name: str
    stated: tuple[float, ...]
    unit: str
    because: str
    formula: Formula | None
    tolerance: Tolerance
    rounded: tuple[Formula, ...] = ()
    missing: str = ""
    note: str = ""
    where: str = ""


class Finding(StrEnum):
    """What recomputing a number came to."""

    CONFIRMED = "confirmed"
    WRONG = "shown wrong"
    UNKNOWN = "cannot be recomputed"


@dataclass(frozen=True)
class Recomputed:
    """A stated number beside its recomputed value.

    Attributes:
        stated: As published.
        value: Recomputed.
        low: The least that it could be, given the rounding of what it is computed from.
        high: The most.
        agrees: Whether the stated number is within its tolerance of that.
        plainly: Whether it is within its tolerance of the value itself.
    """

    stated: float
    value: float
    low: float
    high: float
    agrees: bool
    plainly: bool

    @property
    def excess_frac(self) -> float | None:
        """How far too high the stated number is, below 0 for too low, over the value; None for a value of 0."""
        return None if self.value == 0 else (self.stated - self.value) / abs(self.value)


@dataclass(frozen=True)
class CheckResult:
    """A published number, recomputed.

    Attributes:
        check: What was recomputed.
        finding: What it came to.
        numbers: Each stated number with its value; empty when it cannot be recomputed.
        arithmetic: The formula with the figures put in.
        missing: What is not there to recompute it from; empty otherwise.
    """

    check: Check
    finding: Finding
    numbers: tuple[Recomputed, ...] = ()
    arithmetic: str = ""
    missing: str = ""

    @property
    def worst(self) -> Recomputed | None:
        """The number that is furthest off, those that disagree first; None when none was recomputed."""
        return max(self.numbers, key=lambda one: (not one.agrees, abs(one.excess_frac or 0.0)), default=None)


@dataclass(frozen=True)
class Scatter:
    """How far a single figure is assumed to lie from what many would average to.

    Attributes:
        frac: As a share of the figure, either way.
        because: Why that much; empty when it is k3prof's own assumption.
    """

    frac: float = 0.10
    because: str = ""


@dataclass(frozen=True)
class Reading:
    """A figure as it is when what it rests on is put right in one of several ways.

    Attributes:
        name: What is put right, and how: `trunk in Q8_0, 8.5 bit`.
        value: The figure.
    """

    name: str
    value: Formula


@dataclass(frozen=True)
class PublishedHypothesis:
    """A claim that published figures are to decide: by a ratio, or by one figure and a threshold.

    Attributes:
        id: A short name.
        claim: What is claimed, in one sentence.
        because: Why the prediction follows from the claim.
        predict: The ratio, or where the figure lies (one end infinite), if the claim holds.
        smallest: The ratio, above 1, below which a difference does not matter; None for a threshold.
        unit: The figure's unit; empty for a ratio.
        value: The figure or ratio, or repetitions of it; None when two arms are given, or nothing.
        arms: The baseline's and the candidate's figures; None when a value is given, or nothing.
        scatter: What is assumed where repetitions do not tell.
        rests_on: Names of checks without which the figures say nothing.
        obstacle: Why no figure decides it: `nobody knows whether it was switched on`; empty for nothing.
        corrected: The figure put right, in each way that is possible.
        if_refuted: What follows when it is refuted; empty for nothing in particular.
        if_supported: Likewise.
        where: Where it stands, for messages.
    """

    id: str
    claim: str
    because: str
    predict: Band
    smallest: float | None = None
    unit: str = ""
    value: Formula | None = None
    arms: tuple[Formula, Formula] | None = None
    scatter: Scatter = Scatter()
    rests_on: tuple[str, ...] = ()
    obstacle: str = ""
    corrected: tuple[Reading, ...] = ()
    if_refuted: str = ""
    if_supported: str = ""
    where: str = ""

    @property
    def is_ratio(self) -> bool:
        """Whether it is about candidate / baseline, and not about one figure."""
        return self.smallest is not None

    @property
    def claims_no_effect(self) -> bool:
        """Whether the claim is that the arms do not differ."""
        return self.is_ratio and 1.0 in self.predict


@dataclass(frozen=True)
class Published:
    """A file of published evidence.

    Attributes:
        title: What it is about.
        source: Who published the figures, and where.
        scatter: What is assumed of single figures where a claim says nothing else.
        data: The figures, as published.
        checks: Numbers to recompute.
        hypotheses: Claims to judge.
    """

    title: str
    source: str
    scatter: Scatter
    data: Data = field(hash=False)
    checks: tuple[Check, ...] = ()
    hypotheses: tuple[PublishedHypothesis, ...] = ()


class Spread(StrEnum):
    """Where an interval's width comes from."""

    ASSUMED = "assumed"
    WELCH = "Welch's t on logarithms"
    STUDENT_LOGS = "Student's t on logarithms"
    STUDENT = "Student's t"


@dataclass(frozen=True)
class Estimate:
    """What the figures say.

    Attributes:
        value: A ratio, or a figure in its unit.
        low: Lower end: the worst that the assumed scatter allows, or of a 90 % interval.
        high: Upper end.
        spread: Which of both.
        counts: How many figures it is taken from: of the baseline and the candidate, or of the value.
        decisive: The interval that decides, where several tests share the rate of error; else the same.
    """

    value: float
    low: float
    high: float
    spread: Spread
    counts: tuple[int, ...]
    decisive: tuple[float, float]


@dataclass(frozen=True)
class Judgement:
    """What one estimate says about a prediction.

    Attributes:
        name: Which reading of the figures it is; empty for the figures as published.
        estimate: What was found; None when the figures are not there.
        ruling: What follows.
        rule: The rule that decided, with its figures, in one sentence.
        magnitude: The size of a ratio against the prediction; None where the interval does not tell.
        arithmetic: The formula with the figures put in.
    """

    name: str
    estimate: Estimate | None
    ruling: Ruling
    rule: str
    magnitude: Magnitude | None = None
    arithmetic: str = ""


@dataclass(frozen=True)
class PublishedVerdict:
    """What is to be thought of a claim, by published figures.

    Attributes:
        hypothesis: What was judged.
        ruling: The judgement.
        as_published: What the figures say as they stand.
        grade: How much evidence there is: unreplicated, or none.
        reasons: Why it is inconclusive; empty otherwise.
        corrected: What the figure says once put right, in each way that is possible.
    """

    hypothesis: PublishedHypothesis
    ruling: Ruling
    as_published: Judgement
    grade: Grade
    reasons: tuple[str, ...] = ()
    corrected: tuple[Judgement, ...] = ()


@dataclass(frozen=True)
class PublishedReport:
    """Published evidence, judged.

    Attributes:
        published: The file.
        checks: Its numbers, recomputed, in the file's order.
        verdicts: Its claims, judged, in the file's order.
    """

    published: Published
    checks: tuple[CheckResult, ...]
    verdicts: tuple[PublishedVerdict, ...]

    def found(self, finding: Finding) -> tuple[CheckResult, ...]:
        """Return the numbers of which recomputing came to this; those shown wrong in order of how far they are off."""
        results = [result for result in self.checks if result.finding is finding]
        if finding is Finding.WRONG:
            results.sort(key=lambda one: -abs(one.worst.excess_frac or 0.0) if one.worst else 0.0)
        return tuple(results)
