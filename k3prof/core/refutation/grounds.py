"""On what grounds a verdict stands, or is still missing, in sentences for the person who pays by the minute."""

from __future__ import annotations

import math

from k3prof.core.refutation.evidence import Evidence
from k3prof.core.refutation.hypothesis import Again, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.verdict import Ruling


def where(hypothesis: Hypothesis, ruling: Ruling) -> str:
    """Return where the interval lies, in words: `the whole 90 % interval lies below 1.6`."""
    test = hypothesis.test
    holds = ruling is Ruling.SUPPORTED
    if isinstance(test, Again):
        return f"the whole 90 % interval lies within {1 / test.smallest:.3g} to {test.smallest:.3g}"
    if isinstance(test, Comparison) and test.claims_no_effect:
        where = "within" if holds else "outside"
        return f"the whole 90 % interval lies {where} {test.predict.low:.4g} to {test.predict.high:.4g}"
    return f"the whole 90 % interval lies {'above' if _goes_up(test) == holds else 'below'} {_end(test):.4g}"


def criterion(test: Comparison | Threshold | Again) -> str:
    """Return by which rule the verdict would fall."""
    if isinstance(test, Again):
        return f"settled when the whole 90 % interval lies within {1 / test.smallest:.3g} to {test.smallest:.3g}"
    if isinstance(test, Comparison) and test.claims_no_effect:
        band = f"{test.predict.low:.4g} to {test.predict.high:.4g}"
        return f"supported when the whole 90 % interval lies within {band}, refuted when outside"
    above, below = ("supported", "refuted") if _goes_up(test) else ("refuted", "supported")
    return f"{above} when the whole 90 % interval lies above {_end(test):.4g}, {below} when below"


def _goes_up(test: Comparison | Threshold) -> bool:
    """Whether more supports the claim."""
    return test.predict.low > 1 if isinstance(test, Comparison) else math.isfinite(test.predict.low)


def _end(test: Comparison | Threshold) -> float:
    """Return the end of the prediction that decides."""
    if isinstance(test, Comparison):
        return test.nearest_effect
    return test.predict.low if _goes_up(test) else test.predict.high


def too_few(evidence: Evidence, rules: Rules) -> str:
    """Return that the first look has not been reached."""
    count = len(evidence.blocks)
    if not count and not evidence.voided:
        return f"not measured yet: the first look comes after {rules.looks[0]} blocks"
    void = f", {len(evidence.voided)} void" if evidence.voided else ""
    return f"{count} of the {rules.looks[0]} blocks that the first look needs{void}"


def doubt(interval: Band | None, side: Band, p: float, level: float) -> str:
    """Return why a look did not decide.

    Args:
        interval: The 90 % interval.
        side: Where the truth lies if the claim holds.
        p: The smaller of the p values of both rulings.
        level: What it was held against.
    """
    ends = [end for end in (side.low, side.high) if math.isfinite(end)]
    if interval is not None and any(interval.low < end < interval.high for end in ends):
        return "the 90 % interval reaches across the end of the prediction"
    return f"p = {p:.2g} does not pass: needed at most {level:.2g}, corrected for looks and for the set"
