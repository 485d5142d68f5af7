"""A report on hypotheses, out of a trace alone: the verdicts that stand, those that they replaced, what it all took."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Literal

from k3prof.core.device import DeviceKind
from k3prof.core.refutation.effort import total_seconds
from k3prof.core.refutation.gather import Leg
from k3prof.core.refutation.hypothesis import Again, Hypothesis, Threshold
from k3prof.core.refutation.judge import effect_of_ratio
from k3prof.core.refutation.verdict import Ruling, Verdict
from k3prof.core.trial import Command, TrialStatus
from k3prof.reporters import refutation_html, refutation_json, refutation_markdown
from k3prof.reporters.refutation_input import Effort, Judged, Noise, Past, RefutationReport
from k3prof.reporters.refutation_words import prediction
from k3prof.store.trace import Trace
from k3prof.workflows.export import shown
from k3prof.workflows.hypotheses import metric_of
from k3prof.workflows.judging import asked_of, judged
from k3prof.workflows.legs import LegReader

JUDGED_AGAIN = "judged again from the trace"


def report_on(trace: Trace, reader: LegReader, verdicts: Sequence[Verdict], stopped_by: str) -> RefutationReport:
    """Return the report on verdicts.

    Args:
        trace: Where their evidence and earlier verdicts stand.
        reader: Reads its legs.
        verdicts: Those that stand.
        stopped_by: What ended the measuring.
    """
    legs, sweep = reader.legs(), trace.last_sweep()
    past = trace.verdicts()
    price = sweep.settings.get("price_per_hour")
    hours = total_seconds(legs) / 3600
    anchors = trace.anchors()
    first = min((leg.measured.trial for leg in legs), key=lambda trial: trial.id, default=None)
    return RefutationReport(
        title=trace.path.stem,
        rows=tuple(_judged(verdict, past) for verdict in verdicts),
        effort=Effort(
            rounds=len({leg.place.round for leg in legs}),
            legs=sum(leg.measured.trial.outcome.status is TrialStatus.OK for leg in legs),
            servers_started=len(legs),
            hours=hours if legs else None,
            usd=hours * price if legs and isinstance(price, int | float) else None,
            stopped_by=stopped_by,
        ),
        noise=_noise(verdicts),
        stand_ins=any(device.kind is DeviceKind.STAND_IN for leg in legs for device in leg.measured.trial.devices),
        rig=_rig(trace, legs, sweep.host),
        settings="\n".join(
            f"{name} = {shown(value)}" for name, value in sweep.settings.items() if name not in _INTERNAL
        ),
        commands=_commands(trace, legs),
        unix_ns=None if first is None or first.id not in anchors else anchors[first.id].unix_at(first.started_ns),
    )


def judge_again(trace_path: Path) -> RefutationReport:
    """Judge the hypotheses of a trace's latest session again, without running or writing anything.

    Raises:
        TraceError: The trace cannot be read, or holds no hypotheses.
    """
    with Trace.readable(trace_path) as trace:
        reader = LegReader(trace)
        return report_on(trace, reader, judged(trace, reader, asked_of(trace)), JUDGED_AGAIN)


def refutation_text(report: RefutationReport, kind: Literal["html", "md", "json"]) -> str:
    """Return a report as text."""
    match kind:
        case "html":
            return refutation_html.as_html(report)
        case "md":
            return refutation_markdown.as_markdown(report)
        case "json":
            return json.dumps(refutation_json.as_json(report), indent=2) + "\n"


_NO_SECOND_ARM = "held against a limit: a drift of the machine would not cancel, as it does between two placements"
_INTERNAL = frozenset({"hypotheses", "bandwidths"})
_RIG_FACTS = {"cpu_model": "processor", "cores_allowed": "cores", "kernel": "kernel", "container": "container"}


def _judged(verdict: Verdict, past: Sequence[tuple[int, Verdict]]) -> Judged:
    metric = metric_of(verdict.hypothesis)
    is_decided_alone = isinstance(verdict.hypothesis.test, Threshold) and verdict.ruling is not Ruling.INCONCLUSIVE
    note = _NO_SECOND_ARM if is_decided_alone else ""
    return Judged(verdict, metric.unit, metric.about, tuple(_history(verdict, past)), note)


def _history(verdict: Verdict, past: Sequence[tuple[int, Verdict]]) -> list[Past]:
    """Return the earlier verdicts on a hypothesis, in this or an earlier form, that say something else.

    One that was only waiting for more blocks is no verdict that could be wrong.
    """
    of_id = [(unix_ns, one) for unix_ns, one in past if one.hypothesis.id == verdict.hypothesis.id]
    found = []
    for number, (unix_ns, one) in enumerate(of_id):
        later = of_id[number + 1][1] if number + 1 < len(of_id) else verdict
        if _differs(one, later) and (one.is_final or one.hypothesis.digest != later.hypothesis.digest):
            found.append(Past(unix_ns, one, _why(one, later)))
    return found


def _differs(before: Verdict, after: Verdict) -> bool:
    return before.ruling is not after.ruling or before.hypothesis.digest != after.hypothesis.digest


def _why(before: Verdict, after: Verdict) -> str:
    if before.hypothesis.digest != after.hypothesis.digest:
        return _changed(before.hypothesis, after.hypothesis)
    more = len(after.evidence.blocks) - len(before.evidence.blocks)
    if more > 0:
        return f"{more} more {'block' if more == 1 else 'blocks'}"
    if len(after.evidence.voided) != len(before.evidence.voided):
        return "other blocks are void now"
    return "judged again by other rules"


def _changed(before: Hypothesis, after: Hypothesis) -> str:
    old, new = prediction(before), prediction(after)
    if old != new:
        return f"the prediction was changed after data was seen: it was {old}"
    return "the hypothesis was changed after data was seen"


def _noise(verdicts: Sequence[Verdict]) -> tuple[Noise, ...]:
    """Return how far two runs of one placement differ, by metric and workload."""
    found = {}
    for verdict in verdicts:
        test = verdict.hypothesis.test
        again = verdict.evidence.blocks if isinstance(test, Again) else verdict.evidence.again
        if again:
            workload = verdict.hypothesis.arms[0].workload
            found[verdict.hypothesis.metric, workload] = again
    return tuple(
        Noise(metric, workload, effect)
        for (metric, workload), again in found.items()
        if (effect := effect_of_ratio(again)) is not None
    )


def _rig(trace: Trace, legs: Sequence[Leg], host: Mapping[str, object]) -> dict[str, str]:
    facts = {}
    if legs:
        trial = legs[-1].measured.trial
        facts["devices"] = ", ".join(
            f"{device.name} ({device.description})" if device.description else device.name for device in trial.devices
        )
        facts["model"] = Path(trial.spec.model_path).name
    facts["build"] = ", ".join(f"{build.name}: llama.cpp {build.commit or 'unknown'}" for build in trace.builds())
    for key, name in _RIG_FACTS.items():
        if host.get(key) is not None:
            facts[name] = shown(host[key])
    return facts


def _commands(trace: Trace, legs: Sequence[Leg]) -> dict[str, Command | None]:
    by_name = sorted(legs, key=lambda leg: (leg.place.placement, leg.measured.trial.id))
    return {
        name: trace.command(list(found)[-1].measured.trial.id)
        for name, found in groupby(by_name, key=lambda leg: leg.place.placement)
    }
