from __future__ import annotations

from dataclasses import replace
from datetime import UTC, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.imported import RecordedClock
from k3prof.core.imported_request import end_of_reply, placed_request
from k3prof.core.summary import phases
from k3prof.core.timeline import PhaseKind
from k3prof.core.trial import ServerTimings, Workload
from k3prof.errors import ConfigError
from tests.doubles.imported_runs import LOCAL, S, sampled
from tests.doubles.trials import stand_in_trial

TIMINGS = ServerTimings(prompt_n=4096, prompt_ms=30_000.0, predicted_n=121, predicted_ms=60_000.0, cache_n=7)


def recording(seconds: int, clock: RecordedClock | None = None):
    return sampled([[0.5] * (seconds + 1)] * 2, clock)


def created(local_offset_s: float, zone: timedelta) -> int:
    """Return the date in a reply that was made so many seconds into a recording of that zone."""
    return int((LOCAL - zone + timedelta(seconds=local_offset_s)).replace(tzinfo=UTC).timestamp())


def test_prefill_and_decode_follow_each_other_from_where_the_request_began():
    request = placed_request(recording(100), TIMINGS, 5 * S, None)
    assert request.workload == Workload("tg", 121, 4103)
    assert (request.sent_ns, request.arrivals_ns.tolist(), request.ended_ns) == (5 * S, [35 * S, 95 * S], 95 * S)
    assert request.tokens.tolist() == [1, 120]
    assert request.timings == TIMINGS


def test_the_end_places_it_as_well():
    assert placed_request(recording(100), TIMINGS, None, 95 * S).sent_ns == 5 * S


def test_one_generated_token_is_a_prefill_alone():
    request = placed_request(recording(100), ServerTimings(512, 10_000.0, 1, 0.01), 5 * S, None)
    assert request.workload == Workload("pp", 512)
    assert request.arrivals_ns.tolist() == [15 * S]


def test_its_phases_are_those_that_a_trial_of_our_own_has():
    trial = replace(
        stand_in_trial()[0], ready_ns=None, requests=(placed_request(recording(100), TIMINGS, 5 * S, None),)
    )
    assert [(one.kind, one.begin_ns, one.end_ns) for one in phases(trial)] == [
        (PhaseKind.PREFILL, 5 * S, 35 * S),
        (PhaseKind.DECODE, 35 * S, 95 * S),
    ]


@pytest.mark.parametrize(("begin_s", "end_s"), [(20, None), (None, 89), (None, 200)])
def test_a_request_that_reaches_out_of_the_recording_is_refused(begin_s, end_s):
    begin_ns, end_ns = (None if one is None else one * S for one in (begin_s, end_s))
    with pytest.raises(ConfigError, match="the recording from 2026-07-24 14:03:00 to 2026-07-24 14:04:40"):
        placed_request(recording(100), TIMINGS, begin_ns, end_ns)


@pytest.mark.parametrize("lacking", [{"prompt_ms": None}, {"predicted_ms": None}, {"prompt_n": None}, {"prompt_n": 0}])
def test_an_account_without_its_parts_is_refused(lacking):
    given_timings = ServerTimings(
        **({"prompt_n": 5, "prompt_ms": 1.0, "predicted_n": 5, "predicted_ms": 1.0} | lacking)
    )
    with pytest.raises(ConfigError, match="timings lack"):
        placed_request(recording(100), given_timings, 0, None)


@given(st.integers(-48, 56), st.integers(92, 99))
def test_the_date_in_a_reply_finds_its_place_and_with_it_the_zone(quarters, offset_s):
    zone = timedelta(minutes=15) * quarters
    end_ns = end_of_reply(recording(100), TIMINGS, created(offset_s, zone))
    assert end_ns == offset_s * S + S // 2
    timed = recording(100, RecordedClock(LOCAL))
    assert end_of_reply(timed, TIMINGS, created(offset_s, zone)) == end_ns


def test_a_known_zone_is_not_searched_for():
    clock = RecordedClock(LOCAL, has_date=True, unix_ns=int(LOCAL.replace(tzinfo=UTC).timestamp()) * S)
    assert end_of_reply(recording(100, clock), TIMINGS, created(95, timedelta(0))) == 95 * S + S // 2


def test_a_recording_of_hours_fits_in_several_ways_and_a_far_date_in_none():
    with pytest.raises(ConfigError, match="in 8 ways"):
        end_of_reply(recording(7200), TIMINGS, created(3600, timedelta(0)))
    with pytest.raises(ConfigError, match="in no way") as caught:
        end_of_reply(recording(100), TIMINGS, created(95 + 450, timedelta(0)))
    assert "--from" in caught.value.hint


@pytest.mark.parametrize(("clock", "date"), [(None, None), (RecordedClock(), 1_784_901_780)])
def test_without_a_date_or_times_it_has_to_be_said_when(clock, date):
    with pytest.raises(ConfigError, match="not known when") as caught:
        end_of_reply(recording(100, clock), TIMINGS, date)
    assert "--from" in caught.value.hint
