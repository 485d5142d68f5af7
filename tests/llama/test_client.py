from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3prof.core.trial import RequestRecord, RequestStatus, Workload
from k3prof.llama.client import Client
from tests.doubles.completion_server import Answer, begin_stream, completion_server, event, final, partial, send

TG3 = Workload("tg", 3)
TIMINGS = {"prompt_n": 1, "prompt_ms": 2.0, "predicted_n": 3, "predicted_ms": 4.0, "cache_n": 0}


def ask(answer: Answer, workload: Workload = TG3, patience_s: float = 5.0) -> list[RequestRecord]:
    with completion_server(answer) as url:
        return Client(url, patience_s).run(workload, "measure", 0)


def streaming(*events: str) -> Answer:
    def answer(handler: BaseHTTPRequestHandler, _: dict) -> None:
        begin_stream(handler)
        for one in events:
            event(handler, one)

    return answer


def test_a_stream_yields_arrivals_token_counts_and_the_servers_timings() -> None:
    (record,) = ask(streaming(partial(1), partial(2), partial(3), final(**TIMINGS)))
    assert record.status is RequestStatus.OK
    assert record.tokens.tolist() == [1, 1, 1]
    assert record.sent_ns < record.arrivals_ns[0] <= record.arrivals_ns[-1] <= record.ended_ns
    assert (record.timings.predicted_n, record.timings.predicted_ms, record.timings.prompt_n) == (3, 4.0, 1)


def test_tokens_held_back_inside_a_character_are_counted_when_they_come() -> None:
    (record,) = ask(streaming(partial(1), partial(3), final(**TIMINGS)))
    assert record.tokens.tolist() == [1, 2]


def test_progress_reports_are_no_tokens() -> None:
    progress = '{"content": "", "stop": false, "tokens_predicted": 0, "tokens": [0], "prompt_progress": {"total": 9}}'
    (record,) = ask(streaming(progress, progress, partial(1), final(**{**TIMINGS, "predicted_n": 1})))
    assert record.tokens.tolist() == [1]


def test_timings_that_are_missing_or_no_numbers_are_unknown() -> None:
    (record,) = ask(streaming(partial(1), final(predicted_n=1, predicted_ms="fast", prompt_ms=None, prompt_n=True)))
    assert record.status is RequestStatus.OK
    assert record.timings.predicted_ms is record.timings.prompt_ms is record.timings.prompt_n is None


@pytest.mark.parametrize(
    ("answer", "status", "reason"),
    [
        (streaming(partial(1), partial(2)), RequestStatus.CUT, "without its final event"),
        (streaming(partial(1), "{nonsense"), RequestStatus.CUT, "JSONDecodeError"),
        (streaming("[1, 2]"), RequestStatus.CUT, "no object"),
        (streaming('{"error": {"message": "slot on fire"}}'), RequestStatus.CUT, "slot on fire"),
        (lambda h, _: send(h, "<html>524</html>", "text/html", 524), RequestStatus.REFUSED, "HTTP 524: <html>"),
        (lambda h, _: send(h, "<html>hello</html>", "text/html"), RequestStatus.CUT, "SSEError"),
        (
            lambda h, _: send(h, '{"error": {"message": "context exceeded"}}', "application/json", 400),
            RequestStatus.REFUSED,
            "HTTP 400: context exceeded",
        ),
        (lambda h, _: h.connection.close(), RequestStatus.CUT, "Error"),
    ],
)
def test_what_goes_wrong_is_the_requests_outcome_with_its_reason(
    answer: Answer, status: RequestStatus, reason: str
) -> None:
    (record,) = ask(answer)
    assert record.status is status
    assert reason in record.reason


def test_a_server_that_falls_silent_is_cut_after_the_patience_and_not_before_its_tokens() -> None:
    release = threading.Event()

    def silent(handler: BaseHTTPRequestHandler, _: dict) -> None:
        begin_stream(handler)
        event(handler, partial(1))
        release.wait(10)

    try:
        (record,) = ask(silent, patience_s=0.3)
    finally:
        release.set()
    assert record.status is RequestStatus.CUT
    assert "no token and no progress for 0" in record.reason
    assert record.tokens.tolist() == [1]


def test_a_slow_stream_outlasts_the_patience_as_long_as_tokens_come() -> None:
    def slow(handler: BaseHTTPRequestHandler, _: dict) -> None:
        begin_stream(handler)
        for count in range(1, 5):
            threading.Event().wait(0.2)
            event(handler, partial(count))
        event(handler, final(**TIMINGS))

    (record,) = ask(slow, patience_s=0.5)
    assert record.status is RequestStatus.OK


def test_a_failing_tokenizer_is_the_requests_outcome() -> None:
    with completion_server(streaming(), tokens=lambda _: {"tokens": []}) as url:
        records = Client(url, 1.0).run(Workload("tg", 3, streams=2), "measure", 0)
    assert [one.status for one in records] == [RequestStatus.REFUSED] * 2
    assert "tokenizer" in records[0].reason


def test_a_server_that_is_not_there_is_the_requests_outcome() -> None:
    (record,) = Client("http://127.0.0.1:9", 1.0).run(TG3, "measure", 0)
    assert record.status is RequestStatus.REFUSED


def test_every_stream_and_repetition_asks_something_else_of_the_exact_length() -> None:
    prompts: list[tuple[int, ...]] = []

    def answer(handler: BaseHTTPRequestHandler, body: dict) -> None:
        prompts.append(tuple(body["prompt"]))
        begin_stream(handler)
        event(handler, final(**TIMINGS))

    with completion_server(answer) as url:
        client = Client(url, 5.0)
        for repetition in range(3):
            client.run(Workload("pp", 200, depth=50, streams=4), "measure", repetition)
    assert {len(prompt) for prompt in prompts} == {250}
    assert len({prompt[:40] for prompt in prompts}) == len(prompts) == 12


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.text(st.characters(exclude_characters="\r\n"), max_size=30), max_size=4))
def test_no_stream_whatever_it_holds_raises(events: list[str]) -> None:
    (record,) = ask(streaming(*(one.encode(errors="replace").decode() for one in events)))
    assert record.status in RequestStatus
    assert bool(record.reason) == (record.status is not RequestStatus.OK)
