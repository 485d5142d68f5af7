"""The ledgers of a trial: decode of each workload that generates, prefill of each that processes a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k3prof.core.ledger import Ledger, Observed, ledger
from k3prof.core.spans import Spans, SplitMode
from k3prof.core.summary import phases
from k3prof.core.timeline import Phase, PhaseKind
from k3prof.core.trial import RequestRecord, RequestStatus, TrialRecord, Workload


def trial_ledgers(trial: TrialRecord, spans_between: Callable[[int, int], Spans]) -> tuple[Ledger, ...]:
    """Return one ledger per workload that was measured with the split tracer on.

    Args:
        trial: The trial.
        spans_between: Returns the spans that reach into an interval of monotonic nanoseconds.
    """
    if trial.spec.splits is SplitMode.OFF:
        return ()
    devices = [device.name for device in trial.devices]
    found = (ledger(one, devices, _repetitions(trial, one, spans_between)) for one in trial.spec.workloads)
    return tuple(one for one in found if one is not None)


def _repetitions(
    trial: TrialRecord, workload: Workload, spans_between: Callable[[int, int], Spans]
) -> Iterator[Observed]:
    kind = PhaseKind.PREFILL if workload.kind == "pp" else PhaseKind.DECODE
    for phase in phases(trial):
        if phase.kind is not kind or phase.workload != workload.name:
            continue
        requests = [
            one
            for one in trial.requests
            if (one.workload, one.role, one.repetition) == (workload, "measure", phase.repetition)
        ]
        if all(one.status is RequestStatus.OK for one in requests):
            tokens = sum(_tokens(one, phase) for one in requests)
            yield Observed(phase.begin_ns, phase.end_ns, tokens, spans_between(phase.begin_ns, phase.end_ns))


def _tokens(request: RequestRecord, phase: Phase) -> int:
    """Return the tokens that a request got done in a phase; 0 where the server does not tell."""
    if phase.kind is PhaseKind.PREFILL:
        return request.timings.prompt_n or 0
    return int(request.tokens[(request.arrivals_ns > phase.begin_ns) & (request.arrivals_ns <= phase.end_ns)].sum())
