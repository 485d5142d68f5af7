"""From judged answers to a word on the model: broken, broken in part, sound, small, or not to be told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from scipy.stats import beta, binom, hypergeom

from k3prof.core.probes.probe import Answer, Group, Outcome, Probe, Result
from k3prof.core.probes.signs import signs

CONFIDENCE = 0.90
"""Of the intervals shown; each end is wrong in one of twenty cases."""
CHANCE_FRAC = 0.05
"""What noise gets right at most: a right answer is one of very many, not one of a few to choose from."""
_ERROR_FRAC = 0.05
_CAPABLE_FRAC = 0.8
"""Right among the other groups, at the least, before failing in one counts as its breakage: the probes are easy."""
_GARBLED_FRAC = 0.5
_FEWEST_ANSWERED_FRAC = 0.5


class Verdict(StrEnum):
    """What the answers say of the model."""

    BROKEN = "broken"
    PARTLY_BROKEN = "partly broken"
    SOUND = "sound"
    SMALL = "small, not broken"
    TOO_SMALL = "too small to tell"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Score:
    """How many of some probes were answered right.

    Attributes:
        passed: So many.
        answered: Of so many that were answered.
        asked: Of so many in all.
        garbled: Answers that show a sign of breakage.
    """

    passed: int
    answered: int
    asked: int
    garbled: int

    @property
    def interval(self) -> tuple[float, float] | None:
        """The exact interval of the share that is right, at `CONFIDENCE`; None where nothing was answered.

        Clopper and Pearson, Biometrika 26 (1934) 404.
        """
        if not self.answered:
            return None
        tail = (1 - CONFIDENCE) / 2
        low = float(beta.ppf(tail, self.passed, self.answered - self.passed + 1)) if self.passed else 0.0
        missed = self.answered - self.passed
        high = float(beta.ppf(1 - tail, self.passed + 1, missed)) if missed else 1.0
        return low, high

    @property
    def beats_chance(self) -> bool:
        """Whether noise gets so many right in less than one of twenty tries."""
        return bool(self.passed) and float(binom.sf(self.passed - 1, self.answered, CHANCE_FRAC)) <= _ERROR_FRAC

    @property
    def is_garbled(self) -> bool:
        """Whether at least half of the answers show a sign of breakage."""
        return self.answered > 0 and self.garbled >= _GARBLED_FRAC * self.answered


@dataclass(frozen=True)
class Judgement:
    """What follows from all answers.

    Attributes:
        verdict: The word.
        reason: Why, in a sentence.
        total: Over all probes.
        groups: By group, in the order of the probes.
        broken_groups: Those that are broken while others are not.
    """

    verdict: Verdict
    reason: str
    total: Score
    groups: Mapping[Group, Score]
    broken_groups: tuple[Group, ...] = ()


def judge_answer(probe: Probe, answer: Answer) -> Result:
    """Return what an answer counts as. One that is empty is wrong; none at all is none."""
    if answer.text is None:
        return Result(probe, answer, Outcome.UNANSWERED)
    outcome = Outcome.PASS if probe.check(answer.text) else Outcome.FAIL
    return Result(probe, answer, outcome, signs(answer))


def score(results: Sequence[Result]) -> Score:
    """Count results."""
    return Score(
        passed=sum(one.outcome is Outcome.PASS for one in results),
        answered=sum(one.outcome is not Outcome.UNANSWERED for one in results),
        asked=len(results),
        garbled=sum(bool(one.signs) for one in results),
    )


def judge(results: Sequence[Result]) -> Judgement:
    """Return what results say of the model.

    Nothing right beyond chance is `broken` where the answers are garbled, else `too small to tell`: text that is clean
    and wrong may come of a model that knows too little. A group is broken where it alone is garbled, or where a model
    that does nearly everything else fails in it. Sound is a model that does more than chance in every group.
    """
    groups: dict[Group, list[Result]] = {}
    for one in results:
        groups.setdefault(one.probe.group, []).append(one)
    scores = {group: score(members) for group, members in groups.items()}
    total = score(results)

    def found(verdict: Verdict, reason: str, broken: tuple[Group, ...] = ()) -> Judgement:
        return Judgement(verdict, reason, total, scores, broken)

    right = f"{total.passed} of {total.answered} answers are right"
    garbled = f"{total.garbled} of {total.answered} show signs of breakage"
    if not total.asked or total.answered < _FEWEST_ANSWERED_FRAC * total.asked:
        return found(Verdict.UNKNOWN, f"only {total.answered} of {total.asked} probes were answered")
    if not total.beats_chance:
        if total.is_garbled:
            return found(Verdict.BROKEN, f"it says nothing sensible in any group: {right}, {garbled}")
        return found(Verdict.TOO_SMALL, f"{right}, no more than chance, yet {garbled}: reading the answers may tell")
    if broken := _broken(scores):
        return found(Verdict.PARTLY_BROKEN, f"{_listed(broken)}: garbled, or far behind the rest; {right}", broken)
    weak = [group for group, one in scores.items() if one.answered and not one.beats_chance]
    if weak:
        return found(
            Verdict.SMALL, f"{right}, far beyond chance, and {garbled}; no more than chance in {_listed(weak)}"
        )
    return found(Verdict.SOUND, f"{right}, beyond chance in every group, and {garbled}")


def _broken(scores: Mapping[Group, Score]) -> tuple[Group, ...]:
    behind = _behind(scores)
    return tuple(group for group, one in scores.items() if not one.beats_chance and (one.is_garbled or group in behind))


def _behind(scores: Mapping[Group, Score]) -> set[Group]:
    """Return the groups that do worse than all others together, where those are nearly all right.

    Fisher's exact test, one-sided, at 5 % for the whole family by Holm's correction.
    """
    others = {group: _together([one for name, one in scores.items() if name is not group]) for group in scores}
    p_values = {group: _p_no_worse(one, others[group]) for group, one in scores.items()}
    found: set[Group] = set()
    for tried, group in enumerate(sorted(p_values, key=p_values.__getitem__)):
        if p_values[group] * (len(p_values) - tried) > _ERROR_FRAC:
            break
        interval = others[group].interval
        if interval is not None and interval[0] >= _CAPABLE_FRAC:
            found.add(group)
    return found


def _together(scores: Sequence[Score]) -> Score:
    return Score(
        passed=sum(one.passed for one in scores),
        answered=sum(one.answered for one in scores),
        asked=sum(one.asked for one in scores),
        garbled=sum(one.garbled for one in scores),
    )


def _p_no_worse(one: Score, others: Score) -> float:
    """Return the p value against `this group is no worse than the others`."""
    answered, passed = one.answered + others.answered, one.passed + others.passed
    return float(hypergeom.cdf(one.passed, answered, passed, one.answered)) if one.answered else 1.0


def _listed(groups: Sequence[Group]) -> str:
    return ", ".join(groups)
