"""From legs to evidence: which blocks test a hypothesis, which of them count, and what stands in the way."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from k3prof.core.refutation.effective import Effective
from k3prof.core.refutation.evidence import Block, Evidence, Pair, Voided
from k3prof.core.refutation.guard import asked_differences, asked_obstacle, guard
from k3prof.core.refutation.hypothesis import Again, Arm, Comparison, Hypothesis
from k3prof.core.refutation.leg import LegPlace, MeasuredLeg, would_fail_again
from k3prof.core.refutation.leg_metrics import LegMetric, Need
from k3prof.core.refutation.noise import drifted
from k3prof.core.refutation.spoilers import spoiled, spoiled_block
from k3prof.core.spans import SplitMode
from k3prof.core.trial import Caveat, TrialSpec, TrialStatus


@dataclass(frozen=True, eq=False)
class Leg:
    """A leg that was run.

    Attributes:
        place: Where it stands.
        measured: What it measured.
        effective: What its server really ran with; None where no log tells.
    """

    place: LegPlace
    measured: MeasuredLeg
    effective: Effective | None


LegPair = tuple[Leg, Leg]


@dataclass(frozen=True, eq=False)
class Question:
    """A hypothesis as it is to be tested.

    Attributes:
        hypothesis: The hypothesis.
        metric: Its metric.
        specs: What is asked of each placement of the experiment now; legs of other configurations do not count.
        since_trial: Trials up to this number had run before the hypothesis was written down, and do not count.
        ineffective: What a placement asks for and llama-server would silently ignore, by the placement's name.
    """

    hypothesis: Hypothesis
    metric: LegMetric
    specs: Mapping[str, TrialSpec]
    since_trial: int = 0
    ineffective: Mapping[str, str] = field(default_factory=dict)

    @property
    def splits(self) -> SplitMode:
        """How its legs are traced."""
        return splits_for(self.metric)


def splits_for(metric: LegMetric) -> SplitMode:
    """Return how legs are traced that a metric is to be computed from."""
    return SplitMode.EXACT if Need.SPLITS in metric.needs else SplitMode.OFF


def hopeless(question: Question) -> str:
    """Return why no measurement could test a hypothesis, by what its placements ask for; empty when one can."""
    test = question.hypothesis.test
    for arm in question.hypothesis.arms:
        if arm.placement in question.ineffective:
            return f"the change did not take: {question.ineffective[arm.placement]}"
    if not isinstance(test, Comparison):
        return ""
    baseline, candidate = question.specs[test.baseline.placement], question.specs[test.candidate.placement]
    return asked_obstacle(
        asked_differences(baseline, candidate, test.baseline.workload, test.candidate.workload), test.varies
    )


def gather(question: Question, legs: Sequence[Leg]) -> Evidence:
    """Return the evidence that legs hold for a hypothesis.

    Args:
        question: The hypothesis.
        legs: All legs of a trace, by rounds and in the order of running.
    """
    if obstacle := hopeless(question):
        return Evidence(obstacle=obstacle)
    hypothesis, arm = question.hypothesis, question.hypothesis.arms[0]
    legs = [leg for leg in legs if _is_of(leg, question)]
    since = [leg for leg in legs if leg.measured.trial.id > question.since_trial]
    again: tuple[Block, ...] = ()
    if isinstance(hypothesis.test, Again):
        own = _Blocks(question, _pairs_again(arm, since))
    else:
        again = _Blocks(question, _pairs_again(arm, legs)).blocks
        own = _Blocks(question, _pairs(hypothesis, since), again)
    return Evidence(own.blocks, again, own.voided, own.obstacle or _never_ran(hypothesis, since), own.caveats)


@dataclass(frozen=True, eq=False)
class _Side:
    """One side of a block: two legs, and what is read from them."""

    arm: Arm
    legs: LegPair


@dataclass(frozen=True, eq=False)
class _Pairs:
    """The legs of one round that a hypothesis is about; no candidate for a threshold."""

    round: int
    baseline: _Side
    candidate: _Side | None

    @property
    def legs(self) -> tuple[Leg, ...]:
        """All of them, each once."""
        return tuple(dict.fromkeys(self.baseline.legs + (self.candidate.legs if self.candidate else ())))


class _Blocks:
    """Rounds sorted into blocks that count and blocks that do not."""

    def __init__(self, question: Question, rounds: Sequence[_Pairs], again: Sequence[Block] = ()) -> None:
        self._question = question
        self._again = again
        self._sound: list[_Pairs] = []
        self._without_data: list[str] = []
        self._found: list[Block] = []
        self._voided: list[Voided] = []
        for pairs in rounds:
            self._sort(pairs)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """Those that count."""
        return tuple(self._found)

    @property
    def voided(self) -> tuple[Voided, ...]:
        """Those that do not."""
        return tuple(self._voided)

    @property
    def obstacle(self) -> str:
        """Why no number of such rounds would allow a verdict; empty when they might."""
        if confounded := self._confounded():
            return confounded
        if self._found:
            return ""
        return self._without_data[0] if self._without_data else ""

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """What the trials of blocks that count warn of, each kind once."""
        found = {
            caveat.code: caveat for pairs in self._sound for leg in pairs.legs for caveat in leg.measured.trial.caveats
        }
        return tuple(found.values())

    def _sort(self, pairs: _Pairs) -> None:
        reason = _spoilt(pairs)
        block = None if reason else self._block(pairs)
        if not reason and block is None:
            reason = self._unknown(pairs)
            self._without_data.append(f"no data for {reason}")
        if block is not None and not reason:
            # What was known of the noise by then: later rounds take no block away.
            reason = drifted(block, [one for one in self._again if one.round < block.round])
        if block is None or reason:
            self._voided.append(Voided(pairs.round, reason))
            return
        self._sound.append(pairs)
        self._found.append(block)

    def _block(self, pairs: _Pairs) -> Block | None:
        baseline = self._figures(pairs.baseline)
        if baseline is None:
            return None
        if pairs.candidate is None:
            return Block(pairs.round, baseline)
        candidate = self._figures(pairs.candidate)
        return None if candidate is None else Block(pairs.round, baseline, candidate)

    def _figures(self, side: _Side) -> Pair | None:
        compute, workload = self._question.metric.compute, side.arm.workload
        first, second = (compute(leg.measured, workload) for leg in side.legs)
        return None if first is None or second is None else (first, second)

    def _unknown(self, pairs: _Pairs) -> str:
        sides = (side for side in (pairs.baseline, pairs.candidate) if side is not None)
        unknown = next(side.arm for side in sides if self._figures(side) is None)
        metric = self._question.metric
        return f"{metric.name} of {unknown.name}: {metric.unknown}"

    def _confounded(self) -> str:
        test = self._question.hypothesis.test
        if not isinstance(test, Comparison) or not self._sound:
            return ""
        specs = self._question.specs
        asked = asked_differences(
            specs[test.baseline.placement],
            specs[test.candidate.placement],
            test.baseline.workload,
            test.candidate.workload,
        )
        baseline = [leg.effective for pairs in self._sound for leg in pairs.baseline.legs if leg.effective is not None]
        candidate = [
            leg.effective for pairs in self._sound for leg in _legs(pairs.candidate) if leg.effective is not None
        ]
        return guard(asked, test.varies, baseline, candidate)


def _spoilt(pairs: _Pairs) -> str:
    """Return why a round does not count for a hypothesis, whatever its figures are."""
    sides = [side for side in (pairs.baseline, pairs.candidate) if side is not None]
    for side in sides:
        for leg in side.legs:
            if reason := spoiled(leg.measured, side.arm.workload):
                return f"{leg.place.placement}, leg {leg.place.position + 1}: {reason}"
    if len(sides) < 2:
        return ""
    baseline, candidate = ([leg.measured for leg in side.legs] for side in sides)
    return spoiled_block(baseline, candidate)


def _legs(side: _Side | None) -> LegPair | tuple[()]:
    return () if side is None else side.legs


def _never_ran(hypothesis: Hypothesis, legs: Sequence[Leg]) -> str:
    """Return which of a hypothesis' placements never ran well and will not; empty when none did so."""
    for placement in dict.fromkeys(arm.placement for arm in hypothesis.arms):
        outcomes = [leg.measured.trial.outcome for leg in legs if leg.place.placement == placement]
        failed = [outcome for outcome in outcomes if outcome.status in (TrialStatus.FAILED, TrialStatus.VOID)]
        ran = any(outcome.status is TrialStatus.OK for outcome in outcomes)
        if failed and not ran and (len(failed) > 1 or would_fail_again(failed[0])):
            return f"no data for {placement}: {failed[-1].message}"
    return ""


def _is_of(leg: Leg, question: Question) -> bool:
    """Whether a leg was run as the placement is now, and traced as the metric needs it."""
    spec = question.specs.get(leg.place.placement)
    return spec is not None and leg.measured.trial.spec.configuration == spec.configuration


def _pairs_again(arm: Arm, legs: Sequence[Leg]) -> list[_Pairs]:
    """Return the rounds that ran a placement against itself, whichever it was, with an arm's workload."""
    found = []
    for number, of_round in _by_round(legs):
        outside = _pair(leg for leg in of_round if not leg.place.twin)
        inside = _pair(leg for leg in of_round if leg.place.twin)
        if outside is not None and inside is not None:
            found.append(_Pairs(number, _Side(arm, outside), _Side(arm, inside)))
    return found


def _pairs(hypothesis: Hypothesis, legs: Sequence[Leg]) -> list[_Pairs]:
    """Return the rounds in which each arm of a hypothesis ran twice.

    A placement against itself serves a threshold about it as well, but no comparison: its legs are no ABBA with others.
    """
    arms = hypothesis.arms
    found = []
    for number, of_round in _by_round(legs):
        if len(arms) > 1 and any(leg.place.twin for leg in of_round):
            continue
        baseline, candidate = (
            _pair(leg for leg in of_round if leg.place.placement == arm.placement and not leg.place.twin)
            for arm in (arms[0], arms[-1])
        )
        if baseline is not None and candidate is not None:
            other = _Side(arms[1], candidate) if len(arms) > 1 else None
            found.append(_Pairs(number, _Side(arms[0], baseline), other))
    return found


def _pair(legs: Iterable[Leg]) -> LegPair | None:
    match tuple(legs):
        case (first, second):
            return (first, second)
        case _:
            return None


def _by_round(legs: Sequence[Leg]) -> Iterator[tuple[int, list[Leg]]]:
    for number, of_round in groupby(legs, key=lambda leg: leg.place.round):
        yield number, list(of_round)
