"""How large an effect is against what was predicted."""

from __future__ import annotations

import math

from k3prof.core.refutation.hypothesis import Again, Band, Comparison, Hypothesis, Threshold
from k3prof.core.refutation.verdict import Effect, Magnitude


def magnitude(hypothesis: Hypothesis, effect: Effect) -> Magnitude | None:
    """Return an effect's size by its whole interval; None for thresholds and where the interval does not tell."""
    test = hypothesis.test
    if isinstance(test, Threshold) or effect.low is None or effect.high is None:
        return None
    interval, unimportant = Band(effect.low, effect.high), Band(1 / test.smallest, test.smallest)
    if interval.low in unimportant and interval.high in unimportant:
        return Magnitude.NO_EFFECT
    if isinstance(test, Again):
        return None
    if test.claims_no_effect:
        return None
    reaches = interval.low >= test.predict.low if test.predict.low > 1 else interval.high <= test.predict.high
    if reaches and interval.low <= test.predict.high and test.predict.low <= interval.high:
        return Magnitude.AS_PREDICTED
    return _beside(interval, test)


def _beside(interval: Band, test: Comparison) -> Magnitude | None:
    """Return how an interval that misses the prediction lies to it; turned over where less than 1 is predicted."""
    if test.predict.low > 1:
        low, high, least, most = interval.low, interval.high, test.predict.low, test.predict.high
    else:
        low, high, least, most = map(_inverse, (interval.high, interval.low, test.predict.high, test.predict.low))
    if high < 1 / test.smallest:
        return Magnitude.OPPOSITE
    if low > most:
        return Magnitude.LARGER
    return Magnitude.SMALLER if low > 1 and high < least else None


def _inverse(ratio: float) -> float:
    return 1 / ratio if ratio > 0 else math.inf
