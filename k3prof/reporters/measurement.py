"""How a sweep was measured: resolution, warm-up, repetitions, and how well the sampler kept its deadlines."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from k3prof.core.idle import CONFIDENCE
from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import RequestStatus, TrialRecord
from k3prof.reporters import formats

Facts = tuple[tuple[str, str], ...]
"""Names and values, in the order to show them."""

_BUSY = {
    Counter.CPU_TIME_NS: "processor time of each process, read every {period}",
    Counter.BUSY_TIME_NS: "time in which something ran there, summed from each begin and end, to {period}",
    Counter.BUSY_FRAC: "the driver's utilisation counter, each reading a mean over {period}",
}


def measurement(trials: Sequence[TrialRecord], series: Sequence[Series]) -> Facts:
    """Return how the trials were measured, from their requests and from all series taken while they ran."""
    return (
        *_resolutions(series),
        ("warm-up", _warm_up(trials)),
        ("repetitions", _repetitions(trials)),
        ("requests that do not count", _uncounted(trials)),
        ("sampler lateness", _lateness(series)),
        ("readings that failed", _read_errors(series)),
        (
            "interval of P",
            f"{CONFIDENCE * 100:.0f} % Student t over blocks of three counter periods and at least one second, three "
            "where a counter averages over a window; whole percents widen it by -0.005 and +0.01 per device",
        ),
        ("rates", "from the server's own counts and milliseconds: n / ms in prefill, (n - 1) / ms in decode"),
    )


def _resolutions(series: Sequence[Series]) -> Facts:
    found: dict[tuple[Counter, int], dict[str, None]] = {}
    for one in series:
        if one.counter in _BUSY:
            found.setdefault((one.counter, one.period_ns), {})[one.device] = None
    if not found:
        return (("busy share", formats.UNKNOWN),)
    return tuple(
        (f"busy share of {', '.join(devices)}", _BUSY[counter].format(period=formats.resolution(period_ns)))
        for (counter, period_ns), devices in found.items()
    )


def _warm_up(trials: Sequence[TrialRecord]) -> str:
    counts = sorted({sum(request.role == "warmup" for request in trial.requests) for trial in trials if trial.requests})
    if not counts:
        return formats.UNKNOWN
    if len(counts) == 1:
        return f"{formats.count(counts[0], 'request')} in each trial, not counted"
    return f"{counts[0]} to {formats.count(counts[-1], 'request')} in a trial, until a plateau; not counted"


def _repetitions(trials: Sequence[TrialRecord]) -> str:
    counts = sorted({trial.spec.repeat for trial in trials})
    return " or ".join(str(count) for count in counts) + " of each workload asked for" if counts else formats.UNKNOWN


def _uncounted(trials: Sequence[TrialRecord]) -> str:
    reasons: dict[str, int] = {}
    for trial in trials:
        for request in trial.requests:
            if request.role == "measure" and request.status is not RequestStatus.OK:
                reason = f"{request.status} ({request.reason})" if request.reason else str(request.status)
                reasons[reason] = reasons.get(reason, 0) + 1
    return ", ".join(f"{count} {reason}" for reason, count in reasons.items()) or "none"


def _lateness(series: Sequence[Series]) -> str:
    readings = [one.value for one in series if one.counter is Counter.LATENESS_NS and one.value.size]
    if not readings:
        return formats.UNKNOWN
    late_ns = np.concatenate(readings)
    middle_ns, high_ns = np.quantile(late_ns, [0.5, 0.99])
    texts = [f"{value / 1e6:.2f} ms" for value in (middle_ns, high_ns, late_ns.max())]
    return f"median {texts[0]}, 99 % within {texts[1]}, at most {texts[2]} ({late_ns.size:,} readings)"


def _read_errors(series: Sequence[Series]) -> str:
    totals = [one.value[-1] for one in series if one.counter is Counter.READ_ERRORS and one.value.size]
    return f"{round(sum(totals)):,}" if totals else formats.UNKNOWN
