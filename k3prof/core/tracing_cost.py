"""What tracing costs: repetitions with the tracer on against repetitions with it off, in one server, taking turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from k3prof.core.metrics import METRICS
from k3prof.core.spans import SplitMode
from k3prof.core.trial import Caveat, RequestRecord, TrialSpec, Workload

Arm = Literal["measure", "untraced"]


@dataclass(frozen=True)
class TracingCost:
    """How much longer a workload took with the tracer on.

    Attributes:
        workload: The workload.
        traced: Tokens per second with the tracer on, median over the repetitions.
        untraced: Tokens per second with it off.
        extra_frac: Additional time per token, as a share of the untraced time: median over pairs of repetitions that
            followed each other. Below zero where noise is larger than the cost.
        low_frac: The smallest of the pairs.
        high_frac: The largest.
        pairs: How many pairs.
    """

    workload: Workload
    traced: float
    untraced: float
    extra_frac: float
    low_frac: float
    high_frac: float
    pairs: int


def arms(repetition: int, mode: SplitMode) -> tuple[Arm, ...]:
    """Return as what a repetition is run, and in which order: with the tracer and without it, each first in turn.

    A drift of the machine that is steady over four runs (ABBA) then favours neither.
    """
    if mode is SplitMode.OFF:
        return ("measure",)
    return ("measure", "untraced") if repetition % 2 == 0 else ("untraced", "measure")


def tracing_costs(requests: Iterable[RequestRecord]) -> list[TracingCost]:
    """Return what tracing cost each workload that was measured both with and without it."""
    repetitions: dict[tuple[Workload, int], dict[str, list[RequestRecord]]] = {}
    for request in requests:
        repetitions.setdefault((request.workload, request.repetition), {}).setdefault(request.role, []).append(request)
    rates: dict[Workload, list[tuple[float, float]]] = {}
    for (workload, _), by_role in repetitions.items():
        compute = METRICS[workload.kind].compute
        traced, untraced = compute(by_role.get("measure", [])), compute(by_role.get("untraced", []))
        if traced and untraced:
            rates.setdefault(workload, []).append((traced, untraced))
    return [_cost(workload, pairs) for workload, pairs in rates.items()]


def _cost(workload: Workload, pairs: Sequence[tuple[float, float]]) -> TracingCost:
    extra = [untraced / traced - 1 for traced, untraced in pairs]
    traced, untraced = (median(rates) for rates in zip(*pairs, strict=True))
    return TracingCost(workload, traced, untraced, median(extra), min(extra), max(extra), len(pairs))


def cost_caveat(mode: SplitMode, costs: Sequence[TracingCost]) -> Caveat | None:
    """Return what to say beside the figures of a traced trial; None when nothing was measured."""
    if not costs:
        return None
    shown = "; ".join(
        f"{one.workload.name} {one.extra_frac * 100:+.1f} % ({one.low_frac * 100:+.1f} to {one.high_frac * 100:+.1f} % "
        f"over {one.pairs} {'pair' if one.pairs == 1 else 'pairs'}: {one.traced:.4g} against {one.untraced:.4g} tok/s)"
        for one in costs
    )
    serial = "; each split is waited for, so that devices cannot overlap" if mode is SplitMode.EXACT else ""
    return Caveat(
        "splits-traced",
        f"time per token with the {mode} split tracer on: {shown}{serial}",
        "for rates alone, run without --splits",
    )


def serialized(spec: TrialSpec, workload: Workload) -> bool:
    """Return whether the tracer kept devices from overlapping that otherwise might have.

    In its exact mode each split is waited for. Prefill passes ubatches from device to device as in a pipeline, and
    several streams keep several devices busy; one stream's tokens come one after another, whoever watches.
    """
    return spec.splits is SplitMode.EXACT and (workload.kind == "pp" or workload.streams > 1)


def serialized_caveat(spec: TrialSpec) -> list[Caveat]:
    """Return what to say where P would show the tracer instead of the placement."""
    names = [one.name for one in spec.workloads if serialized(spec, one)]
    if not names:
        return []
    return [
        Caveat(
            "splits-in-turn",
            f"{', '.join(names)}: P is unknown: the exact split tracer waits for each split, so that devices cannot "
            "overlap as they would without it",
            "for P, run with --splits light or without --splits",
        )
    ]
