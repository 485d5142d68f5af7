"""How a leg's figures are computed: speed, parallelism, the ledger, energy, money, shares of ops.

In a trial whose splits were traced, all that does not come from the tracer is taken from the repetitions without it:
the exact mode keeps devices from overlapping, and costs a placement with many splits more than one with few.
"""

from __future__ import annotations

from dataclasses import replace

from k3prof.core.device import DeviceKind
from k3prof.core.idle import ROUNDED_DOWN_FRAC, ROUNDED_UP_FRAC
from k3prof.core.ledger import Ledger, LineKind
from k3prof.core.metrics import METRICS
from k3prof.core.refutation.evidence import Figure
from k3prof.core.refutation.leg import MeasuredLeg
from k3prof.core.spans import SplitMode
from k3prof.core.summary import WorkloadSummary, load_s, repetitions, spread, summarize_trial
from k3prof.core.timeline import Counter
from k3prof.core.trial import RequestStatus, TrialRecord, Workload

_PER_MILLION = 1e6
_SECONDS_PER_HOUR = 3600


def undisturbed(trial: TrialRecord, workload: Workload) -> TrialRecord:
    """Return a trial with no other requests than those whose figures count for a workload.

    These are the measured repetitions that ended well. Of a traced trial they are the ones without the tracer, given
    back as the measured repetitions of an untraced trial.
    """
    role = "measure" if trial.spec.splits is SplitMode.OFF else "untraced"
    counted = [
        replace(request, role="measure")
        for (of, ran_as, _), requests in repetitions(trial.requests).items()
        if (of, ran_as) == (workload, role) and all(one.status is RequestStatus.OK for one in requests)
        for request in requests
    ]
    spec = replace(trial.spec, workloads=(workload,), splits=SplitMode.OFF)
    return replace(trial, spec=spec, requests=tuple(counted))


def of_requests(metric: str, leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return the median over repetitions of one of `METRICS`."""
    requests = repetitions(undisturbed(leg.trial, workload).requests).values()
    values = (METRICS[metric].compute(repetition) for repetition in requests)
    found = spread([value for value in values if value is not None])
    return None if found is None else Figure(found.median)


def rate(leg: MeasuredLeg, workload: Workload) -> float | None:
    """Return the tokens per second that a workload is about: `pp` or `tg`."""
    found = of_requests(workload.kind, leg, workload)
    return None if found is None else found.value


def parallelism(leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return P of all devices but the host in the phase that a workload is about; see `core.idle`."""
    found = _summary(leg, workload).parallelism
    devices = [device for device in leg.trial.devices if device.kind is not DeviceKind.CPU]
    if found is None or len(found.devices) < len(devices):
        return None
    return Figure(found.degree, found.bias_low, found.bias_high)


def busy(device: str, leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return the mean busy share of a device in the phase that a workload is about."""
    share = _summary(leg, workload).busy_frac.get(device)
    if share is None:
        return None
    whole_percents = any(one.device == device and one.counter is Counter.BUSY_FRAC for one in leg.series)
    return Figure(share, ROUNDED_UP_FRAC, ROUNDED_DOWN_FRAC) if whole_percents else Figure(share)


def energy_per_token(leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return the joules of all GPUs together per token, in the phase that a workload is about."""
    gpus = [device.name for device in leg.trial.devices if device.kind is DeviceKind.CUDA]
    energies = [one.energy_j_per_token for one in _summary(leg, workload).gpus if one.device in gpus]
    known = [joules for joules in energies if joules is not None]
    return Figure(sum(known)) if gpus and len(known) == len(gpus) else None


def usd_per_million(leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return what a million tokens cost at the rate of a workload: price per hour / 3600 / (tokens per s) × 10⁶."""
    tokens_per_s = rate(leg, workload)
    if leg.price_per_hour is None or not tokens_per_s:
        return None
    return Figure(leg.price_per_hour / _SECONDS_PER_HOUR / tokens_per_s * _PER_MILLION)


def load_time(leg: MeasuredLeg, workload: Workload) -> Figure | None:  # noqa: ARG001 - every metric takes a workload
    """Return the seconds from the server's start until it answered."""
    seconds = load_s(leg.trial)
    return None if seconds is None else Figure(seconds)


def ledger_share(kind: LineKind, leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return all lines of a kind as a share of a token's time."""
    ledger = _exact_ledger(leg, workload)
    ms = None if ledger is None else ledger.ms(kind)
    return None if ledger is None or ms is None else Figure(ms / ledger.token_ms)


def ledger_ms(kind: LineKind, leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return all lines of a kind in milliseconds of a token."""
    ledger = _exact_ledger(leg, workload)
    ms = None if ledger is None else ledger.ms(kind)
    return None if ms is None else Figure(float(ms))


def op_share(name: str, leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return the share of a decode pass that one part, role or op takes."""
    share = leg.op_shares.get(name) if workload.kind == "tg" else None
    return None if share is None else Figure(share)


def _summary(leg: MeasuredLeg, workload: Workload) -> WorkloadSummary:
    (found,) = summarize_trial(undisturbed(leg.trial, workload), leg.series).workloads
    return found


def _exact_ledger(leg: MeasuredLeg, workload: Workload) -> Ledger | None:
    """Return a workload's ledger, unless its devices' time stands under what is unexplained."""
    ledger = leg.ledger(workload)
    return ledger if ledger is not None and ledger.device_times_known else None
