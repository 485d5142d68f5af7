from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.refutation.effort import expected_seconds, total_seconds
from k3prof.core.refutation.gather import Leg
from k3prof.core.refutation.leg import LegPlace
from tests.core.refutation.test_gather import leg

S = 1_000_000_000


def timed(number: int, position: int, placement: str, begin_s: float, end_s: float | None) -> Leg:
    one = leg(position + 1, LegPlace(number, position, placement))
    trial = replace(one.measured.trial, started_ns=int(begin_s * S), ended_ns=None if end_s is None else int(end_s * S))
    return replace(one, measured=replace(one.measured, trial=trial))


LEGS = [
    timed(0, 0, "even", 0, 10),
    timed(0, 1, "host", 15, 35),  # five seconds for something else between the legs
    timed(1, 0, "host", 90_000, 90_030),  # a day later
    timed(1, 1, "even", 90_030, None),
]


def test_rounds_take_from_their_first_start_to_their_last_end_and_pauses_between_them_cost_nothing() -> None:
    assert total_seconds(LEGS) == pytest.approx(35 + 30)


def test_a_leg_to_come_takes_as_long_as_those_of_its_placement_did() -> None:
    assert expected_seconds(["even", "host"], LEGS) == pytest.approx(10 + 25)


def test_a_placement_that_has_not_run_takes_as_long_as_all_did() -> None:
    assert expected_seconds(["both"], LEGS) == pytest.approx(20)


def test_nothing_is_expected_before_the_first_leg_has_ended() -> None:
    assert expected_seconds(["even"], []) is None
    assert expected_seconds(["even"], LEGS[3:]) is None
