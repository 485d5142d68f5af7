"""How verdicts are put into words: the sentences that terminal, HTML and Markdown share."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from k3prof.core.refutation.evidence import Block, Grade
from k3prof.core.refutation.hypothesis import Again, Band, Comparison, Hypothesis, Threshold
from k3prof.core.refutation.verdict import Effect, Magnitude, Ruling, Verdict
from k3prof.core.trial import Caveat
from k3prof.reporters import formats
from k3prof.reporters.refutation_input import Judged, Noise

NOT_MEASURED = "not measured"
SIGNS = {Ruling.SUPPORTED: "✓", Ruling.REFUTED: "✗", Ruling.INCONCLUSIVE: "?"}
_GRADES = {
    Grade.REPLICATED: "replicated, a fresh server for every run",
    Grade.UNREPLICATED: "unreplicated: single figures, whose scatter is assumed and not measured",
    Grade.NONE: "no evidence",
}
MAGNITUDES = {
    Magnitude.NO_EFFECT: "no effect: the whole interval is too close to 1 to matter",
    Magnitude.SMALLER: "an effect, but smaller than predicted",
    Magnitude.AS_PREDICTED: "as large as predicted",
    Magnitude.LARGER: "larger than predicted",
    Magnitude.OPPOSITE: "an effect the other way round",
}


def is_weak(found: Verdict) -> bool:
    """Whether a verdict rests on figures whose scatter nobody measured."""
    return found.grade is Grade.UNREPLICATED


def verdict(found: Verdict) -> str:
    """Return the judgement in words and with a sign: `✗ refuted`, `✗ refuted, unreplicated`."""
    weakness = ", unreplicated" if is_weak(found) else ""
    return f"{SIGNS[found.ruling]} {found.ruling}{weakness}"


def effect(found: Effect | None, unit: str = "") -> str:
    """Return an estimate with its interval: `1.03 [1.01, 1.05]`, `33.3 tok/s [32.7, 33.9]`, `not measured`."""
    if found is None:
        return NOT_MEASURED
    decimals = _decimals(found)
    estimate = " ".join(filter(None, [_fixed(found.estimate, decimals), unit]))
    if found.low is None or found.high is None:
        return f"{estimate}, no interval"
    return f"{estimate} [{_fixed(found.low, decimals)}, {_fixed(found.high, decimals)}]"


def effect_of(row: Judged) -> str:
    """Return what was found for a hypothesis, in the metric's unit where it is no ratio."""
    return effect(row.verdict.effect, row.metric_unit if isinstance(row.verdict.hypothesis.test, Threshold) else "")


def prediction(hypothesis: Hypothesis, unit: str = "") -> str:
    """Return what was predicted: `1.6 to 2.0`, `at least 0.6`, `at most 12 ms`, `outside 0.952 to 1.05`."""
    match hypothesis.test:
        case Comparison(predict=predict):
            return _band(predict, "", floor=0.0)
        case Threshold(predict=predict):
            return _band(predict, unit)
        case Again(smallest=smallest):
            return f"outside {1 / smallest:.3g} to {smallest:.3g}"


def prediction_of(row: Judged) -> str:
    """Return what was predicted, in the metric's unit."""
    return prediction(row.verdict.hypothesis, row.metric_unit)


def test(hypothesis: Hypothesis) -> str:
    """Return what is measured: `tg of experts-8 / tg of experts-16, in tg128`."""
    metric = hypothesis.metric
    match hypothesis.test:
        case Comparison(baseline=base, candidate=candidate) if base.workload == candidate.workload:
            return f"{metric} of {candidate.placement} / {metric} of {base.placement}, in {base.workload.name}"
        case Comparison(baseline=base, candidate=candidate):
            return f"{metric} of ({candidate.name}) / {metric} of ({base.name})"
        case Threshold(of=arm):
            return f"{metric} of {arm.placement}, in {arm.workload.name}"
        case Again(of=arm):
            return f"{metric} of {arm.placement} / {metric} of {arm.placement} again, in {arm.workload.name}"


def finding(row: Judged) -> str:
    """Return one sentence on what was found against what was predicted."""
    hypothesis = row.verdict.hypothesis
    return f"{test(hypothesis)}: {effect_of(row)}; predicted {prediction_of(row)}"


def magnitude(found: Verdict) -> str:
    """Return how large the effect is against the prediction; empty where the interval does not tell."""
    return "" if found.magnitude is None else MAGNITUDES[found.magnitude]


def grade(found: Verdict) -> str:
    """Return how much evidence there is."""
    return _GRADES[found.grade]


def blocks(found: Verdict) -> str:
    """Return how many blocks were judged, of how many that count: `5`, `5 of 6`, `none`."""
    measured = len(found.evidence.blocks)
    judged = 0 if found.effect is None else found.effect.blocks
    if not measured:
        return "none"
    return str(measured) if judged in (0, measured) else f"{judged} of {measured}"


def voids(found: Verdict) -> str:
    """Return how many blocks do not count: `1 void`; empty for none."""
    return f"{len(found.evidence.voided)} void" if found.evidence.voided else ""


def needed(found: Verdict) -> str:
    """Return what would settle an inconclusive verdict; empty for one that is decided."""
    if found.ruling is not Ruling.INCONCLUSIVE:
        return ""
    if found.blocks_needed is not None:
        last = found.hypothesis.rules.looks[-1]
        most = f", beyond the {last} that its rules allow" if _beyond(found, last) else ""
        return f"about {formats.count(found.blocks_needed, 'more block')}{most}"
    if found.is_final:
        return "more blocks would not: the hypothesis or the placements have to change"
    return "unknown"


def _beyond(found: Verdict, last: int) -> bool:
    return len(found.evidence.blocks) + (found.blocks_needed or 0) > last


def consequences(found: Verdict) -> Iterator[str]:
    """Yield what follows from a verdict; of an undecided one, what would follow."""
    hypothesis = found.hypothesis
    for ruling, what in ((Ruling.REFUTED, hypothesis.if_refuted), (Ruling.SUPPORTED, hypothesis.if_supported)):
        if what and found.ruling is ruling:
            yield what
        elif what and found.ruling is Ruling.INCONCLUSIVE:
            yield f"if {ruling}: {what}"


def rules(hypothesis: Hypothesis) -> str:
    """Return the rates of error and the looks that were fixed beforehand."""
    looks = [str(look) for look in hypothesis.rules.looks]
    alpha = f"{hypothesis.rules.alpha * 100:g} % of error each way for the whole set"
    text = f"{alpha}, looks after {_listed(looks)} blocks"
    if isinstance(hypothesis.test, Threshold):
        return text
    smallest = hypothesis.test.smallest
    return f"{text}; {1 / smallest:.3g} to {smallest:.3g} is too small to matter"


def caveat(doubt: Caveat) -> str:
    """Return a reason to doubt with its remedy."""
    return f"{doubt.code}: {doubt.message}" + (f". Remedy: {doubt.remedy}" if doubt.remedy else "")


def noise(found: Noise) -> str:
    """Return how far two runs of one placement differ."""
    return f"one placement / the same again: {effect(found.effect)}, {formats.count(found.effect.blocks, 'block')}"


def replaced(found: Verdict, unit: str) -> str:
    """Return a verdict that no longer stands: `? inconclusive: 1.00 [0.98, 1.02], predicted 0.9 to 0.995`."""
    measured = effect(found.effect, unit if isinstance(found.hypothesis.test, Threshold) else "")
    return f"{verdict(found)}: {measured}, predicted {prediction(found.hypothesis, unit)}"


def when(unix_ns: int | None) -> str:
    """Return a date for people, to the minute."""
    if unix_ns is None:
        return formats.UNKNOWN
    return datetime.fromtimestamp(unix_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M UTC")


def value(block: Block) -> float | None:
    """Return a block's ratio candidate / baseline, or its level where there is one arm; None when there is no such."""
    if block.candidate is None:
        return block.level.value if math.isfinite(block.level.value) else None
    figures = (*block.baseline, *block.candidate)
    if not all(0 < figure.value < math.inf for figure in figures):
        return None
    return math.exp(block.log_ratio)


def _band(predict: Band, unit: str, floor: float = -math.inf) -> str:
    after = f" {unit}" if unit else ""
    if predict.low <= floor:
        return f"at most {predict.high:.6g}{after}"
    if math.isinf(predict.high):
        return f"at least {predict.low:.6g}{after}"
    ends = [f"{end:.6g}" for end in (predict.low, predict.high)]
    if not any("e" in end for end in ends):
        decimals = max(len(end.partition(".")[2]) for end in ends)
        ends = [f"{end:.{decimals}f}" for end in (predict.low, predict.high)]
    return f"{' to '.join(ends)}{after}"


def _decimals(found: Effect) -> int:
    """Return how many decimals tell: to the first digit in doubt, or the second where the first is a one."""
    if found.low is None or found.high is None or not 0 < found.high - found.low < math.inf:
        return _leading(found.estimate, 3)
    half_width = (found.high - found.low) / 2
    starts_with_one = f"{half_width:e}".startswith("1")
    doubt = _leading(half_width, 2 if starts_with_one else 1)
    return max(doubt, 2) if abs(found.estimate) < 10 else doubt


def _leading(value: float, digits: int) -> int:
    if value == 0 or not math.isfinite(value):
        return 2
    return min(max(digits - 1 - math.floor(math.log10(abs(value))), 0), 6)


def _fixed(value: float, decimals: int) -> str:
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if abs(value) >= 1e6 or 0 < abs(value) < 1e-4:
        return f"{value:.3g}"
    return f"{value:,.{decimals}f}"


def _listed(words: Sequence[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
