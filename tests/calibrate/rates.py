"""Rates of error on simulated truth, with their intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest

from k3prof.core.refutation.evidence import Evidence
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Hypothesis, Rules, Threshold
from k3prof.core.refutation.judge import judge, planned_blocks
from k3prof.core.refutation.verdict import Ruling
from k3prof.core.trial import Workload
from tests.calibrate.simulated import AGAIN_BLOCKS, NOISES, Noise, blocks, comparison, evidence, levels, shared

CONFIDENCE = 0.95
RULES = Rules()


@dataclass(frozen=True)
class Rate:
    """How often something happened.

    Attributes:
        what: What.
        noise: Under which noise.
        hits: How often it did.
        tries: How often it could have.
        nominal: How often it may; for power, how often it must.
        at_most: Whether `nominal` is an upper bound.
        limit: Why `nominal` is not promised under this noise; empty where it is.
    """

    what: str
    noise: str
    hits: int
    tries: int
    nominal: float
    at_most: bool = True
    limit: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        """Clopper and Pearson's."""
        found = binomtest(self.hits, self.tries).proportion_ci(CONFIDENCE, method="exact")
        return float(found.low), float(found.high)

    @property
    def is_broken(self) -> bool:
        """Whether the whole interval lies on the wrong side of the nominal rate."""
        low, high = self.interval
        if self.limit:
            return False
        return low > self.nominal if self.at_most else high < self.nominal


def false_verdicts(noise: str, tries: int, seed: int, rules: Rules = RULES) -> list[Rate]:
    """Return how often a claim is judged supported or refuted when the truth lies at the prediction's very end.

    There each of the two is wrong; anywhere else one of them is right, and the other rarer than here.
    """
    draw = np.random.default_rng([seed, 1])
    claim = comparison(1.2, 1.5, smallest=1.1, rules=rules)
    rulings = [_rule(claim, evidence(draw, NOISES[noise], 1.2, rules.looks[-1])) for _ in range(tries)]
    return [
        Rate(f"false {ruling}", noise, rulings.count(ruling), tries, rules.alpha)
        for ruling in (Ruling.SUPPORTED, Ruling.REFUTED)
    ]


def false_equivalence(noise: str, tries: int, seed: int, rules: Rules = RULES) -> list[Rate]:
    """Return how often a claim of no effect is supported although the effect is just as large as it may not be."""
    draw = np.random.default_rng([seed, 2])
    claim = comparison(1 / 1.1, 1.1, smallest=1.1, rules=rules)
    rulings = [_rule(claim, evidence(draw, NOISES[noise], 1.1, rules.looks[-1])) for _ in range(tries)]
    return [
        Rate("false no effect", noise, rulings.count(Ruling.SUPPORTED), tries, rules.alpha),
        Rate("no effect, false refuted", noise, rulings.count(Ruling.REFUTED), tries, rules.alpha),
    ]


def identical_arms(noise: str, tries: int, seed: int, rules: Rules = RULES) -> list[Rate]:
    """Return how often a difference of 10 % is found between arms that are the same."""
    draw = np.random.default_rng([seed, 3])
    claim = comparison(1.1, 2.0, smallest=1.1, rules=rules)
    rulings = [_rule(claim, evidence(draw, NOISES[noise], 1.0, rules.looks[-1])) for _ in range(tries)]
    return [Rate("A/A supported", noise, rulings.count(Ruling.SUPPORTED), tries, 0.001)]


def families(noise: str, tries: int, seed: int, rules: Rules = RULES, size: int = 6) -> list[Rate]:
    """Return how often at least one of several claims is judged wrongly: all lie at the end of their prediction."""
    draw = np.random.default_rng([seed, 4])
    claims = [comparison(1.2, 1.5, smallest=1.1, rules=rules, name=f"h{number}") for number in range(size)]
    rulings = []
    for _ in range(tries):
        cases = zip(claims, shared(draw, NOISES[noise], [1.2] * size, rules.looks[-1]), strict=True)
        rulings.append({verdict.ruling for verdict in judge(list(cases))})
    return [
        Rate(f"any of {size} falsely {ruling}", noise, sum(ruling in one for one in rulings), tries, rules.alpha)
        for ruling in (Ruling.SUPPORTED, Ruling.REFUTED)
    ]


def against_itself(noise: str, tries: int, seed: int, rules: Rules = RULES) -> list[Rate]:
    """Return how often a placement is said not to differ from itself, by any look, on a machine where it just does."""
    draw = np.random.default_rng([seed, 6])
    claim = Hypothesis("h", "a claim", "a reason", "tg", Again(Arm("a", Workload("tg", 64)), 1.1), rules)
    wrong = sum(
        _rule(claim, Evidence(tuple(blocks(draw, NOISES[noise], 1.1, rules.looks[-1])))) is Ruling.REFUTED
        for _ in range(tries)
    )
    return [Rate("A/A, difference missed", noise, wrong, tries, rules.alpha)]


NO_SECOND_ARM = "a level has no second arm in which drift cancels"
LEVEL_LIMITS = {
    "autocorrelated": NO_SECOND_ARM,
    "drifting": NO_SECOND_ARM,
    "wandering": NO_SECOND_ARM,
    "a rare mode": "a mode that no block has met is not in the scatter",
}


def thresholds(noise: str, tries: int, seed: int, rules: Rules = RULES) -> list[Rate]:
    """Return how often a level is judged to lie on one side of an end that it lies at."""
    draw = np.random.default_rng([seed, 7])
    claim = Hypothesis(
        "h", "a claim", "a reason", "tg", Threshold(Arm("a", Workload("tg", 64)), Band(40.0, math.inf)), rules
    )
    rulings = [_rule(claim, levels(draw, NOISES[noise], 40.0, rules.looks[-1])) for _ in range(tries)]
    limit = LEVEL_LIMITS.get(noise, "")
    return [
        Rate(f"threshold, false {ruling}", noise, rulings.count(ruling), tries, rules.alpha, limit=limit)
        for ruling in (Ruling.SUPPORTED, Ruling.REFUTED)
    ]


def power(noise: str, tries: int, seed: int, rules: Rules = RULES) -> list[Rate]:
    """Return how often a true claim is supported at the number of blocks that was planned by the A/A scatter."""
    draw = np.random.default_rng([seed, 5])
    claim = comparison(1.1, 1.3, smallest=1.1, rules=rules)
    truth = (1.1 * 1.3) ** 0.5
    scatter = blocks(draw, NOISES[noise], 1.0, 400)
    planned = planned_blocks(claim, scatter, 1)
    if planned is None:
        return []
    rulings = [_rule(claim, evidence(draw, NOISES[noise], truth, planned)) for _ in range(tries)]
    return [
        Rate(f"true claim supported in {planned} blocks", noise, rulings.count(Ruling.SUPPORTED), tries, 0.9, False)
    ]


ALL = (false_verdicts, false_equivalence, identical_arms, against_itself, families, thresholds, power)

__all__ = ["AGAIN_BLOCKS", "ALL", "Noise", "Rate"]


def _rule(claim: Hypothesis, found: Evidence) -> Ruling:
    return judge([(claim, found)])[0].ruling
