from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.imported import RecordedClock, busy_time, is_imported
from k3prof.core.spans import NO_SPANS
from k3prof.core.timeline import busy_share
from k3prof.errors import ConfigError
from tests.doubles.imported_runs import LOCAL, S, gpus, traced
from tests.doubles.trials import stand_in_trial

UNKNOWN, TIMED = RecordedClock(), RecordedClock(LOCAL)
DATED = RecordedClock(LOCAL, has_date=True)
ZONED = RecordedClock(LOCAL, has_date=True, unix_ns=int(LOCAL.replace(tzinfo=UTC).timestamp()) * S)


@pytest.mark.parametrize(
    ("clock", "text", "expected_s"),
    [
        (UNKNOWN, "12.5", 12.5),
        (DATED, "0", 0),
        (TIMED, "14:03:01", 1),
        (TIMED, "14:03:01.25", 1.25),
        (TIMED, "14:02:59", 86_399),
        (DATED, " 14:04:00 ", 60),
        (DATED, "2026-07-24 14:04:00", 60),
        (DATED, "2026/07/24 14:04:00.123", 60.123),
        (DATED, "20260724 14:04:00", 60),
        (DATED, "2026-07-24T14:02:59", -1),
        (ZONED, "2026-07-24T14:04:00Z", 60),
        (ZONED, "2026-07-24T16:04:00+02:00", 60),
    ],
)
def test_times_may_be_written_as_the_recording_writes_them_or_as_seconds(clock, text, expected_s):
    assert clock.time_ns(text) == round(expected_s * 1e9)


@pytest.mark.parametrize(
    ("clock", "text"),
    [
        (DATED, "noon"),
        (DATED, ""),
        (DATED, "25:00:00"),
        (DATED, "2026-13-01 00:00:00"),
        (UNKNOWN, "14:03:00"),
        (UNKNOWN, "2026-07-24 14:03:00"),
        (TIMED, "2026-07-24 14:03:00"),
        (DATED, "2026-07-24T14:03:00Z"),
    ],
)
def test_a_time_that_the_recording_cannot_place_is_refused_with_a_way_to_write_it(clock, text):
    with pytest.raises(ConfigError) as caught:
        clock.time_ns(text)
    assert "write" in caught.value.hint


@given(st.integers(0, 10**6))
def test_a_shown_time_is_understood_again(seconds):
    for clock in (DATED, replace(DATED, has_date=False)):
        shown = clock.shown(seconds * S)
        assert clock.time_ns(shown) == (seconds if clock.has_date else seconds % 86_400) * S


def test_times_are_shown_as_the_recording_writes_them():
    assert UNKNOWN.shown(12_340_000_000) == "12.3 s"
    assert TIMED.shown(60 * S) == "14:04:00"
    assert DATED.shown(60 * S) == "2026-07-24 14:04:00"
    assert ZONED.shown(60 * S) == "2026-07-24 14:04:00 UTC"


def test_busy_time_rises_while_something_runs_and_rests_otherwise():
    run = traced([("GPU0", 10, 20), ("GPU0", 15, 30), ("GPU1", 50, 60)])
    first, second = run.series
    assert (first.time_ns.tolist(), first.value.tolist()) == ([10, 30, 60], [0, 20, 20])
    assert (second.time_ns.tolist(), second.value.tolist()) == ([10, 50, 60], [0, 0, 10])
    assert busy_share(first, 20, 40) == 0.5
    assert busy_share(second, 10, 60) == 0.2


def test_a_device_on_which_nothing_ran_was_idle_all_the_time():
    (one,) = busy_time(NO_SPANS, gpus(1), 5, 25)
    assert (one.time_ns.tolist(), one.value.tolist()) == ([5, 25], [0, 0])


@given(st.lists(st.tuples(st.integers(0, 500), st.integers(0, 50)), min_size=1, max_size=30), st.data())
def test_every_difference_of_busy_time_is_exact(pairs, data):
    run = traced([("GPU0", at, at + length) for at, length in pairs], devices=1)
    begin, end = sorted(data.draw(st.tuples(*[st.integers(run.begin_ns, run.end_ns)] * 2)))
    busy = np.zeros(600, bool)
    for at, length in pairs:
        busy[at : at + length] = True
    share = busy_share(run.series[0], begin, end)
    if end > begin:
        assert share * (end - begin) == pytest.approx(busy[begin:end].sum(), abs=1e-9)


def test_only_imported_trials_are_called_so():
    trial, _ = stand_in_trial()
    assert not is_imported(trial.spec)
    assert is_imported(replace(trial.spec, build="imported:nsys"))


def test_a_clock_counts_microseconds_exactly_over_decades():
    late = DATED.local + timedelta(days=20_000, microseconds=1)
    assert DATED.time_ns(late.isoformat(" ")) == (20_000 * 86_400 * S) + 1_000
    assert datetime.fromisoformat(DATED.shown(20_000 * 86_400 * S)) == LOCAL + timedelta(days=20_000)
