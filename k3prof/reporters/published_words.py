"""What a report on published evidence says, apart from how it looks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

from k3prof.core.refutation.evidence import Grade
from k3prof.core.refutation.published import (
    CheckResult,
    Estimate,
    Finding,
    Judgement,
    PublishedHypothesis,
    PublishedReport,
    PublishedVerdict,
    Recomputed,
    Scatter,
    Spread,
)
from k3prof.core.refutation.verdict import Effect, Ruling
from k3prof.reporters import formats, refutation_words

SIGNS = {Finding.CONFIRMED: "✓", Finding.WRONG: "✗", Finding.UNKNOWN: "?"}
HEADINGS = {
    Finding.WRONG: "Shown wrong",
    Finding.UNKNOWN: "Cannot be recomputed",
    Finding.CONFIRMED: "Confirmed",
}
RULE = (
    "A stated number is confirmed when it is the recomputed one, rounded to the digits that it is stated with: 1.77 "
    "stands for 1.765 to 1.775, and 7 GB for 6.5 to 7.5. “by rounding”: what it is computed from was itself "
    "published rounded, and that accounts for the difference."
)
GRADE = (
    "All verdicts are unreplicated: others' figures, of which no two runs were paired in blocks on fresh servers. "
    "They say what the figures allow to conclude, not what a measurement would find."
)


def lead(report: PublishedReport) -> str:
    """Return the answer in one sentence or two."""
    parts = []
    if report.checks:
        counts = Counter(result.finding for result in report.checks)
        listed = ", ".join(f"{counts[finding]} {finding}" for finding in Finding if counts[finding])
        numbers = sum(len(result.check.stated) for result in report.checks)
        of_which = (
            f"{formats.count(numbers, 'published number')} recomputed in {formats.count(len(report.checks), 'check')}"
        )
        parts.append(f"{of_which}: {listed}.")
    if report.verdicts:
        rulings = Counter(verdict.ruling for verdict in report.verdicts)
        listed = ", ".join(f"{rulings[ruling]} {ruling}" for ruling in Ruling if rulings[ruling])
        name = "hypothesis" if len(report.verdicts) == 1 else "hypotheses"
        parts.append(f"{len(report.verdicts)} {name}, judged by unreplicated figures: {listed}.")
    return " ".join(parts)


def assumption(scatter: Scatter) -> str:
    """Return what is assumed of single figures."""
    ground = f": {scatter.because}" if scatter.because else ", which is k3prof's own assumption"
    return (
        f"Of a figure that was published once it is assumed that it is off by up to {scatter.frac * 100:g} % either "
        f"way{ground}. A ratio of two such figures may then be off by {ratio_off(scatter):.3g} times."
    )


def ratio_off(scatter: Scatter) -> float:
    """Return by how many times a ratio of two single figures may be off."""
    return (1 + scatter.frac) / (1 - scatter.frac)


def stated(number: Recomputed, result: CheckResult) -> str:
    """Return a number as it was stated, with all its digits: `0.220`, `29`."""
    return _fixed(number.stated, result.check.tolerance.decimals)


def recomputed(number: Recomputed, result: CheckResult) -> str:
    """Return the value, with a digit more than was stated, or two where the stated digits would not tell."""
    if math.isclose(number.value, number.stated, rel_tol=1e-9):
        return stated(number, result)
    shown = result.check.tolerance.decimals
    decimals = _decimals_of(number.stated) if shown is None else max(shown, 0)
    return _fixed(number.value, decimals + (1 if abs(number.value) >= 1 or decimals else 2))


def difference(number: Recomputed) -> str:
    """Return how far the stated number is too high or too low: `+7.4 %`, `-53 %`; `by rounding` where that is why."""
    if number.plainly:
        return ""
    if number.agrees:
        return "by rounding"
    excess = number.excess_frac
    if excess is None:
        return formats.UNKNOWN
    size = abs(excess) * 100
    return f"{excess * 100:+.0f} %" if size >= 10 else f"{excess * 100:+.{2 if size < 0.1 else 1}f} %"


def arithmetic(result: CheckResult) -> str:
    """Return the formula with the figures put in, and what it gives."""
    values = ", ".join(recomputed(number, result) for number in result.numbers)
    return f"{result.arithmetic} = {f'[{values}]' if len(result.numbers) > 1 else values} {result.check.unit}".rstrip()


def allowance(result: CheckResult) -> str:
    """Return how far the stated number may be off, where it is not told by its digits; empty otherwise."""
    tolerance = result.check.tolerance
    return "" if tolerance.decimals is not None else f"{tolerance.size:g} {result.check.unit}".rstrip() + " either way"


def check_row(result: CheckResult) -> tuple[str, str, str, str, str]:
    """Return name, stated, unit, recomputed, difference."""
    check = result.check
    if not result.numbers:
        decimals = check.tolerance.decimals
        return (check.name, ", ".join(_fixed(one, decimals) for one in check.stated), check.unit, formats.UNKNOWN, "")
    differences = [difference(number) for number in result.numbers]
    return (
        check.name,
        ", ".join(stated(number, result) for number in result.numbers),
        check.unit,
        ", ".join(recomputed(number, result) for number in result.numbers),
        ", ".join(dict.fromkeys(filter(None, differences))),
    )


def verdict(found: PublishedVerdict) -> str:
    """Return the judgement with a sign: `✗ refuted, unreplicated`."""
    weakness = ", unreplicated" if found.grade is Grade.UNREPLICATED else ""
    return f"{refutation_words.SIGNS[found.ruling]} {found.ruling}{weakness}"


def reading_verdict(found: Judgement) -> str:
    """Return what a corrected figure would lead to: `✓ supported`."""
    return f"{refutation_words.SIGNS[found.ruling]} {found.ruling}"


def estimate(found: Estimate | None, unit: str = "") -> str:
    """Return a figure with its interval: `0.073 [0.069, 0.077]`, `not published`."""
    if found is None:
        return "not published"
    return refutation_words.effect(Effect(found.value, found.low, found.high, 0), unit)


def repetitions(found: Estimate | None) -> str:
    """Return how many figures there are: `n = 1`, `n = 6 and 3`."""
    return "" if found is None else f"n = {' and '.join(str(count) for count in found.counts)}"


def prediction(hypothesis: PublishedHypothesis) -> str:
    """Return what was predicted: `1.6 to 2`, `at least 0.6`."""
    low, high = hypothesis.predict.low, hypothesis.predict.high
    unit = f" {hypothesis.unit}" if hypothesis.unit else ""
    if math.isinf(high):
        return f"at least {low:.6g}{unit}"
    if low <= 0 and (hypothesis.is_ratio or math.isinf(low)):
        return f"at most {high:.6g}{unit}"
    return f"{low:.6g} to {high:.6g}{unit}"


def why(found: PublishedVerdict, scatter: Scatter) -> Iterator[str]:
    """Yield why a verdict is what it is."""
    judged, hypothesis = found.as_published, found.hypothesis
    yield from (reason for reason in found.reasons if reason != judged.rule)
    if judged.estimate is not None:
        yield f"as published: {judged.rule}" if found.ruling is not judged.ruling else judged.rule
        if judged.estimate.spread is Spread.ASSUMED and hypothesis.scatter != scatter and hypothesis.scatter.because:
            yield f"assumed because {hypothesis.scatter.because}"
    elif not found.reasons:
        yield judged.rule
    if judged.magnitude is not None and found.ruling is judged.ruling:
        yield refutation_words.MAGNITUDES[judged.magnitude]


def consequences(found: PublishedVerdict) -> Iterator[str]:
    """Yield what follows from a verdict; of an undecided one, what would follow."""
    hypothesis = found.hypothesis
    for ruling, what in ((Ruling.REFUTED, hypothesis.if_refuted), (Ruling.SUPPORTED, hypothesis.if_supported)):
        if what and found.ruling is ruling:
            yield what
        elif what and found.ruling is Ruling.INCONCLUSIVE:
            yield f"if {ruling}: {what}"


def _fixed(value: float, decimals: int | None) -> str:
    places = _decimals_of(value) if decimals is None else max(decimals, 0)
    return f"{value:,.{places}f}"


def _decimals_of(value: float) -> int:
    return len(f"{value:.10g}".partition(".")[2])
