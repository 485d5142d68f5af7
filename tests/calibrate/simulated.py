"""Blocks of legs whose true effect is known, under noise of several kinds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from k3prof.core.refutation.evidence import Block, Evidence, Figure
from k3prof.core.refutation.hypothesis import Arm, Band, Comparison, Hypothesis, Rules
from k3prof.core.refutation.noise import drifted
from k3prof.core.trial import Workload

Noise = Callable[[np.random.Generator, int], NDArray[np.float64]]
"""Draws the noise in ln(figure) of so many legs in a row."""

SD = 0.02
"""Of one leg: what fresh servers on a quiet machine scatter by."""
LEGS = 4
AGAIN_BLOCKS = 3
BASE = 40.0


def normal(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return independent normal noise."""
    return draw.normal(0, SD, legs)


def heavy_tailed(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return Student's t with three degrees of freedom, of the same standard deviation."""
    return draw.standard_t(3, legs) * SD / math.sqrt(3)


def autocorrelated(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return AR(1) noise: each leg keeps 0.6 of what the one before it had."""
    found = np.empty(legs)
    found[0] = draw.normal(0, SD)
    for leg in range(1, legs):
        found[leg] = 0.6 * found[leg - 1] + draw.normal(0, SD * 0.8)
    return found


def drifting(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return normal noise on a machine that grows slower or faster steadily, by some 40 % over twenty legs."""
    return draw.normal(0, SD, legs) + draw.normal(0, 0.02) * np.arange(legs)


def wandering(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return normal noise on a random walk."""
    return draw.normal(0, SD / 2, legs) + np.cumsum(draw.normal(0, SD / 2, legs))


def bimodal(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return one of two modes for each leg, as memory may lie on this or that NUMA node."""
    return draw.choice([-SD, SD], legs) + draw.normal(0, SD / 4, legs)


def two_modes(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return one of two modes that hardly scatter: a few blocks may agree by chance as if there were no noise."""
    return draw.choice([-SD, SD], legs) + draw.normal(0, SD / 20, legs)


def rare_mode(draw: np.random.Generator, legs: int) -> NDArray[np.float64]:
    """Return two sharp modes of which one is rare: a few blocks may never meet it."""
    return np.where(draw.random(legs) < 0.2, -2 * SD, 0.5 * SD) + draw.normal(0, SD / 20, legs)


NOISES: dict[str, Noise] = {
    "normal": normal,
    "heavy-tailed": heavy_tailed,
    "autocorrelated": autocorrelated,
    "drifting": drifting,
    "wandering": wandering,
    "bimodal": bimodal,
    "two sharp modes": two_modes,
    "a rare mode": rare_mode,
}


def comparison(low: float, high: float, smallest: float = 1.05, rules: Rules = Rules(), name: str = "h") -> Hypothesis:  # noqa: B008
    """Return a hypothesis about a ratio."""
    arms = (Arm(name, Workload("tg", 64)), Arm(f"{name}-changed", Workload("tg", 64)))
    return Hypothesis(name, "a claim", "a reason", "tg", Comparison(*arms, Band(low, high), smallest), rules)


def blocks(draw: np.random.Generator, noise: Noise, effect: float, count: int) -> list[Block]:
    """Return blocks of a session in which the candidate is `effect` times the baseline."""
    values = np.exp(math.log(BASE) + noise(draw, count * LEGS))
    found = []
    for number in range(count):
        a, b, c, d = (float(value) for value in values[number * LEGS : (number + 1) * LEGS])
        outside, inside = (a, d), (b, c)
        if draw.integers(2):
            pair, changed = outside, inside
        else:
            pair, changed = inside, outside
        found.append(Block(number, _figures(pair, 1.0), _figures(changed, effect)))
    return found


def evidence(draw: np.random.Generator, noise: Noise, effect: float, count: int) -> Evidence:
    """Return what a session of such blocks gives, with its A/A blocks first; blocks that drifted are replaced."""
    session = blocks(draw, noise, effect, AGAIN_BLOCKS + 2 * count)
    again = [Block(one.round, one.baseline, _scaled(one.candidate, 1 / effect)) for one in session[:AGAIN_BLOCKS]]
    sound = [one for one in session[AGAIN_BLOCKS:] if not drifted(one, again)]
    return Evidence(blocks=tuple(sound[:count]), again=tuple(again))


def shared(draw: np.random.Generator, noise: Noise, effects: Sequence[float], count: int) -> list[Evidence]:
    """Return what a session gives in which several candidates are compared with one baseline, by rounds.

    Each round runs all placements in an order drawn by lot and then in the reverse of it, so that the comparisons
    share their baseline's legs, and neighbours' noise.
    """
    again = tuple(blocks(draw, noise, 1.0, AGAIN_BLOCKS))
    placements = len(effects) + 1
    values = np.exp(math.log(BASE) + noise(draw, 4 * count * placements)).reshape(2 * count, 2 * placements)
    found: list[list[Block]] = [[] for _ in effects]
    for number, round_ in enumerate(values, start=AGAIN_BLOCKS):
        first = draw.permutation(placements)
        baseline, *candidates = [(float(round_[at]), float(round_[-1 - at])) for at in np.argsort(first)]
        for own, pair, effect in zip(found, candidates, effects, strict=True):
            block = Block(number, _figures(baseline, 1.0), _figures(pair, effect))
            if len(own) < count and not drifted(block, again):
                own.append(block)
    return [Evidence(blocks=tuple(own), again=again) for own in found]


def levels(draw: np.random.Generator, noise: Noise, level: float, count: int) -> Evidence:
    """Return what a session gives for a threshold: the noise adds to the level, and its mean is 0."""
    values = level * (1 + noise(draw, 2 * count))
    pairs = values.reshape(count, 2)
    return Evidence(blocks=tuple(Block(n, _figures((float(a), float(b)), 1.0)) for n, (a, b) in enumerate(pairs)))


def _figures(pair: Sequence[float], factor: float) -> tuple[Figure, Figure]:
    return Figure(pair[0] * factor), Figure(pair[1] * factor)


def _scaled(pair: tuple[Figure, Figure] | None, factor: float) -> tuple[Figure, Figure]:
    assert pair is not None
    return _figures([figure.value for figure in pair], factor)
