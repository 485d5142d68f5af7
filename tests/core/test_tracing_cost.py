from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.spans import SplitMode
from k3prof.core.tracing_cost import Arm, arms, cost_caveat, tracing_costs
from k3prof.core.trial import RequestRecord, RequestStatus
from tests.core.test_metrics import request


def repetition(number: int, arm: Arm, token_ms: float, workload: str = "tg5") -> RequestRecord:
    """A generation of five tokens whose four gaps last so long."""
    return replace(request(workload, predicted_n=5, predicted_ms=4 * token_ms), role=arm, repetition=number)


@given(st.integers(1, 20))
def test_each_arm_comes_first_equally_often_and_a_steady_drift_cancels(blocks: int) -> None:
    order = [arm for number in range(2 * blocks) for arm in arms(number, SplitMode.EXACT)]
    places = {arm: sum(place for place, one in enumerate(order) if one == arm) for arm in ("measure", "untraced")}
    assert Counter(order) == {"measure": 2 * blocks, "untraced": 2 * blocks}
    assert places["measure"] == places["untraced"]


def test_without_a_tracer_there_is_one_arm() -> None:
    assert arms(0, SplitMode.OFF) == arms(1, SplitMode.OFF) == ("measure",)


def test_the_cost_is_the_median_over_pairs_of_the_time_that_a_token_takes_more() -> None:
    pairs = [(11.0, 10.0), (10.2, 10.0), (13.0, 10.0)]
    requests = [
        repetition(number, arm, token_ms)
        for number, (traced, untraced) in enumerate(pairs)
        for arm, token_ms in (("measure", traced), ("untraced", untraced))
    ]
    (cost,) = tracing_costs(requests)
    assert cost.extra_frac == pytest.approx(0.10)
    assert (cost.low_frac, cost.high_frac) == pytest.approx((0.02, 0.30))
    assert (cost.traced, cost.untraced) == pytest.approx((1000 / 11, 100.0))
    assert cost.pairs == 3


def test_workloads_have_costs_of_their_own_and_warm_ups_count_in_none() -> None:
    requests = [
        replace(repetition(0, "measure", 50.0), role="warmup"),
        repetition(0, "measure", 11.0),
        repetition(0, "untraced", 10.0),
        repetition(0, "measure", 24.0, "tg5@d100"),
        repetition(0, "untraced", 20.0, "tg5@d100"),
    ]
    assert {cost.workload.name: cost.extra_frac for cost in tracing_costs(requests)} == {
        "tg5": pytest.approx(0.1),
        "tg5@d100": pytest.approx(0.2),
    }


@pytest.mark.parametrize("gone", ["measure", "untraced"])
def test_a_repetition_that_one_arm_did_not_finish_is_no_pair(gone: Arm) -> None:
    requests = [repetition(number, arm, 10.0) for number in (0, 1) for arm in ("measure", "untraced")]
    requests = [
        replace(one, status=RequestStatus.CUT) if (one.repetition, one.role) == (1, gone) else one for one in requests
    ]
    assert [cost.pairs for cost in tracing_costs(requests)] == [1]
    assert tracing_costs([one for one in requests if one.role != gone]) == []


def test_the_caveat_names_the_figures_and_what_waiting_does() -> None:
    requests = [repetition(0, "measure", 12.5), repetition(0, "untraced", 10.0)]
    caveat = cost_caveat(SplitMode.EXACT, tracing_costs(requests))
    assert caveat is not None
    assert "tg5 +25.0 % (+25.0 to +25.0 % over 1 pair: 80 against 100 tok/s)" in caveat.message
    assert "devices cannot overlap" in caveat.message
    light = cost_caveat(SplitMode.LIGHT, tracing_costs(requests))
    assert light is not None
    assert "overlap" not in light.message
    assert cost_caveat(SplitMode.EXACT, []) is None
