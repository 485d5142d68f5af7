"""What is computed from one repetition of a workload, and from how many tokens and milliseconds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from k3prof.core.trial import RequestRecord, RequestStatus

Repetition = Sequence[RequestRecord]
"""The requests of one repetition of one workload: one per stream."""


@dataclass(frozen=True)
class Metric:
    """One figure that a repetition yields.

    Attributes:
        name: As hypotheses and JSON name it.
        unit: Unit of the value.
        better: Which way is better.
        about: What it is, in one sentence with its formula.
        compute: The value of one repetition, or None where it was not measured.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"]
    about: str
    compute: Callable[[Repetition], float | None]


def prefill_rate(requests: Repetition) -> float | None:
    """Return prompt tokens per second over all streams.

    One stream: the server's own count and time. Several: all prompt tokens over the time from the first request
    sent to the last first token, since their prefills share the server.
    """
    if not _all_ok(requests):
        return None
    if len(requests) == 1:
        timings = requests[0].timings
        return _per_second(timings.prompt_n, timings.prompt_ms)
    counts = [request.timings.prompt_n for request in requests]
    if any(count is None for count in counts) or not all(request.arrivals_ns.size for request in requests):
        return None
    begin_ns = min(request.sent_ns for request in requests)
    end_ns = max(int(request.arrivals_ns[0]) for request in requests)
    return sum(count for count in counts if count is not None) * 1e9 / (end_ns - begin_ns)


def decode_rate(requests: Repetition) -> float | None:
    """Return generated tokens per second over all streams.

    One stream: (n - 1) / ms by the server's clock, which starts when the first token is there; the same holds for
    builds whose own `predicted_per_second` divides n by those milliseconds and so comes out too high. Several:
    the tokens that arrived while every stream was generating, over that time.
    """
    if not _all_ok(requests):
        return None
    if len(requests) == 1:
        timings = requests[0].timings
        if timings.predicted_n is None or timings.predicted_n < 2:
            return None
        return _per_second(timings.predicted_n - 1, timings.predicted_ms)
    if not all(request.arrivals_ns.size > 1 for request in requests):
        return None
    begin_ns = max(int(request.arrivals_ns[0]) for request in requests)
    end_ns = min(int(request.arrivals_ns[-1]) for request in requests)
    if end_ns <= begin_ns:
        return None
    tokens = sum(
        int(request.tokens[(request.arrivals_ns > begin_ns) & (request.arrivals_ns <= end_ns)].sum())
        for request in requests
    )
    return tokens * 1e9 / (end_ns - begin_ns)


def time_to_first_token_ms(requests: Repetition) -> float | None:
    """Return the median over streams of first arrival minus sending, in milliseconds."""
    if not _all_ok(requests) or not all(request.arrivals_ns.size for request in requests):
        return None
    return float(np.median([(request.arrivals_ns[0] - request.sent_ns) / 1e6 for request in requests]))


def inter_token_latency_ms(requests: Repetition) -> float | None:
    """Return the median gap between successive arrivals of all streams, in milliseconds."""
    if not _all_ok(requests):
        return None
    gaps = np.concatenate([np.diff(request.arrivals_ns) for request in requests])
    return float(np.median(gaps) / 1e6) if gaps.size else None


def _all_ok(requests: Repetition) -> bool:
    return bool(requests) and all(request.status is RequestStatus.OK for request in requests)


def _per_second(count: int | None, ms: float | None) -> float | None:
    if count is None or ms is None or ms <= 0:
        return None
    return count * 1000 / ms


METRICS = {
    metric.name: metric
    for metric in (
        Metric("pp", "tok/s", "higher", "prompt tokens per second", prefill_rate),
        Metric("tg", "tok/s", "higher", "generated tokens per second, all streams together", decode_rate),
        Metric("ttft", "ms", "lower", "time to first token: first arrival minus sending", time_to_first_token_ms),
        Metric("itl", "ms", "lower", "inter-token latency: median gap between arrivals", inter_token_latency_ms),
    )
}
