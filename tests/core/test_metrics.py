from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.metrics import METRICS
from k3prof.core.trial import RequestRecord, RequestStatus, ServerTimings, Workload

MS = 1_000_000


def request(
    workload: str = "tg5",
    arrivals_ms: tuple[float, ...] = (10, 20, 30, 40, 50),
    tokens: tuple[int, ...] | None = None,
    sent_ms: float = 0,
    status: RequestStatus = RequestStatus.OK,
    **timings: float,
) -> RequestRecord:
    return RequestRecord(
        workload=Workload.parse(workload),
        role="measure",
        repetition=0,
        stream=0,
        sent_ns=int(sent_ms * MS),
        arrivals_ns=(np.array(arrivals_ms) * MS).astype(np.int64),
        tokens=np.array(tokens or [1] * len(arrivals_ms), np.int64),
        ended_ns=int(max(arrivals_ms, default=sent_ms) * MS),
        timings=ServerTimings(**timings),  # type: ignore[arg-type]
        status=status,
    )


def value(metric: str, *requests: RequestRecord) -> float | None:
    return METRICS[metric].compute(requests)


def test_a_decode_rate_counts_the_gaps_between_tokens_since_the_clock_starts_with_the_first() -> None:
    # Five tokens, four gaps of 10 ms.
    assert value("tg", request(predicted_n=5, predicted_ms=40.0)) == pytest.approx(100.0)


def test_a_prefill_rate_is_the_servers_tokens_over_its_time() -> None:
    assert value("pp", request("pp512", (700.0,), prompt_n=512, prompt_ms=640.0)) == pytest.approx(800.0)


@pytest.mark.parametrize(
    "timings",
    [
        {},
        {"predicted_n": 5},
        {"predicted_ms": 40.0},
        {"predicted_n": 1, "predicted_ms": 40.0},
        {"predicted_n": 5, "predicted_ms": 0.0},
    ],
)
def test_a_rate_is_unknown_rather_than_infinite_or_guessed(timings: dict[str, float]) -> None:
    assert value("tg", request(**timings)) is None


def test_streams_together_are_counted_while_all_of_them_generate() -> None:
    # Overlap from 20 to 50 ms: the first stream's tokens at 30, 40, 50 and the second's two events of two at 35, 50.
    first = request("tg5 x2", (10, 20, 30, 40, 50))
    second = request("tg5 x2", (20, 35, 50, 65), tokens=(1, 2, 2, 2))
    assert value("tg", first, second) == pytest.approx((3 + 4) / 0.030)


def test_streams_that_never_generate_at_once_have_no_rate_together() -> None:
    assert value("tg", request("tg2 x2", (10, 20)), request("tg2 x2", (30, 40))) is None


def test_the_prefill_of_several_streams_lasts_from_the_first_request_to_the_last_first_token() -> None:
    first = request("pp100 x2", (50,), prompt_n=100, prompt_ms=1.0)
    second = request("pp100 x2", (200,), sent_ms=1, prompt_n=100, prompt_ms=1.0)
    assert value("pp", first, second) == pytest.approx(200 / 0.2)


@pytest.mark.parametrize("metric", list(METRICS))
@pytest.mark.parametrize("status", [one for one in RequestStatus if one is not RequestStatus.OK])
def test_one_request_that_does_not_count_makes_the_repetition_unknown(metric: str, status: RequestStatus) -> None:
    good = request(predicted_n=5, predicted_ms=40.0, prompt_n=1, prompt_ms=1.0)
    assert value(metric, good, request(status=status, predicted_n=5, predicted_ms=40.0)) is None


@pytest.mark.parametrize("metric", list(METRICS))
def test_no_requests_give_no_figure(metric: str) -> None:
    assert value(metric) is None


def test_latencies_are_medians_in_milliseconds() -> None:
    assert value("ttft", request(sent_ms=3), request(arrivals_ms=(11, 12), sent_ms=3)) == pytest.approx(7.5)
    assert value("itl", request(arrivals_ms=(0, 10, 20, 80))) == pytest.approx(10.0)


@given(st.floats(1.01, 100), st.integers(2, 1000), st.floats(0.01, 1e6))
def test_a_server_that_takes_longer_has_a_lower_rate_in_proportion(factor: float, count: int, ms: float) -> None:
    fast = value("tg", request(predicted_n=count, predicted_ms=ms))
    slow = value("tg", request(predicted_n=count, predicted_ms=ms * factor))
    assert fast is not None
    assert slow is not None
    assert fast / slow == pytest.approx(factor)
