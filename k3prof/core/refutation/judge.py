"""Evidence judged: each claim by rules that were fixed before the first trial, all claims of a set together.

A comparison is judged by ln(candidate / baseline) over blocks, a threshold by its metric's level, both with one-sided
Student t tests against the end of the prediction that is nearest to no effect (of a claim of no effect: against both
ends, TOST). The level is the allowed rate of error, shared among the looks (Bonferroni) and among the claims that are
undecided (Holm's sequentially rejective procedure, which holds for looks taken one after the other: Ye, Li, Liu and
Yao, A group sequential Holm procedure with multiple primary endpoints, Statistics in Medicine 32, 2013).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.refutation import stats
from k3prof.core.refutation.evidence import Block, Evidence, Grade
from k3prof.core.refutation.grounds import criterion, doubt, too_few, where
from k3prof.core.refutation.hypothesis import Again, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.magnitude import magnitude
from k3prof.core.refutation.noise import noise_obstacle
from k3prof.core.refutation.readings import blocks_at_look, unusable
from k3prof.core.refutation.stats import Sample
from k3prof.core.refutation.verdict import Effect, Magnitude, Ruling, Verdict


def judge(cases: Sequence[tuple[Hypothesis, Evidence]]) -> tuple[Verdict, ...]:
    """Return the verdicts on a set of hypotheses, in their order."""
    tests = {
        number: _Test(hypothesis, evidence)
        for number, (hypothesis, evidence) in enumerate(cases)
        if not evidence.obstacle and not isinstance(hypothesis.test, Again)
    }
    decided = _decide(tests)
    undecided = len(tests) - len(decided)
    return tuple(
        decided[number] if number in decided else _undecided(hypothesis, evidence, undecided)
        for number, (hypothesis, evidence) in enumerate(cases)
    )


def effect_of_ratio(blocks: Sequence[Block]) -> Effect | None:
    """Return the ratio candidate / baseline over blocks; None where there is none."""
    if not blocks or _has_no_ratio(blocks):
        return None
    return _effect(stats.of_log_ratios(blocks), is_ratio=True)


def planned_blocks(hypothesis: Hypothesis, again: Sequence[Block], set_size: int) -> int | None:
    """Return how many blocks a comparison will probably take, if the middle of its prediction is the truth.

    Args:
        hypothesis: The comparison; None is returned for anything else.
        again: Blocks of one placement against itself, which say how far blocks scatter.
        set_size: How many claims are judged together.

    Returns:
        The first look that suffices with probability `stats.POWER`; None where no look does, or nobody can tell.
    """
    test = hypothesis.test
    if not isinstance(test, Comparison) or len(again) < 2 or unusable(again, is_ratio=True):
        return None
    side = _side(test)
    ends = [end for end in _log_band(test.predict) if math.isfinite(end)]
    truth = sum(ends) / len(ends) if len(ends) == 2 else 2 * ends[0]
    level = _level(hypothesis.rules) / set_size
    needed = stats.blocks_to_tell(truth, stats.of_log_ratios(again).sd, side, level)
    looks = [look for look in hypothesis.rules.looks if needed is not None and look >= needed]
    return looks[0] if looks else None


@dataclass(frozen=True)
class _Reading:
    """What a test says at one look."""

    sample: Sample
    p_supported: float
    p_refuted: float

    @property
    def p(self) -> float:
        return min(self.p_supported, self.p_refuted)

    @property
    def ruling(self) -> Ruling:
        return Ruling.SUPPORTED if self.p_supported <= self.p_refuted else Ruling.REFUTED


@dataclass(frozen=True)
class _Test:
    """A comparison or a threshold with its evidence."""

    hypothesis: Hypothesis
    evidence: Evidence

    def at(self, look: int) -> _Reading | None:
        """Return what the blocks up to a look say; None where they say nothing."""
        blocks = self.evidence.blocks
        if len(blocks) < look or _blind(self.hypothesis, self.evidence):
            return None
        test = self.hypothesis.test
        if unusable(blocks[:look], is_ratio=isinstance(test, Comparison)):
            return None
        return _read(test, blocks[:look])


def _decide(tests: Mapping[int, _Test]) -> dict[int, Verdict]:
    """Return the verdicts that some look decides; each is decided at the first that does."""
    decided: dict[int, Verdict] = {}
    most = max((len(test.hypothesis.rules.looks) for test in tests.values()), default=0)
    for number in range(most):
        readings = {
            key: reading
            for key, test in tests.items()
            if key not in decided
            and number < len(test.hypothesis.rules.looks)
            and (reading := test.at(test.hypothesis.rules.looks[number])) is not None
        }
        shares = {key: reading.p / _level(tests[key].hypothesis.rules) for key, reading in readings.items()}
        for key, among in stats.holm(shares, len(tests) - len(decided)):
            decided[key] = _decided(tests[key], readings[key], number, among)
    return decided


def _decided(test: _Test, reading: _Reading, look: int, among: int) -> Verdict:
    hypothesis = test.hypothesis
    is_ratio = isinstance(hypothesis.test, Comparison)
    effect = _effect(reading.sample, is_ratio=is_ratio)
    needed = _level(hypothesis.rules) / among
    claims = "the only undecided claim" if among == 1 else f"one of {among} undecided claims"
    return Verdict(
        hypothesis=hypothesis,
        ruling=reading.ruling,
        rule=(
            f"{where(hypothesis, reading.ruling)}: p = {reading.p:.2g}, needed at most {needed:.2g} "
            f"(look {look + 1} of {len(hypothesis.rules.looks)}, {claims})"
        ),
        magnitude=magnitude(hypothesis, effect),
        effect=effect,
        grade=Grade.REPLICATED,
        is_final=True,
        evidence=test.evidence,
    )


def _undecided(hypothesis: Hypothesis, evidence: Evidence, undecided: int) -> Verdict:
    """Return the verdict where no look decides: inconclusive, or what A/A says."""
    if evidence.obstacle:
        return _inconclusive(hypothesis, evidence, evidence.obstacle, is_final=True)
    last = hypothesis.rules.looks[-1]
    is_last = len(evidence.blocks) >= last
    if isinstance(hypothesis.test, Again):
        return _again(hypothesis, hypothesis.test, evidence, is_last)
    blocks = blocks_at_look(evidence.blocks, hypothesis.rules)
    if blind := _blind(hypothesis, evidence):
        return _inconclusive(hypothesis, evidence, blind, is_final=len(evidence.again) >= last)
    if not blocks:
        return _inconclusive(hypothesis, evidence, too_few(evidence, hypothesis.rules), is_final=False)
    is_ratio = isinstance(hypothesis.test, Comparison)
    if problem := unusable(blocks, is_ratio=is_ratio):
        return _inconclusive(hypothesis, evidence, problem, is_final=is_last)
    reading = _read(hypothesis.test, blocks)
    level = _level(hypothesis.rules) / max(undecided, 1)
    needed = stats.blocks_to_tell(reading.sample.mean, reading.sample.sd, _side(hypothesis.test), level)
    more = None if needed is None else max(needed - len(evidence.blocks), 1)
    return _inconclusive(
        hypothesis,
        evidence,
        doubt(reading.sample.interval, _side(hypothesis.test), reading.p, level),
        is_final=is_last,
        blocks_needed=more,
    )


def _again(hypothesis: Hypothesis, test: Again, evidence: Evidence, is_last: bool) -> Verdict:
    """Judge a placement against itself: it never supports anything, since nothing differs."""
    blocks = blocks_at_look(evidence.blocks, hypothesis.rules)
    if not blocks:
        return _inconclusive(hypothesis, evidence, too_few(evidence, hypothesis.rules), is_final=False)
    if reason := noise_obstacle(evidence.blocks, test.smallest, hypothesis.rules):
        return _inconclusive(hypothesis, evidence, reason, is_final=is_last)
    effect = effect_of_ratio(blocks)
    return Verdict(
        hypothesis=hypothesis,
        ruling=Ruling.REFUTED,
        rule=f"the whole 90 % interval lies within {1 / test.smallest:.3g} to {test.smallest:.3g}",
        magnitude=Magnitude.NO_EFFECT,
        effect=effect,
        grade=Grade.REPLICATED,
        is_final=True,
        evidence=evidence,
    )


def _inconclusive(
    hypothesis: Hypothesis, evidence: Evidence, reason: str, *, is_final: bool, blocks_needed: int | None = None
) -> Verdict:
    is_ratio = not isinstance(hypothesis.test, Threshold)
    blocks = blocks_at_look(evidence.blocks, hypothesis.rules) or evidence.blocks
    effect = None
    if blocks and not (is_ratio and _has_no_ratio(blocks)):
        effect = _effect(stats.of_log_ratios(blocks) if is_ratio else stats.of_levels(blocks), is_ratio=is_ratio)
    return Verdict(
        hypothesis=hypothesis,
        ruling=Ruling.INCONCLUSIVE,
        rule=criterion(hypothesis.test),
        magnitude=None if effect is None else magnitude(hypothesis, effect),
        effect=effect,
        grade=Grade.REPLICATED if blocks else Grade.NONE,
        reasons=(reason,),
        blocks_needed=blocks_needed,
        is_final=is_final,
        evidence=evidence,
    )


def _read(test: Comparison | Threshold | Again, blocks: Sequence[Block]) -> _Reading:
    sample = stats.of_log_ratios(blocks) if isinstance(test, Comparison) else stats.of_levels(blocks)
    side = _side(test)
    return _Reading(sample, sample.p_within(side), sample.p_outside(side))


def _side(test: Comparison | Threshold | Again) -> Band:
    """Return where the truth lies if the claim holds, on the scale that is tested.

    More of an effect than predicted supports a claim too, so that the band of one is open to the far side.
    """
    match test:
        case Threshold(predict=predict):
            return predict
        case Comparison(predict=predict) if test.claims_no_effect:
            return Band(*_log_band(predict))
        case Comparison(predict=predict) if predict.low > 1:
            return Band(math.log(predict.low), math.inf)
        case Comparison(predict=predict):
            return Band(-math.inf, math.log(predict.high))
        case Again(smallest=smallest):
            return Band(-math.log(smallest), math.log(smallest))


def _log_band(band: Band) -> tuple[float, float]:
    return (math.log(band.low) if band.low > 0 else -math.inf, math.log(band.high))


def _level(rules: Rules) -> float:
    """Return the level of one look at a claim that stands alone."""
    return rules.alpha / len(rules.looks)


def _blind(hypothesis: Hypothesis, evidence: Evidence) -> str:
    """Return why this machine cannot tell what a comparison is about; empty when it can, and for thresholds."""
    test = hypothesis.test
    return noise_obstacle(evidence.again, test.smallest, hypothesis.rules) if isinstance(test, Comparison) else ""


def _has_no_ratio(blocks: Sequence[Block]) -> bool:
    return any(
        not 0 < figure.value < math.inf for block in blocks for figure in (*block.baseline, *(block.candidate or ()))
    )


def _effect(sample: Sample, *, is_ratio: bool) -> Effect:
    unit = _exp if is_ratio else float
    if (interval := sample.interval) is None:
        return Effect(unit(sample.mean), None, None, sample.blocks)
    return Effect(unit(sample.mean), unit(interval.low), unit(interval.high), sample.blocks)


def _exp(value: float) -> float:
    return math.exp(min(value, 700.0))
