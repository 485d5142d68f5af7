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
from dataclasses import dataclass, replace

from k3prof.core.refutation import stats
from k3prof.core.refutation.evidence import Block, Evidence, Grade
from k3prof.core.refutation.grounds import criterion, doubt, too_few, where
from k3prof.core.refutation.hypothesis import Again, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.magnitude import magnitude
from k3prof.core.refutation.noise import noise_obstacle
from k3prof.core.refutation.readings import blocks_at_look, unusable
from k3prof.core.refutation.stats import Sample
from k3prof.core.refutation.verdict import Effect, Ruling, Verdict

_SHOWN = (1 - stats.CONFIDENCE) / 2
"""No verdict contradicts the interval that is shown, however large an error is allowed."""
_LEAST_SCATTER = 0.5
"""Of the scatter of A/A: blocks that agree better than that do so by luck."""


def judge(cases: Sequence[tuple[Hypothesis, Evidence]]) -> tuple[Verdict, ...]:
    """Return the verdicts on a set of hypotheses, in their order."""
    possible = {
        number: _Test(hypothesis, evidence)
        for number, (hypothesis, evidence) in enumerate(cases)
        if not evidence.obstacle
    }
    again = {number for number, test in possible.items() if isinstance(test.hypothesis.test, Again)}
    claims = {number: test for number, test in possible.items() if number not in again}
    decided = _decide(claims)
    undecided = len(claims) - len(decided)
    # A placement against itself is no claim about placements: it takes no share of the level from those that are.
    for number in again:
        decided |= _decide({number: possible[number]})
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
    """A hypothesis with its evidence."""

    hypothesis: Hypothesis
    evidence: Evidence

    @property
    def turns(self) -> set[int]:
        """The rounds after which there was something new to look at."""
        lists = (self.evidence.blocks, self.evidence.again)
        looks = self.hypothesis.rules.looks
        return {blocks[look - 1].round for blocks in lists for look in looks if look <= len(blocks)}

    def after(self, turn: int) -> _Reading | None:
        """Return what was known after a round; None where that says nothing."""
        again = [block for block in self.evidence.again if block.round <= turn]
        if _blind(self.hypothesis, again):
            return None
        rules = self.hypothesis.rules
        blocks = blocks_at_look([block for block in self.evidence.blocks if block.round <= turn], rules)
        if not blocks or unusable(blocks, is_ratio=_is_ratio(self.hypothesis)):
            return None
        return _read(self.hypothesis, blocks, again)


def _decide(tests: Mapping[int, _Test]) -> dict[int, Verdict]:
    """Return the verdicts that some look decides; each is decided at the first that does.

    The rounds are gone through as they came, each with what was known then: later blocks, of whichever hypothesis or
    of A/A, take no verdict back.
    """
    decided: dict[int, Verdict] = {}
    for turn in sorted(set().union(*(test.turns for test in tests.values()))):
        open_tests = {key: test for key, test in tests.items() if key not in decided}
        read = {key: test.after(turn) for key, test in open_tests.items()}
        readings = {key: reading for key, reading in read.items() if reading is not None and reading.p <= _SHOWN}
        shares = {key: reading.p / _level(tests[key].hypothesis.rules) for key, reading in readings.items()}
        for key, among in stats.holm(shares, len(open_tests)):
            decided[key] = _decided(tests[key], readings[key], among)
    return decided


def _decided(test: _Test, reading: _Reading, among: int) -> Verdict:
    hypothesis = test.hypothesis
    effect = _effect(reading.sample, is_ratio=_is_ratio(hypothesis))
    needed = min(_SHOWN, _level(hypothesis.rules) / among)
    look = hypothesis.rules.looks.index(reading.sample.blocks) + 1
    claims = "the only undecided claim" if among == 1 else f"one of {among} undecided claims"
    return Verdict(
        hypothesis=hypothesis,
        ruling=reading.ruling,
        rule=(
            f"{where(hypothesis, reading.ruling)}: p = {reading.p:.2g}, needed at most {needed:.2g} "
            f"(look {look} of {len(hypothesis.rules.looks)}, {claims})"
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
    blocks = blocks_at_look(evidence.blocks, hypothesis.rules)
    if blind := _blind(hypothesis, evidence.again):
        return _inconclusive(hypothesis, evidence, blind, is_final=len(evidence.again) >= last)
    if not blocks:
        return _inconclusive(hypothesis, evidence, too_few(evidence, hypothesis.rules), is_final=False)
    if problem := unusable(blocks, is_ratio=_is_ratio(hypothesis)):
        # What agrees may come apart; a figure that cannot be read stays among the first blocks.
        is_constant = len(blocks) > 1 and _can_be_averaged(blocks, hypothesis)
        return _inconclusive(hypothesis, evidence, problem, is_final=is_last or not is_constant)
    if isinstance(hypothesis.test, Again):
        if reason := noise_obstacle(evidence.blocks, hypothesis.test.smallest, hypothesis.rules):
            return _inconclusive(hypothesis, evidence, reason, is_final=is_last)
        undecided = 1
    reading = _read(hypothesis, blocks, evidence.again)
    level = min(_SHOWN, _level(hypothesis.rules) / max(undecided, 1))
    more = _more_blocks(hypothesis, reading.sample, len(evidence.blocks), level)
    return _inconclusive(
        hypothesis,
        evidence,
        doubt(reading.sample.interval, _side(hypothesis.test), reading.p, level),
        is_final=is_last,
        blocks_needed=more,
    )


def _more_blocks(hypothesis: Hypothesis, sample: Sample, measured: int, level: float) -> int | None:
    """Return how many more blocks a look would probably take that decides; None where none would help."""
    side, low, high = _side(hypothesis.test), sample.bias_low, sample.bias_high
    # Where the mean must lie for a verdict to be in reach: the biases do not shrink, however many blocks there are.
    inside, outside = Band(side.low + low, side.high - high), Band(side.low - high, side.high + low)
    if sample.mean in inside:
        needed = stats.blocks_to_tell(sample.mean, sample.sd, inside, level)
    elif sample.mean not in outside and not isinstance(hypothesis.test, Again):
        needed = stats.blocks_to_tell(sample.mean, sample.sd, outside, level)
    else:
        return None
    if needed is None:
        return None
    look = next((look for look in hypothesis.rules.looks if look >= needed and look > measured), needed)
    return max(look - measured, 1)


def _inconclusive(
    hypothesis: Hypothesis, evidence: Evidence, reason: str, *, is_final: bool, blocks_needed: int | None = None
) -> Verdict:
    blocks = blocks_at_look(evidence.blocks, hypothesis.rules) or evidence.blocks
    effect, size = None, None
    if blocks and _can_be_averaged(blocks, hypothesis):
        is_ratio = _is_ratio(hypothesis)
        sample = stats.of_log_ratios(blocks) if is_ratio else stats.of_levels(blocks)
        effect = _effect(sample, is_ratio=is_ratio)
        size = None if sample.is_constant else magnitude(hypothesis, effect)
    return Verdict(
        hypothesis=hypothesis,
        ruling=Ruling.INCONCLUSIVE,
        rule=criterion(hypothesis.test),
        magnitude=size,
        effect=effect,
        grade=Grade.REPLICATED if blocks else Grade.NONE,
        reasons=(reason,),
        blocks_needed=blocks_needed,
        is_final=is_final,
        evidence=evidence,
    )


def _read(hypothesis: Hypothesis, blocks: Sequence[Block], again: Sequence[Block]) -> _Reading:
    test, side = hypothesis.test, _side(hypothesis.test)
    if isinstance(test, Threshold):
        sample = stats.of_levels(blocks)
        return _Reading(sample, sample.p_within(side), sample.p_outside(side))
    sample = stats.of_log_ratios(blocks)
    if isinstance(test, Again):
        return _Reading(sample, 1.0, sample.p_within(side))
    # A few legs may fall into one of two modes by chance and agree; A/A has seen both.
    floor = _LEAST_SCATTER * stats.of_log_ratios(again).sd
    sample = replace(sample, sd=max(sample.sd, floor))
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


def _blind(hypothesis: Hypothesis, again: Sequence[Block]) -> str:
    """Return why this machine cannot tell what a comparison is about; empty when it can, and for thresholds."""
    test = hypothesis.test
    return noise_obstacle(again, test.smallest, hypothesis.rules) if isinstance(test, Comparison) else ""


def _is_ratio(hypothesis: Hypothesis) -> bool:
    return not isinstance(hypothesis.test, Threshold)


def _can_be_averaged(blocks: Sequence[Block], hypothesis: Hypothesis) -> bool:
    if _is_ratio(hypothesis):
        return not _has_no_ratio(blocks)
    return all(math.isfinite(block.level.value) for block in blocks)


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
