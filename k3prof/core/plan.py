"""Which trials are still to be run, and when the figures of a warming-up server have settled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from k3prof.core.trial import RequestStatus, TrialRecord, TrialSpec, TrialStatus, Workload

PLATEAU_WINDOW = 3
PLATEAU_FRAC = 0.05
MOST_WARMUPS = 8
WARMUP_BUDGET_S = 20.0
_WARMUP_TOKENS = 32


def remaining(spec: TrialSpec, done: Iterable[TrialRecord], retry_failed: bool = False) -> TrialSpec | None:
    """Return what is left to do of a trial, given the trials of the same configuration that the trace holds.

    A workload is done when one finished trial measured it as often as asked. A configuration that failed by itself
    (out of memory, a refused flag) is done too, unless failures are to be tried again; one that was interrupted is not.

    Returns:
        The spec with the workloads that are left, or None when nothing is.
    """
    finished = [trial for trial in done if trial.outcome.status is not TrialStatus.INTERRUPTED]
    bad = (TrialStatus.FAILED, TrialStatus.VOID)
    if finished and finished[-1].outcome.status in bad:
        asked = {workload for trial in finished for workload in trial.spec.workloads}
        left = tuple(one for one in spec.workloads if retry_failed or one not in asked)
    else:
        left = tuple(one for one in spec.workloads if not any(_measured(trial, one) >= spec.repeat for trial in done))
    return replace(spec, workloads=left) if left else None


def _measured(trial: TrialRecord, workload: Workload) -> int:
    """Return how many whole repetitions of a workload a trial holds; a killed one may hold some."""
    streams = Counter(
        request.repetition
        for request in trial.requests
        if request.workload == workload and request.role == "measure" and request.status is RequestStatus.OK
    )
    return sum(count == workload.streams for count in streams.values())


def warmup_workload(workload: Workload) -> Workload:
    """Return what to warm up with: the same kind and streams, shorter decode, no depth."""
    tokens = min(workload.tokens, _WARMUP_TOKENS) if workload.kind == "tg" else workload.tokens
    return replace(workload, tokens=tokens, depth=0)


def has_plateaued(rates: Sequence[float]) -> bool:
    """Return whether the last three rates lie within 5 % of their median."""
    if len(rates) < PLATEAU_WINDOW:
        return False
    last = np.array(rates[-PLATEAU_WINDOW:])
    return bool(np.abs(last / np.median(last) - 1).max() <= PLATEAU_FRAC)


def seconds_left(durations_s: Sequence[float], trials_left: int) -> float | None:
    """Return the time that the remaining trials will take at the mean pace so far; None before the first has ended."""
    return float(np.mean(durations_s)) * trials_left if durations_s else None
