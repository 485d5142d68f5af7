from __future__ import annotations

import pytest

from k3prof.core.plausibility import judge
from k3prof.core.trial import RequestRecord, RequestStatus
from tests.core.test_metrics import request

SOUND = {"prompt_n": 1, "prompt_ms": 10.0, "predicted_n": 5, "predicted_ms": 40.0, "cache_n": 0}


def test_figures_that_agree_with_what_was_asked_and_seen_stay_as_they_are() -> None:
    sound = request(**SOUND)
    assert judge(sound) is sound


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (request(**{**SOUND, "cache_n": 4095}), "4095 of 1 prompt tokens came from a cache"),
        (request("pp4096", (900,), prompt_n=1, prompt_ms=4.0, cache_n=4095), "4095 of 4096 prompt tokens"),
        (request(**{**SOUND, "prompt_n": 2}), "processed 2 prompt tokens, asked were 1"),
        (request("tg5@d100", **{**SOUND, "prompt_n": 100}), "asked were 101"),
        (request(**{**SOUND, "predicted_n": 4}), "generated 4 tokens, asked were 5"),
        # One token in 430 s, as a server once claimed of a request that took no time.
        (request("pp1", (50,), prompt_n=1, prompt_ms=429_988.0), "claims 429988 ms, the whole request took 50 ms"),
        # No time at all for tokens that came over four seconds: 95,000 tok/s.
        (request(arrivals_ms=(10, 1010, 2010, 3010, 4010), **{**SOUND, "predicted_ms": 0.001}), "arrived over 4000 ms"),
    ],
)
def test_figures_that_cannot_be_true_are_marked_with_the_contradiction(wrong: RequestRecord, reason: str) -> None:
    judged = judge(wrong)
    assert judged.status is RequestStatus.IMPLAUSIBLE
    assert reason in judged.reason
    assert judged.timings == wrong.timings


def test_unknown_figures_contradict_nothing() -> None:
    assert judge(request()).status is RequestStatus.OK


@pytest.mark.parametrize("status", [RequestStatus.CUT, RequestStatus.REFUSED])
def test_a_request_that_failed_keeps_its_own_reason(status: RequestStatus) -> None:
    failed = request(status=status, **{**SOUND, "cache_n": 9})
    assert judge(failed) is failed
