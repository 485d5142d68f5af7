from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.bench.ratio import Block, Ratio, from_logs, interleaved, paired_ratio, ratio


def test_blocks_run_both_arms_in_mirrored_orders() -> None:
    ran: list[str] = []

    def arm(name: str) -> Callable[[], float]:
        def run() -> float:
            ran.append(name)
            return float(len(ran))

        return run

    blocks = interleaved(2, arm("a"), arm("b"))
    assert "".join(ran) == "abbabaab"
    assert blocks == [Block(a=(1, 4), b=(2, 3)), Block(a=(6, 7), b=(5, 8))]


@given(st.floats(0.5, 2), st.floats(0.9, 1.1), st.integers(2, 6))
def test_a_machine_that_steadily_slows_down_does_not_pass_for_a_difference(
    true_ratio: float, drift: float, count: int
) -> None:
    pace = 1.0

    def reading(speed: float) -> float:
        nonlocal pace
        pace *= drift
        return speed * pace

    found = ratio(interleaved(count, lambda: reading(true_ratio), lambda: reading(1.0)))
    assert found.value == pytest.approx(true_ratio)
    assert found.high - found.low == pytest.approx(0, abs=1e-6)


def test_the_interval_is_students_on_the_log_ratios() -> None:
    # Four blocks: mean 0.02, standard deviation 0.01; t(0.95, 3) = 2.353 (any printed table).
    logs = [0.02 + 0.01 * sign * math.sqrt(3 / 4) for sign in (-1, -1, 1, 1)]
    found = from_logs(logs)
    half_width = 2.353 * 0.01 / math.sqrt(4)
    assert math.log(found.low) == pytest.approx(0.02 - half_width, rel=1e-3)
    assert math.log(found.high) == pytest.approx(0.02 + half_width, rel=1e-3)
    assert found.blocks == 4


def test_pairs_are_compared_pair_by_pair() -> None:
    assert paired_ratio([(2, 1), (200, 100), (0.02, 0.01)]).value == pytest.approx(2)


@pytest.mark.parametrize(("low", "high", "answer"), [(0.992, 1.01, True), (0.97, 0.98, False), (0.98, 1.0, None)])
def test_an_interval_across_the_bound_decides_nothing(low: float, high: float, answer: bool | None) -> None:
    assert Ratio(0.99, low, high, 8).at_least(0.99) is answer


def test_two_blocks_that_happen_to_agree_decide_nothing() -> None:
    assert Ratio(0.995, 0.994, 0.996, 2).at_least(0.99) is None
