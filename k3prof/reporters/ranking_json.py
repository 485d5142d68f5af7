"""The ranking after a sweep as plain data: units in the keys, null for what is not known, nothing rounded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from k3prof.core.idle import CONFIDENCE, Parallelism
from k3prof.core.summary import PlacementSummary, Spread, WorkloadSummary
from k3prof.reporters import claim_tables, gpu_tables, ladder_tables, ledger_tables, proof_tables, ranking

FORMAT_VERSION = 1


def as_json(summaries: Sequence[PlacementSummary]) -> dict[str, Any]:
    """Return what `json.dumps` takes: each placement with its figures, and the order under each workload.

    Names and log lines stand as they were read; JSON's own escapes make them safe.
    """
    return {
        "format_version": FORMAT_VERSION,
        "rankings": [
            {
                "workload": section.workload.name,
                "order": [
                    {"placement": row.summary.placement, "rate_over_best": row.relative}
                    for row in section.rows
                    if row.place is not None
                ],
                "not_compared": [row.summary.placement for row in section.rows if row.place is None],
            }
            for section in ranking.sections(summaries)
        ],
        "placements": [_placement(summary) for summary in summaries],
    }


def _placement(summary: PlacementSummary) -> dict[str, Any]:
    outcome = summary.outcome
    return {
        "placement": summary.placement,
        "build": summary.build or None,
        "status": outcome.status.value,
        "failure": outcome.failure.value if outcome.failure else None,
        "message": outcome.message or None,
        "evidence": outcome.evidence or None,
        "load_s": summary.load_s,
        "workloads": [_workload(one) for one in summary.workloads],
        "caveats": [
            {"code": caveat.code, "message": caveat.message, "remedy": caveat.remedy or None}
            for caveat in summary.caveats
        ],
        "proof": None if summary.proof is None else proof_tables.as_json(summary.proof),
        "ladders": ladder_tables.as_json(summary),
        "ledgers": [ledger_tables.as_json(one) for one in summary.ledgers],
    }


def _workload(found: WorkloadSummary) -> dict[str, Any]:
    return {
        "workload": found.workload.name,
        "rate_tok_per_s": _spread(found.rate),
        "ttft_ms": _spread(found.ttft_ms),
        "parallelism": _parallelism(found.parallelism),
        "busy_frac": dict(found.busy_frac),
        "gpus": [gpu_tables.as_json(gpu) for gpu in found.gpus],
    }


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    if spread is None:
        return None
    return {"median": spread.median, "low": spread.low, "high": spread.high, "n": spread.n}


def _parallelism(parallelism: Parallelism | None) -> dict[str, Any] | None:
    if parallelism is None:
        return None
    return {
        "degree": parallelism.degree,
        "low": parallelism.low,
        "high": parallelism.high,
        "confidence": CONFIDENCE,
        "blocks": parallelism.blocks,
        "devices": list(parallelism.devices),
        "resolution_ns": parallelism.resolution_ns,
        "claims": claim_tables.as_json(parallelism),
    }
