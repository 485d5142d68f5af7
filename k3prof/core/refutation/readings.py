"""Which blocks a verdict is read from, and whether they can be read at all."""

from __future__ import annotations

import math
from collections.abc import Sequence

from k3prof.core.refutation import stats
from k3prof.core.refutation.evidence import Block, Figure
from k3prof.core.refutation.hypothesis import Rules


def blocks_at_look(blocks: Sequence[Block], rules: Rules) -> Sequence[Block]:
    """Return the blocks up to the last look that has been reached; none before the first.

    Looking only there, and not whenever a block is done, is what the corrected levels allow for.
    """
    reached = [look for look in rules.looks if look <= len(blocks)]
    return blocks[: reached[-1]] if reached else ()


def unusable(blocks: Sequence[Block], *, is_ratio: bool) -> str:
    """Return why blocks cannot be read; empty when they can."""
    figures = [figure for block in blocks for figure in (*block.baseline, *(block.candidate or ()))]
    strange = next((figure for figure in figures if not _is_finite(figure)), None)
    if strange is not None:
        return f"a figure is no number: {strange.value:g} (-{strange.bias_low:g}, +{strange.bias_high:g})"
    if is_ratio and (least := min(figure.value for figure in figures)) <= 0:
        return f"a figure of {least:g} has no ratio to another"
    if not all(math.isfinite(block.level.value) for block in blocks):
        return "its figures are too large to add"
    sample = stats.of_log_ratios(blocks) if is_ratio else stats.of_levels(blocks)
    if sample.is_constant:
        return "all blocks agree to the last digit, so that their scatter says nothing"
    return ""


def _is_finite(figure: Figure) -> bool:
    return math.isfinite(figure.value) and not math.isnan(figure.bias_low + figure.bias_high)
