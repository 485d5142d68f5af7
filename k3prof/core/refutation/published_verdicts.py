"""Judges claims by published figures, at the grade that such figures have: unreplicated.

Nobody ran them in blocks, with both arms beside each other. Of a single figure not even the scatter is known: it is
assumed, and the verdict has to hold for all that it allows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy import stats

from k3prof.core.refutation.evidence import Grade
from k3prof.core.refutation.figures import Data, FormulaError, MissingFigure
from k3prof.core.refutation.formula import Formula
from k3prof.core.refutation.hypothesis import Band, Rules
from k3prof.core.refutation.published import (
    CheckResult,
    Estimate,
    Finding,
    Judgement,
    Published,
    PublishedHypothesis,
    PublishedReport,
    PublishedVerdict,
    Scatter,
    Spread,
)
from k3prof.core.refutation.published_checks import recompute
from k3prof.core.refutation.verdict import Magnitude, Ruling

FEWEST_REPEATS = 3
_SHOWN_ALPHA = 0.05
_Figures = tuple[float, ...]


def judge_evidence(published: Published) -> PublishedReport:
    """Recompute every number of a file, and judge every claim.

    Raises:
        FormulaError: A formula has no value, although its figures are there.
    """
    results = tuple(recompute(check, published.data) for check in published.checks)
    by_name = {result.check.name: result for result in results}
    tests = sum(_is_test(one, published.data) for one in published.hypotheses)
    verdicts = tuple(judge_claim(one, published.data, by_name, tests) for one in published.hypotheses)
    return PublishedReport(published, results, verdicts)


def judge_claim(
    hypothesis: PublishedHypothesis, data: Data, checks: Mapping[str, CheckResult], tests: int = 1
) -> PublishedVerdict:
    """Judge one claim.

    Args:
        hypothesis: The claim.
        data: The figures.
        checks: The recomputed numbers, by name.
        tests: How many claims are judged by repetitions, and share the rate of error.

    Raises:
        FormulaError: Its formula has no value, although its figures are there.
    """
    alpha = Rules().alpha / max(tests, 1)
    judgement = _judged(hypothesis, data, alpha)
    corrected = tuple(_judged(hypothesis, data, alpha, one.name, one.value) for one in hypothesis.corrected)
    reasons = tuple(filter(None, [hypothesis.obstacle, *(_unsound(checks[name]) for name in hypothesis.rests_on)]))
    ruling = Ruling.INCONCLUSIVE if reasons else judgement.ruling
    if ruling is Ruling.INCONCLUSIVE and not reasons:
        reasons = (judgement.rule,)
    grade = Grade.NONE if judgement.estimate is None else Grade.UNREPLICATED
    return PublishedVerdict(hypothesis, ruling, judgement, grade, reasons, corrected)


def _unsound(result: CheckResult) -> str:
    match result.finding:
        case Finding.CONFIRMED:
            return ""
        case Finding.WRONG:
            return f"rests on “{result.check.name}”, which is wrong"
        case Finding.UNKNOWN:
            return f"rests on “{result.check.name}”, which cannot be recomputed"


def _is_test(hypothesis: PublishedHypothesis, data: Data) -> bool:
    try:
        estimate = _estimate(hypothesis, data, _SHOWN_ALPHA, hypothesis.value)
    except MissingFigure:
        return False
    return estimate is not None and estimate.spread is not Spread.ASSUMED


def _judged(
    hypothesis: PublishedHypothesis, data: Data, alpha: float, name: str = "", value: Formula | None = None
) -> Judgement:
    """Judge the figures as published or, with a name, as a reading has them."""
    formula = value if name else hypothesis.value
    try:
        estimate = _estimate(hypothesis, data, alpha, formula)
        arithmetic = _arithmetic(hypothesis, data, formula)
    except MissingFigure as missing:
        return Judgement(name, None, Ruling.INCONCLUSIVE, str(missing))
    if estimate is None:
        return Judgement(name, None, Ruling.INCONCLUSIVE, "no figure was published")
    identical = estimate.spread is not Spread.ASSUMED and estimate.low == estimate.high
    ruling = Ruling.INCONCLUSIVE if identical else _ruling(hypothesis, *estimate.decisive)
    rule = _identical(estimate) if identical else _rule(hypothesis, estimate, ruling, alpha)
    magnitude = _magnitude(hypothesis, estimate.low, estimate.high)
    return Judgement(name, estimate, ruling, rule, magnitude, arithmetic)


def _arithmetic(hypothesis: PublishedHypothesis, data: Data, formula: Formula | None) -> str:
    if formula is not None:
        computed = formula.path is None or isinstance(formula.evaluate(data), tuple)
        return formula.with_numbers(data) if computed else ""
    if hypothesis.arms is None:
        return ""
    baseline, candidate = (arm.with_numbers(data) for arm in hypothesis.arms)
    return f"{candidate} against {baseline}"


def _estimate(hypothesis: PublishedHypothesis, data: Data, alpha: float, formula: Formula | None) -> Estimate | None:
    if formula is not None:
        figures = _figures(formula, data)
        return _of_ratio(figures, hypothesis, alpha) if hypothesis.is_ratio else _of_level(figures, hypothesis, alpha)
    if hypothesis.arms is None:
        return None
    baseline, candidate = (_figures(arm, data) for arm in hypothesis.arms)
    return _of_arms(baseline, candidate, hypothesis.scatter, alpha)


def _figures(formula: Formula, data: Data) -> _Figures:
    value = formula.evaluate(data)
    figures = value if isinstance(value, tuple) else (value,)
    if not figures:
        raise FormulaError("gives no number")
    return figures


def _of_arms(baseline: _Figures, candidate: _Figures, scatter: Scatter, alpha: float) -> Estimate:
    logs = _logs(baseline), _logs(candidate)
    difference = float(logs[1].mean() - logs[0].mean())
    counts = (len(baseline), len(candidate))
    if min(counts) < FEWEST_REPEATS:
        return _assumed(math.exp(difference), _ratio_factor(scatter), _ratio_factor(scatter), counts)
    variances = [float(arm.var(ddof=1)) / len(arm) for arm in logs]
    error, degrees = math.sqrt(sum(variances)), _welch_degrees(variances, counts)
    return _measured(difference, error, degrees, alpha, spread=Spread.WELCH, counts=counts)


def _welch_degrees(variances: Sequence[float], counts: Sequence[int]) -> float:
    """Degrees of freedom after Welch and Satterthwaite, of variances of means."""
    parts = sum(variance**2 / (count - 1) for variance, count in zip(variances, counts, strict=True))
    return sum(variances) ** 2 / parts if parts else min(counts) - 1.0


def _of_ratio(figures: _Figures, hypothesis: PublishedHypothesis, alpha: float) -> Estimate:
    logs, counts = _logs(figures), (len(figures),)
    if len(figures) < FEWEST_REPEATS:
        factor = _ratio_factor(hypothesis.scatter)
        return _assumed(math.exp(float(logs.mean())), factor, factor, counts)
    error = float(logs.std(ddof=1)) / math.sqrt(len(figures))
    return _measured(float(logs.mean()), error, len(figures) - 1, alpha, spread=Spread.STUDENT_LOGS, counts=counts)


def _of_level(figures: _Figures, hypothesis: PublishedHypothesis, alpha: float) -> Estimate:
    mean, counts, frac = float(np.mean(figures)), (len(figures),), hypothesis.scatter.frac
    if len(figures) < FEWEST_REPEATS:
        return _assumed(mean, 1 + frac, 1 / (1 - frac), counts)
    error = float(np.std(figures, ddof=1)) / math.sqrt(len(figures))
    return _measured(mean, error, len(figures) - 1, alpha, spread=Spread.STUDENT, counts=counts)


def _ratio_factor(scatter: Scatter) -> float:
    """How far a ratio may be off when one of its figures is too high and the other too low."""
    return (1 + scatter.frac) / (1 - scatter.frac)


def _assumed(value: float, down: float, up: float, counts: tuple[int, ...]) -> Estimate:
    low, high = sorted((value / down, value * up))
    return Estimate(value, low, high, Spread.ASSUMED, counts, (low, high))


def _measured(
    centre: float, error: float, degrees: float, alpha: float, *, spread: Spread, counts: tuple[int, ...]
) -> Estimate:
    def interval(rate: float) -> tuple[float, float]:
        half = error * float(stats.t.isf(rate, degrees))
        return back(centre - half), back(centre + half)

    def back(value: float) -> float:
        return value if spread is Spread.STUDENT else math.exp(value)

    low, high = interval(_SHOWN_ALPHA)
    return Estimate(back(centre), low, high, spread, counts, interval(alpha))


def _logs(figures: _Figures) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    if min(figures) <= 0:
        raise FormulaError("a ratio is taken of numbers above 0")
    return np.log(np.array(figures, dtype=np.float64))


def _ruling(hypothesis: PublishedHypothesis, low: float, high: float) -> Ruling:
    predict = hypothesis.predict
    if hypothesis.claims_no_effect:
        inside, outside = low in predict and high in predict, high < predict.low or low > predict.high
    elif predict.low > 1 if hypothesis.is_ratio else math.isfinite(predict.low):
        inside, outside = low >= predict.low, high < predict.low
    else:
        inside, outside = high <= predict.high, low > predict.high
    if inside:
        return Ruling.SUPPORTED
    return Ruling.REFUTED if outside else Ruling.INCONCLUSIVE


def _magnitude(hypothesis: PublishedHypothesis, low: float, high: float) -> Magnitude | None:
    smallest, predict = hypothesis.smallest, hypothesis.predict
    if smallest is None:
        return None
    if 1 / smallest <= low and high <= smallest:
        return Magnitude.NO_EFFECT
    if hypothesis.claims_no_effect:
        return None
    rising = predict.low > 1
    # A falling prediction mirrored on 1, so that one rule serves both.
    near, far = (predict.low, predict.high) if rising else (1 / predict.high, _inverse(predict.low))
    least, most = (low, high) if rising else (1 / high, 1 / low)
    sizes = {
        Magnitude.OPPOSITE: most < 1 / smallest,
        Magnitude.LARGER: least > far,
        Magnitude.SMALLER: least > 1 and most < near,
        Magnitude.AS_PREDICTED: near <= least <= far,
    }
    return next((size for size, holds in sizes.items() if holds), None)


def _inverse(value: float) -> float:
    return math.inf if value == 0 else 1 / value


def _rule(hypothesis: PublishedHypothesis, estimate: Estimate, ruling: Ruling, alpha: float) -> str:
    low, high = estimate.decisive
    where = {
        Ruling.SUPPORTED: "bears the prediction out",
        Ruling.REFUTED: "misses the prediction",
        Ruling.INCONCLUSIVE: "lies on both sides of the prediction's edge",
    }[ruling]
    counted = " and ".join(str(count) for count in estimate.counts)
    if estimate.spread is Spread.ASSUMED:
        frac = f"{hypothesis.scatter.frac * 100:g} %"
        return (
            f"[{low:.3g}, {high:.3g}] {where} ({_predicted(hypothesis.predict)}); that a figure is off by up to {frac} "
            f"either way is assumed, not measured (n = {counted})"
        )
    shared = f", {Rules().alpha * 100:g} % shared by all tests of the file" if alpha < Rules().alpha else ""
    return (
        f"[{low:.3g}, {high:.3g}] {where} ({_predicted(hypothesis.predict)}), by {estimate.spread}, n = {counted}, at "
        f"{alpha * 100:.3g} % of error each way{shared}; unreplicated, since the runs were not paired in blocks"
    )


def _identical(estimate: Estimate) -> str:
    return f"all figures are {estimate.value:.6g} to the last digit, which tells nothing of their scatter"


def _predicted(predict: Band) -> str:
    if math.isinf(predict.high):
        return f"at least {predict.low:.6g}"
    if math.isinf(predict.low) or predict.low == 0:
        return f"at most {predict.high:.6g}"
    return f"{predict.low:.6g} to {predict.high:.6g}"
