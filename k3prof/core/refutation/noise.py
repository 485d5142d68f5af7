"""What runs of one placement against itself (A/A) say of a machine: whether it can tell, and what is drift."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from scipy.special import stdtrit

from k3prof.core.refutation import stats
from k3prof.core.refutation.evidence import Block, Pair
from k3prof.core.refutation.hypothesis import Rules
from k3prof.core.refutation.readings import blocks_at_look, unusable

_DRIFT_QUANTILE = 0.999
"""Of differences that are only noise, one in five hundred is called drift."""


def noise_obstacle(again: Sequence[Block], smallest: float, rules: Rules) -> str:
    """Return why this machine cannot tell an effect of the size that matters; empty when it can.

    It can when the 90 % interval of the A/A blocks' ratio lies between 1/smallest and smallest.

    Args:
        again: Blocks of one placement against itself, in order of time.
        smallest: The ratio, above 1, below which a difference does not matter.
        rules: Whose looks say after how many blocks to look.
    """
    blocks = blocks_at_look(again, rules)
    if not blocks:
        return (
            f"blocks of the placement against itself so far: {len(again)}; it takes {rules.looks[0]} to know how far "
            "runs of one placement differ here"
        )
    problem = unusable(blocks, is_ratio=True)
    if problem:
        return f"the placement against itself: {problem}"
    sample = stats.of_log_ratios(blocks)
    # Biases are left out: they are no noise, and they widen the interval of the effect itself.
    widest = max(abs(end) for end in _ends(sample))
    if widest <= math.log(smallest):
        return ""
    return (
        f"two runs of one placement differ by up to {_percent(widest)} here, more than the "
        f"{_percent(math.log(smallest))} that matter"
    )


def drifted(block: Block, again: Sequence[Block]) -> str:
    """Return what moved within a block more than noise does; empty when nothing did, or when noise is not known.

    The two legs of one arm should agree. The band for ln(first / second) is Student's t times the root mean square of
    the A/A blocks' own differences within an arm. The difference between the arms plays no part in it, so that
    leaving such blocks out does not favour an effect.

    Args:
        block: The block in question.
        again: Blocks of one placement against itself, same metric and workload.
    """
    noise = [difference for one in again for _, difference in _within_arms(one)]
    if not noise:
        return ""
    typical = math.hypot(*noise) / math.sqrt(len(noise))
    allowed = float(stdtrit(len(noise), _DRIFT_QUANTILE)) * typical
    for arm, difference in _within_arms(block):
        if abs(difference) > allowed > 0:
            return (
                f"the two runs of the {arm} differ by {_percent(abs(difference))}: runs of one placement differ by "
                f"less than {_percent(allowed)} here"
            )
    return ""


def _within_arms(block: Block) -> Iterator[tuple[str, float]]:
    """Yield, for each arm whose figures have logarithms, its name and ln(first / second)."""
    arms: dict[str, Pair | None] = {"baseline": block.baseline, "candidate": block.candidate}
    for name, pair in arms.items():
        if pair is not None and all(0 < figure.value < math.inf for figure in pair):
            yield name, math.log(pair[0].value) - math.log(pair[1].value)


def _ends(sample: stats.Sample) -> tuple[float, float]:
    half_width = float(stdtrit(sample.blocks - 1, (1 + stats.CONFIDENCE) / 2)) * sample.standard_error
    return sample.mean - half_width, sample.mean + half_width


def _percent(log_difference: float) -> str:
    if log_difference > math.log(10):
        return "a factor of more than 10"
    return f"{math.expm1(log_difference):.1%}".replace("%", " %")
