"""The ledgers of a trial: decode of each workload that generates, prefill of each that processes a prompt."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from k3prof.core.ledger import Ledger, Observed, ledger
from k3prof.core.spans import Spans, SplitMode
from k3prof.core.summary import phases, tokens_done
from k3prof.core.timeline import PhaseKind
from k3prof.core.trial import RequestStatus, TrialRecord, Workload


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
            tokens = sum(tokens_done(one, phase) for one in requests)
            yield Observed(phase.begin_ns, phase.end_ns, tokens, spans_between(phase.begin_ns, phase.end_ns))
