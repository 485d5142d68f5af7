"""Whether a request's figures can be true. Those that cannot are kept, marked, and left out of every mean."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from k3prof.core.trial import RequestRecord, RequestStatus

_CLOCK_TOLERANCE = 1.05
_CLOCK_SLACK_MS = 20.0
_LEAST_SHARE_OF_OBSERVED = 0.5


def judge(request: RequestRecord) -> RequestRecord:
    """Return the request, marked as implausible with its reason when its figures contradict what was asked or seen."""
    if request.status is not RequestStatus.OK:
        return request
    reason = _contradiction(request)
    return replace(request, status=RequestStatus.IMPLAUSIBLE, reason=reason) if reason else request


def failed_requests(requests: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Return the requests that do not count."""
    return [request for request in requests if request.status is not RequestStatus.OK]


def _contradiction(request: RequestRecord) -> str:
    asked, timings = request.workload, request.timings
    prompt_asked = asked.depth + (asked.tokens if asked.kind == "pp" else 1)
    if timings.cache_n:
        return f"{timings.cache_n} of {prompt_asked} prompt tokens came from a cache"
    if timings.prompt_n is not None and timings.prompt_n != prompt_asked:
        return f"the server processed {timings.prompt_n} prompt tokens, asked were {prompt_asked}"
    predicted_asked = asked.tokens if asked.kind == "tg" else 1
    if timings.predicted_n is not None and timings.predicted_n != predicted_asked:
        return f"the server generated {timings.predicted_n} tokens, asked were {predicted_asked}"
    wall_ms = (request.ended_ns - request.sent_ns) / 1e6
    server_ms = (timings.prompt_ms or 0.0) + (timings.predicted_ms or 0.0)
    if server_ms > wall_ms * _CLOCK_TOLERANCE + _CLOCK_SLACK_MS:
        return f"the server claims {server_ms:.0f} ms, the whole request took {wall_ms:.0f} ms"
    if asked.kind == "tg" and timings.predicted_ms is not None and request.arrivals_ns.size > 1:
        seen_ms = float(request.arrivals_ns[-1] - request.arrivals_ns[0]) / 1e6
        if timings.predicted_ms < seen_ms * _LEAST_SHARE_OF_OBSERVED - _CLOCK_SLACK_MS:
            return f"the server claims {timings.predicted_ms:.0f} ms for tokens that arrived over {seen_ms:.0f} ms"
    return ""
