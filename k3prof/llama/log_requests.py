"""The requests that a log reports: times, tokens, drafts, and whether the figures can be true."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from k3prof.core.evidence.loaded import LoggedRequest
from k3prof.core.trial import RequestStatus
from k3prof.llama.log_lines import LogLine

_MS = r"(-?(?:\d{1,12}(?:\.\d+)?|nan|inf)) ms"
_PROMPT = re.compile(rf"prompt eval time += +{_MS} / +(-?\d{{1,9}}) tokens")
_PREDICTED = re.compile(
    rf"eval time += +{_MS} / +(-?\d{{1,9}}) (?:runs|tokens) +\( *(-?(?:\d{{1,12}}(?:\.\d+)?|nan|inf)) ms per token"
)
_TOTAL = re.compile(rf"total time += +{_MS}")
_DRAFT = re.compile(r"draft acceptance(?: rate)? += +\S+ \( *(\d{1,9}) accepted / *(\d{1,9}) generated\)")
_IK_GENERATION = re.compile(rf"generation eval time += +{_MS} / +(-?\d{{1,9}}) runs +\( *([\d.]{{1,12}}) ms per token")

_OWNERS = frozenset(
    {"print_timing", "print_timings", "print_timings_", "llama_print_timings", "llama_perf_context_print"}
)
_REPROCESSED = re.compile(r"forcing full prompt re-processing")

_ONE_TOKEN_PREFILL_MS = 10_000.0
_LEAST_MS_PER_TOKEN = 0.02
_LEAST_MS_PER_PROMPT_TOKEN = 0.001
_TOTAL_TOLERANCE = 0.98


def read_requests(lines: Sequence[LogLine]) -> tuple[LoggedRequest, ...]:
    """Return the requests whose timings a log holds, in the order in which they ended.

    Many builds print a request's times without prefix, in the lines after `print_timing`: such lines are read here,
    and only here.
    """
    requests: list[LoggedRequest] = []
    current: LoggedRequest | None = None
    cold = {line.task for line in lines if line.task is not None and _REPROCESSED.search(line.message)}
    for line in _timing_lines(lines):
        if match := _PROMPT.match(line.message):
            if current is not None:
                requests.append(current)
            current = LoggedRequest(line.slot, line.task, int(match[2]), _number(match[1]), cold=line.task in cold)
        elif current is not None:
            current = _add(current, line.message)
    if current is not None:
        requests.append(current)
    return tuple(map(_judge, requests))


def _timing_lines(lines: Iterable[LogLine]) -> Iterable[LogLine]:
    heading: LogLine | None = None
    for line in lines:
        if line.owner in _OWNERS:
            heading = line
            yield line
        elif line.owner and not line.follows:
            heading = None
        elif heading is not None:
            yield replace(line, slot=heading.slot, task=heading.task)


def _add(request: LoggedRequest, message: str) -> LoggedRequest:
    if match := _PREDICTED.match(message) or _IK_GENERATION.match(message):
        predicted_ms, predicted_n = _number(match[1]), int(match[2])
        steps = _steps(predicted_n, predicted_ms, _number(match[3]))
        return replace(request, predicted_n=predicted_n, predicted_ms=predicted_ms, predicted_steps=steps)
    if match := _TOTAL.match(message):
        return replace(request, total_ms=_number(match[1]))
    if match := _DRAFT.match(message):
        return replace(request, draft_n=int(match[2]), draft_n_accepted=int(match[1]))
    return request


def _number(text: str) -> float | None:
    return None if "n" in text else float(text)


def _steps(tokens: int, ms: float | None, ms_per_token: float | None) -> int | None:
    """Return by how many steps the build divides the time: its own ms per token tells."""
    if ms is None or not ms_per_token or tokens < 1:
        return None
    counted = ms / ms_per_token
    return min((tokens, tokens - 1), key=lambda steps: abs(steps - counted))


def _judge(request: LoggedRequest) -> LoggedRequest:
    reasons = (_odd_prompt(request), _odd_generation(request), _odd_total(request))
    reason = next(filter(None, reasons), "")
    return replace(request, status=RequestStatus.IMPLAUSIBLE, reason=reason) if reason else request


def _odd_prompt(request: LoggedRequest) -> str:
    tokens, ms = request.prompt_n, request.prompt_ms
    if tokens is None or ms is None:
        return ""
    if tokens < 0 or ms < 0:
        return "the prompt's figures are negative"
    if tokens == 1 and ms > _ONE_TOKEN_PREFILL_MS:
        return f"one prompt token in {ms / 1e3:.1f} s: the rest of its work is not counted"
    if tokens > 1 and ms / tokens < _LEAST_MS_PER_PROMPT_TOKEN:
        return f"{tokens} prompt tokens in {ms} ms: faster than any device reads a prompt"
    return ""


def _odd_generation(request: LoggedRequest) -> str:
    tokens, ms = request.predicted_n, request.predicted_ms
    if tokens is None or ms is None:
        return ""
    if tokens < 0 or ms < 0:
        return "the generation's figures are negative"
    if tokens > 1 and ms / tokens < _LEAST_MS_PER_TOKEN:
        return f"{tokens} tokens in {ms} ms: faster than any device generates"
    if request.draft_n is not None and (request.draft_n_accepted or 0) > request.draft_n:
        return "more drafted tokens were accepted than were drafted"
    return ""


def _odd_total(request: LoggedRequest) -> str:
    parts_ms = (request.prompt_ms or 0.0) + (request.predicted_ms or 0.0)
    if request.total_ms is None or request.total_ms >= parts_ms * _TOTAL_TOLERANCE - 1.0:
        return ""
    return f"its parts take {parts_ms:.0f} ms, the whole only {request.total_ms:.0f} ms"
