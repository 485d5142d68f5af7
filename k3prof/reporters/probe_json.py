"""An examination of a model as plain data: raw answers, null for what is not known."""

from __future__ import annotations

import statistics
from typing import Any

from k3prof.core.probes.probe import Result
from k3prof.core.probes.report import Comparison, ProbeReport
from k3prof.core.probes.verdict import CONFIDENCE, Score

FORMAT_VERSION = 1


def as_json(report: ProbeReport) -> dict[str, Any]:
    """Return what `json.dumps` takes; `k3prof probe --compare` reads it again."""
    judgement = report.judgement
    return {
        "format_version": FORMAT_VERSION,
        "set_version": report.set_version,
        "model": report.model,
        "build": report.build,
        "devices": report.devices,
        "asked_by": "chat template" if report.has_template else "examples",
        "verdict": str(judgement.verdict),
        "reason": judgement.reason,
        "broken_groups": list(judgement.broken_groups),
        "decode_tokens_per_s": report.decode_tokens_per_s,
        "notes": list(report.notes),
        "confidence": CONFIDENCE,
        "total": _score(judgement.total),
        "groups": {str(group): _score(score) for group, score in judgement.groups.items()},
        "probes": [_probe(result) for result in report.results],
        "comparison": None if report.comparison is None else _comparison(report.comparison),
    }


def _score(score: Score) -> dict[str, Any]:
    low, high = score.interval or (None, None)
    return {
        "passed": score.passed,
        "answered": score.answered,
        "asked": score.asked,
        "garbled": score.garbled,
        "low_frac": low,
        "high_frac": high,
    }


def _probe(result: Result) -> dict[str, Any]:
    probe, answer = result.probe, result.answer
    return {
        "id": probe.id,
        "group": str(probe.group),
        "question": probe.question,
        "expected": probe.expected,
        "outcome": str(result.outcome),
        "answer": answer.text,
        "reason": answer.reason or None,
        "signs": list(result.signs),
        "median_likelihood_frac": statistics.median(answer.likelihoods) if answer.likelihoods else None,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "with": comparison.earlier.name,
        "verdict_before": comparison.earlier.verdict,
        "changed": [
            {
                "id": change.id,
                "before": str(change.before.outcome),
                "after": str(change.after.outcome),
                "answer_before": change.before.answer,
                "answer_after": change.after.answer,
            }
            for change in comparison.changes
        ],
        "reworded": comparison.reworded,
        "same": comparison.same,
        "not_compared": comparison.not_compared,
    }
