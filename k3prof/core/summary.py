"""What a sweep found, placement by placement: the figures that tables, reports and JSON show."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from k3prof.core.device import DeviceKind
from k3prof.core.evidence.proof import Proof
from k3prof.core.gpu_figures import GpuFigures, Stretch, gpu_figures
from k3prof.core.idle import Parallelism, parallelism
from k3prof.core.layout.context_cost import ContextCost
from k3prof.core.ledger import Ledger
from k3prof.core.metrics import METRICS
from k3prof.core.slowdowns import slowdown_caveats
from k3prof.core.timeline import BUSY_COUNTERS, Phase, PhaseKind, Series, mean_share
from k3prof.core.tracing_cost import serialized, serialized_caveat
from k3prof.core.trial import Caveat, Outcome, RequestRecord, RequestStatus, TrialRecord, TrialStatus, Workload


@dataclass(frozen=True)
class Spread:
    """A figure over repetitions.

    Attributes:
        median: The middle value.
        low: The smallest.
        high: The largest.
        n: How many repetitions.
    """

    median: float
    low: float
    high: float
    n: int


@dataclass(frozen=True)
class WorkloadSummary:
    """What one placement did with one workload.

    Attributes:
        workload: The workload.
        rate: Tokens per second: `pp` or `tg`; None when no repetition counts.
        ttft_ms: Time to first token.
        parallelism: P over the phase that the workload is about (prefill or decode); None when not observed, and
            where the split tracer kept devices from overlapping that otherwise might have.
        busy_frac: Mean busy share of each device in that phase, and of the host's `CPU`; None where not observed.
        gpus: What the counters of each GPU say of that phase; empty without GPUs.
        rates: The rate of each repetition that counts, in their order.
    """

    workload: Workload
    rate: Spread | None
    ttft_ms: Spread | None
    parallelism: Parallelism | None
    busy_frac: Mapping[str, float | None]
    gpus: tuple[GpuFigures, ...] = ()
    rates: tuple[float, ...] = ()


@dataclass(frozen=True)
class PlacementSummary:
    """What a sweep found out about one placement.

    Attributes:
        placement: Its name.
        outcome: How its last trial ended.
        load_s: Seconds from the server's start until it answered; None when it never did.
        workloads: One summary per workload asked for.
        caveats: Reasons to doubt the figures.
        proof: What its last server's log proves; None where there is no log.
        ledgers: Where the time of a token went, one per workload whose splits were traced.
        build: Name of the llama.cpp build that it ran on; empty when not known.
        context_cost: What each token of context costs a decode step by the traffic model; None when not known.
    """

    placement: str
    outcome: Outcome
    load_s: float | None
    workloads: tuple[WorkloadSummary, ...]
    caveats: tuple[Caveat, ...]
    proof: Proof | None = None
    ledgers: tuple[Ledger, ...] = ()
    build: str = ""
    context_cost: ContextCost | None = None

    def of(self, workload: Workload) -> WorkloadSummary | None:
        """Return the summary of a workload, or None when this placement was not asked for it."""
        return next((one for one in self.workloads if one.workload == workload), None)


def phases(trial: TrialRecord) -> list[Phase]:
    """Return what the server was doing when, by the client's own times, in order of time.

    With several streams, prefill lasts from the first request sent to the last first token, and decode from there
    to the first stream's end: the time in which every stream was generating.
    """
    found: list[Phase] = []
    if trial.ready_ns is not None:
        found.append(Phase(PhaseKind.LOAD, trial.started_ns, trial.ready_ns))
    for (workload, role, repetition), requests in repetitions(trial.requests).items():
        begin_ns = min(request.sent_ns for request in requests)
        end_ns = max(request.ended_ns for request in requests)
        if role != "measure":
            kind = PhaseKind.WARMUP if role == "warmup" else PhaseKind.UNTRACED
            found.append(Phase(kind, begin_ns, end_ns, workload.name, repetition))
            continue
        if not all(request.arrivals_ns.size for request in requests):
            continue
        first_ns = max(int(request.arrivals_ns[0]) for request in requests)
        last_ns = min(int(request.arrivals_ns[-1]) for request in requests)
        found.append(Phase(PhaseKind.PREFILL, begin_ns, first_ns, workload.name, repetition))
        if last_ns > first_ns:
            found.append(Phase(PhaseKind.DECODE, first_ns, last_ns, workload.name, repetition))
    return sorted(found, key=lambda phase: phase.begin_ns)


def tokens_done(request: RequestRecord, phase: Phase) -> int:
    """Return the tokens that a request got done in a phase; 0 where the server does not tell."""
    if phase.kind is PhaseKind.PREFILL:
        return request.timings.prompt_n or 0
    return int(request.tokens[(request.arrivals_ns > phase.begin_ns) & (request.arrivals_ns <= phase.end_ns)].sum())


def device_counters(trial: TrialRecord, series: Iterable[Series]) -> list[Series]:
    """Return the busy counter of each device that is not the host, in the order of the devices."""
    by_device = {one.device: one for one in series if one.counter in BUSY_COUNTERS}
    names = [device.name for device in trial.devices if device.kind is not DeviceKind.CPU]
    return [by_device[name] for name in names if name in by_device]


def load_s(trial: TrialRecord) -> float | None:
    """Return the seconds from the server's start until it answered; None when it never did."""
    return None if trial.ready_ns is None else (trial.ready_ns - trial.started_ns) / 1e9


def summarize_trial(
    trial: TrialRecord, series: Sequence[Series], proof: Proof | None = None, ledgers: tuple[Ledger, ...] = ()
) -> PlacementSummary:
    """Return what one trial found, with the samples taken while it ran, what its log proves, and its ledgers."""
    all_phases = phases(trial)
    return PlacementSummary(
        placement=trial.spec.placement,
        outcome=trial.outcome,
        load_s=load_s(trial),
        workloads=tuple(_summarize_workload(trial, one, series, all_phases) for one in trial.spec.workloads),
        caveats=(
            *trial.caveats,
            *serialized_caveat(trial.spec),
            *slowdown_caveats(trial.devices, all_phases, series),
        ),
        proof=proof,
        ledgers=ledgers,
    )


def merge(summaries: Sequence[PlacementSummary]) -> PlacementSummary:
    """Put together the trials of one placement, oldest first: later figures of a workload replace earlier ones."""
    latest: dict[Workload, WorkloadSummary] = {}
    for summary in summaries:
        for one in summary.workloads:
            if one.rate is not None or one.workload not in latest:
                latest[one.workload] = one
    last = summaries[-1]
    caveats = dict.fromkeys(caveat for summary in summaries for caveat in summary.caveats)
    load_s = next((one.load_s for one in reversed(summaries) if one.load_s is not None), None)
    proof = next((one.proof for one in reversed(summaries) if one.proof is not None), None)
    ledgers = {one.workload: one for summary in summaries for one in summary.ledgers}
    return PlacementSummary(
        last.placement,
        last.outcome,
        load_s,
        tuple(latest.values()),
        tuple(caveats),
        proof,
        tuple(ledgers.values()),
    )


def rank(summaries: Iterable[PlacementSummary], workload: Workload) -> list[PlacementSummary]:
    """Return the placements that may be compared on a workload, fastest first."""

    def rate(summary: PlacementSummary) -> float | None:
        found = summary.of(workload)
        return found.rate.median if found is not None and found.rate is not None else None

    comparable = [one for one in summaries if one.outcome.status is TrialStatus.OK and rate(one) is not None]
    return sorted(comparable, key=lambda one: rate(one) or 0.0, reverse=True)


def spread(values: Sequence[float]) -> Spread | None:
    """Return the spread of a figure's repetitions, or None when there are none."""
    if not values:
        return None
    return Spread(float(np.median(values)), min(values), max(values), len(values))


def _summarize_workload(
    trial: TrialRecord, workload: Workload, series: Sequence[Series], all_phases: Sequence[Phase]
) -> WorkloadSummary:
    measured = [
        requests
        for (of, role, _), requests in repetitions(trial.requests).items()
        if of == workload and role == "measure"
    ]
    kind = PhaseKind.PREFILL if workload.kind == "pp" else PhaseKind.DECODE
    own_phases = [phase for phase in all_phases if phase.kind is kind and phase.workload == workload.name]
    intervals = [(phase.begin_ns, phase.end_ns) for phase in own_phases]
    order = [device.name for device in trial.devices]
    busy_counters = sorted(
        (one for one in series if one.counter in BUSY_COUNTERS),
        key=lambda one: order.index(one.device) if one.device in order else len(order),
    )
    rates = _values(workload.kind, measured)
    return WorkloadSummary(
        workload=workload,
        rate=spread(rates),
        ttft_ms=spread(_values("ttft", measured)),
        parallelism=(
            None if serialized(trial.spec, workload) else parallelism(device_counters(trial, series), intervals)
        ),
        busy_frac={one.device: mean_share(one, intervals) for one in busy_counters},
        gpus=gpu_figures(trial.devices, series, [_stretch(trial, workload, phase) for phase in own_phases]),
        rates=tuple(rates),
    )


def _stretch(trial: TrialRecord, workload: Workload, phase: Phase) -> Stretch:
    requests = repetitions(trial.requests)[workload, "measure", phase.repetition]
    whole = all(request.status is RequestStatus.OK for request in requests)
    return Stretch(phase.begin_ns, phase.end_ns, sum(tokens_done(one, phase) for one in requests) if whole else 0)


def _values(metric: str, measured: Iterable[Sequence[RequestRecord]]) -> list[float]:
    values = (METRICS[metric].compute(requests) for requests in measured)
    return [value for value in values if value is not None]


def repetitions(
    requests: Iterable[RequestRecord],
) -> dict[tuple[Workload, str, int], list[RequestRecord]]:
    """Return requests by workload, role and repetition: one list has the streams that ran at the same time."""
    grouped: dict[tuple[Workload, str, int], list[RequestRecord]] = defaultdict(list)
    for request in requests:
        grouped[request.workload, request.role, request.repetition].append(request)
    return grouped
