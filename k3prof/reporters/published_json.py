"""Published evidence, judged, as plain data: nothing rounded, null for what is not known.

The form, version 1:

    format_version   1
    title, source    as in the file
    scatter_frac     how far a single figure is assumed to be off, where a hypothesis says nothing else
    checks           [{name, unit, finding, because, formula, arithmetic, missing, note, tolerance, stated, numbers}]
      numbers        [{stated, recomputed, low, high, agrees, excess_frac}]: low and high are what the rounding of the
                     figures leaves open, excess_frac is how far the stated one is too high
    hypotheses       [{id, claim, because, ruling, grade, reasons, predicted: {low, high, smallest, unit}, rests_on,
                     obstacle, scatter_frac, if_refuted, if_supported, as_published, corrected}]
      as_published   {name, ruling, rule, magnitude, arithmetic, estimate: {value, low, high, spread, counts}}
      corrected      a list of the same, one for each way to put the figure right
"""

from __future__ import annotations

import math
from typing import Any

from k3prof.core.refutation.published import (
    CheckResult,
    Estimate,
    Judgement,
    PublishedReport,
    PublishedVerdict,
    Recomputed,
)

FORMAT_VERSION = 1


def as_json(report: PublishedReport) -> dict[str, Any]:
    """Return what `json.dumps` takes."""
    published = report.published
    return {
        "format_version": FORMAT_VERSION,
        "title": published.title,
        "source": published.source,
        "scatter_frac": published.scatter.frac,
        "checks": [_check(result) for result in report.checks],
        "hypotheses": [_verdict(verdict) for verdict in report.verdicts],
    }


def _check(result: CheckResult) -> dict[str, Any]:
    check = result.check
    return {
        "name": check.name,
        "unit": check.unit or None,
        "finding": str(result.finding),
        "because": check.because,
        "formula": check.formula.text if check.formula else None,
        "arithmetic": result.arithmetic or None,
        "missing": result.missing or None,
        "note": check.note or None,
        "tolerance": check.tolerance.size,
        "stated": list(check.stated),
        "numbers": [_number(number) for number in result.numbers],
    }


def _number(number: Recomputed) -> dict[str, Any]:
    return {
        "stated": number.stated,
        "recomputed": number.value,
        "low": number.low,
        "high": number.high,
        "agrees": number.agrees,
        "excess_frac": number.excess_frac,
    }


def _verdict(found: PublishedVerdict) -> dict[str, Any]:
    hypothesis = found.hypothesis
    return {
        "id": hypothesis.id,
        "claim": hypothesis.claim,
        "because": hypothesis.because,
        "ruling": str(found.ruling),
        "grade": str(found.grade),
        "reasons": list(found.reasons),
        "predicted": {
            "low": _finite(hypothesis.predict.low),
            "high": _finite(hypothesis.predict.high),
            "smallest": hypothesis.smallest,
            "unit": hypothesis.unit or None,
        },
        "rests_on": list(hypothesis.rests_on),
        "obstacle": hypothesis.obstacle or None,
        "scatter_frac": hypothesis.scatter.frac,
        "if_refuted": hypothesis.if_refuted or None,
        "if_supported": hypothesis.if_supported or None,
        "as_published": _judgement(found.as_published),
        "corrected": [_judgement(one) for one in found.corrected],
    }


def _judgement(found: Judgement) -> dict[str, Any]:
    return {
        "name": found.name or None,
        "ruling": str(found.ruling),
        "rule": found.rule,
        "magnitude": None if found.magnitude is None else str(found.magnitude),
        "arithmetic": found.arithmetic or None,
        "estimate": None if found.estimate is None else _estimate(found.estimate),
    }


def _estimate(found: Estimate) -> dict[str, Any]:
    return {
        "value": _finite(found.value),
        "low": _finite(found.low),
        "high": _finite(found.high),
        "spread": str(found.spread),
        "counts": list(found.counts),
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
