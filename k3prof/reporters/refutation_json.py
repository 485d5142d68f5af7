"""Hypotheses and their verdicts as plain data: units in the keys, nothing rounded.

The form, version 1; `null` stands for what is not known or does not apply:

    format_version    1
    title             the experiment's name
    began_unix_ns     when the first round began
    stand_in_devices  whether processes on the host's processor play the part of GPUs
    rig               name to value: devices, model, build, host
    settings          the settings' text as given
    commands          placement to {argv, env}
    effort            {rounds, legs, servers_started, hours, usd, stopped_by, budget_left}
    noise             of one placement against itself: [{metric, workload, effect}]
    hypotheses        [{id, claim, because, where, metric: {name, unit, about}, note, verdict, replaced}], where
      verdict         {ruling, rule, magnitude, grade, effect, reasons, blocks_needed, is_final, predicted, evidence}
      replaced        earlier verdicts, the oldest first: [{unix_ns, why, verdict}]
      effect          {estimate, low, high, confidence, blocks}: a ratio candidate / baseline; of a threshold, a value
                      in the metric's unit
      predicted       {digest, kind, baseline, candidate, varies, low, high, smallest, alpha, looks, if_refuted,
                      if_supported}: what the verdict is about. `kind` is comparison, threshold or again. `low` or
                      `high` of null is a band without that end; the arms are {placement, workload}.
      evidence        {blocks, again, voided: [{round, reason}], obstacle, caveats: [{code, message, remedy}]}
      blocks, again   [{round, baseline, candidate, ratio, level}]: `baseline` and `candidate` are two legs each, in
                      order of time: {value, bias_low, bias_high} in the metric's unit; `level` is the mean of the
                      baseline's legs. A block of one arm has neither candidate nor ratio.

Infinity and not-a-number do not exist in JSON: an open end of a band, and any figure that is not finite, is null.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from k3prof.core.idle import CONFIDENCE
from k3prof.core.refutation.evidence import Block, Evidence, Figure
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Threshold
from k3prof.core.refutation.verdict import Effect, Verdict
from k3prof.reporters import refutation_words as words
from k3prof.reporters.refutation_input import Judged, RefutationReport

FORMAT_VERSION = 1


def as_json(given: RefutationReport) -> dict[str, Any]:
    """Return what `json.dumps` takes.

    Names and log lines stand as they were read; JSON's own escapes make them safe.
    """
    spent = given.effort
    return {
        "format_version": FORMAT_VERSION,
        "title": given.title,
        "began_unix_ns": given.unix_ns,
        "stand_in_devices": given.stand_ins,
        "rig": dict(given.rig),
        "settings": given.settings,
        "commands": {
            name: None if command is None else {"argv": list(command.argv), "env": dict(command.env)}
            for name, command in given.commands.items()
        },
        "effort": {
            "rounds": spent.rounds,
            "legs": spent.legs,
            "servers_started": spent.servers_started,
            "hours": spent.hours,
            "usd": spent.usd,
            "stopped_by": spent.stopped_by,
            "budget_left": spent.budget_left or None,
        },
        "noise": [
            {"metric": one.metric, "workload": one.workload.name, "effect": _effect(one.effect)} for one in given.noise
        ],
        "hypotheses": [_row(row) for row in given.rows],
    }


def _row(row: Judged) -> dict[str, Any]:
    hypothesis = row.verdict.hypothesis
    return {
        "id": hypothesis.id,
        "claim": hypothesis.claim,
        "because": hypothesis.because,
        "where": hypothesis.where or None,
        "metric": {"name": hypothesis.metric, "unit": row.metric_unit or None, "about": row.metric_about},
        "note": row.note or None,
        "verdict": _verdict(row.verdict),
        "replaced": [
            {"unix_ns": past.unix_ns, "why": past.why, "verdict": _verdict(past.verdict)} for past in row.history
        ],
    }


def _verdict(found: Verdict) -> dict[str, Any]:
    return {
        "ruling": found.ruling.value,
        "rule": found.rule,
        "magnitude": None if found.magnitude is None else found.magnitude.value,
        "grade": found.grade.value,
        "effect": None if found.effect is None else _effect(found.effect),
        "reasons": list(found.reasons),
        "blocks_needed": found.blocks_needed,
        "is_final": found.is_final,
        "predicted": _predicted(found.hypothesis),
        "evidence": _evidence(found.evidence),
    }


def _predicted(hypothesis: Hypothesis) -> dict[str, Any]:
    return {
        "digest": hypothesis.digest,
        **_test(hypothesis.test),
        "alpha": hypothesis.rules.alpha,
        "looks": list(hypothesis.rules.looks),
        "if_refuted": hypothesis.if_refuted or None,
        "if_supported": hypothesis.if_supported or None,
    }


def _test(test: Comparison | Threshold | Again) -> dict[str, Any]:
    shown: dict[str, Any] = {"kind": type(test).__name__.lower(), "varies": None, "smallest": None}
    match test:
        case Comparison():
            arms = {"baseline": _arm(test.baseline), "candidate": _arm(test.candidate)}
            return {**shown, **arms, **_band(test.predict), "varies": test.varies, "smallest": test.smallest}
        case Threshold():
            return {**shown, "baseline": _arm(test.of), "candidate": None, **_band(test.predict)}
        case Again():
            arms = {"baseline": _arm(test.of), "candidate": _arm(test.of)}
            return {**shown, **arms, "low": None, "high": None, "smallest": test.smallest}


def _arm(arm: Arm) -> dict[str, str]:
    return {"placement": arm.placement, "workload": arm.workload.name}


def _band(band: Band) -> dict[str, float | None]:
    return {"low": _finite(band.low), "high": _finite(band.high)}


def _effect(found: Effect) -> dict[str, Any]:
    return {
        "estimate": _finite(found.estimate),
        "low": _finite(found.low),
        "high": _finite(found.high),
        "confidence": CONFIDENCE,
        "blocks": found.blocks,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    return {
        "blocks": _blocks(evidence.blocks),
        "again": _blocks(evidence.again),
        "voided": [{"round": one.round, "reason": one.reason} for one in evidence.voided],
        "obstacle": evidence.obstacle or None,
        "caveats": [
            {"code": one.code, "message": one.message, "remedy": one.remedy or None} for one in evidence.caveats
        ],
    }


def _blocks(blocks: Sequence[Block]) -> list[dict[str, Any]]:
    return [
        {
            "round": block.round,
            "baseline": [_figure(one) for one in block.baseline],
            "candidate": None if block.candidate is None else [_figure(one) for one in block.candidate],
            "ratio": None if block.candidate is None else words.value(block),
            "level": _finite(block.level.value),
        }
        for block in blocks
    ]


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "value": _finite(figure.value),
        "bias_low": _finite(figure.bias_low),
        "bias_high": _finite(figure.bias_high),
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
