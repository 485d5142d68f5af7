"""What to run next: rounds in which every placement stands twice, mirrored, so that a steady drift favours none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from k3prof.core.refutation.evidence import Block
from k3prof.core.refutation.hypothesis import Again, Comparison, Threshold
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.noise import noise_obstacle
from k3prof.core.refutation.verdict import Verdict
from k3prof.core.trial import Workload

_ATTEMPTS_PER_BLOCK = 2
"""Rounds may be void; a machine that spoils half of them will not get better by trying longer."""


@dataclass(frozen=True)
class PlannedRound:
    """A round to be run.

    Attributes:
        legs: Its legs in their order.
        workloads: What is asked of each placement: all that any undecided hypothesis needs.
        is_again: Whether it runs one placement against itself (A/A).
    """

    legs: tuple[LegPlace, ...]
    workloads: dict[str, tuple[Workload, ...]] = field(hash=False)
    is_again: bool = False

    @property
    def placements(self) -> tuple[str, ...]:
        """The placements it starts, each once."""
        return tuple(dict.fromkeys(leg.placement for leg in self.legs))


def mirrored(placements: Sequence[str], number: int, seed: int) -> tuple[LegPlace, ...]:
    """Return a round's legs: the placements in an order drawn by lot, then in the reverse of it.

    Any two of them stand as ABBA or BAAB. In each order every placement's mean position is the same, so that a
    drift that is linear in time cancels in every comparison.
    """
    drawn = [placements[at] for at in np.random.default_rng([seed, number]).permutation(len(placements))]
    return tuple(LegPlace(number, position, name) for position, name in enumerate([*drawn, *reversed(drawn)]))


def again(placement: str, number: int, seed: int) -> tuple[LegPlace, ...]:
    """Return the legs of a round of a placement against itself: the twin stands inside or outside, drawn by lot."""
    first = bool(np.random.default_rng([seed, number]).integers(2))
    twins = (first, not first, not first, first)
    return tuple(LegPlace(number, position, placement, twin) for position, twin in enumerate(twins))


def next_round(verdicts: Sequence[Verdict], rounds: Sequence[Sequence[LegPlace]], seed: int) -> PlannedRound | None:
    """Return the round that the undecided hypotheses need next, or None when none would change a verdict.

    Placements are run against themselves first, until that says whether this machine can tell an effect of the size
    that matters.

    Args:
        verdicts: What is thought of each hypothesis so far.
        rounds: The legs of all rounds that were begun, void ones too.
        seed: What the lots are drawn with.
    """
    undecided = [verdict for verdict in verdicts if not verdict.is_final and not _is_hopeless(verdict, rounds)]
    number = 1 + max((leg.round for legs in rounds for leg in legs), default=-1)
    claims = [verdict for verdict in undecided if not isinstance(verdict.hypothesis.test, Again)]
    placement = _to_run_again(undecided, only_if_urgent=bool(claims))
    if placement is not None:
        return PlannedRound(again(placement, number, seed), {placement: _noise_of(placement, undecided)}, is_again=True)
    needed: dict[str, list[Workload]] = {}
    for verdict in claims:
        for arm in verdict.hypothesis.arms:
            needed.setdefault(arm.placement, []).append(arm.workload)
    if not needed:
        return None
    legs = mirrored(sorted(needed), number, seed)
    return PlannedRound(legs, {name: _distinct(found) for name, found in needed.items()})


def most_rounds_left(verdicts: Sequence[Verdict]) -> int:
    """Return how many more rounds there will be at most, if none is void."""
    undecided = [verdict for verdict in verdicts if not verdict.is_final]
    tests = [verdict for verdict in undecided if not isinstance(verdict.hypothesis.test, Again)]
    own = max((_last_look(verdict) - len(verdict.evidence.blocks) for verdict in tests), default=0)
    noise = max((_last_look(one) - len(_again_blocks(one)) for one in undecided if _needs_again(one)), default=0)
    return own + noise


def _to_run_again(undecided: Sequence[Verdict], *, only_if_urgent: bool) -> str | None:
    """Return the placement to run against itself next; None when nothing hangs on that.

    Args:
        undecided: Verdicts that are.
        only_if_urgent: Whether claims about such a placement may wait once they have been looked at.
    """
    for verdict in undecided:
        is_urgent = len(verdict.evidence.blocks) < verdict.hypothesis.rules.looks[0]
        if isinstance(verdict.hypothesis.test, Again) and (is_urgent or not only_if_urgent):
            return verdict.hypothesis.arms[0].placement
    asked = Counter(
        verdict.hypothesis.arms[0].placement
        for verdict in undecided
        if isinstance(verdict.hypothesis.test, Comparison)
        and _needs_again(verdict)
        and len(verdict.evidence.again) < _last_look(verdict)
    )
    return asked.most_common(1)[0][0] if asked else None


def _needs_again(verdict: Verdict) -> bool:
    test = verdict.hypothesis.test
    if isinstance(test, Again):
        return True
    if not isinstance(test, Comparison):
        return False
    return bool(noise_obstacle(verdict.evidence.again, test.smallest, verdict.hypothesis.rules))


def _noise_of(placement: str, undecided: Sequence[Verdict]) -> tuple[Workload, ...]:
    """Return what a placement is asked for when it runs against itself.

    The baselines' workloads, since their noise decides what a comparison can tell; and those of thresholds about the
    very placement, which lose nothing by a round in which it runs twice.
    """
    baselines = ((verdict, verdict.hypothesis.arms[0]) for verdict in undecided)
    return _distinct(
        arm.workload
        for verdict, arm in baselines
        if not isinstance(verdict.hypothesis.test, Threshold) or arm.placement == placement
    )


def _again_blocks(verdict: Verdict) -> tuple[Block, ...]:
    return verdict.evidence.blocks if isinstance(verdict.hypothesis.test, Again) else verdict.evidence.again


def _is_hopeless(verdict: Verdict, rounds: Sequence[Sequence[LegPlace]]) -> bool:
    """Whether so many of a hypothesis' rounds were void, or so noisy, that more of them are no answer."""
    hypothesis = verdict.hypothesis
    placements = {arm.placement for arm in hypothesis.arms}
    is_again = isinstance(hypothesis.test, Again)
    tried = sum(
        placements <= {leg.placement for leg in legs} and is_again == any(leg.twin for leg in legs) for legs in rounds
    )
    noisy = _needs_again(verdict) and not is_again and len(verdict.evidence.again) >= _last_look(verdict)
    return noisy or tried >= _ATTEMPTS_PER_BLOCK * _last_look(verdict)


def _last_look(verdict: Verdict) -> int:
    return verdict.hypothesis.rules.looks[-1]


def _distinct(workloads: Iterable[Workload]) -> tuple[Workload, ...]:
    """Return each workload once: prefill first, then decode by its streams."""
    return tuple(sorted(set(workloads), key=lambda one: (one.kind, one.streams, one.depth, one.tokens)))
