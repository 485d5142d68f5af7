from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.refutation.schedule import again, mirrored

NAMES = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=8, unique=True)
SEED = st.integers(min_value=0, max_value=2**31)
ROUND = st.integers(min_value=0, max_value=500)


@given(NAMES, ROUND, SEED)
def test_a_round_starts_each_placement_twice_around_its_middle(names: list[str], number: int, seed: int) -> None:
    legs = mirrored(names, number, seed)
    order = [leg.placement for leg in legs]
    assert order == order[::-1]
    assert sorted(order) == sorted(names * 2)
    assert [leg.position for leg in legs] == list(range(2 * len(names)))
    assert {leg.round for leg in legs} == {number}


@given(NAMES, ROUND, SEED, st.floats(-3, 3), st.floats(-100, 100))
def test_a_steady_drift_cancels_between_any_two_placements_of_a_round(
    names: list[str], number: int, seed: int, slope: float, level: float
) -> None:
    drift = {leg.position: level + slope * leg.position for leg in mirrored(names, number, seed)}
    legs = mirrored(names, number, seed)
    mean = {name: sum(drift[leg.position] for leg in legs if leg.placement == name) / 2 for name in names}
    for one, other in itertools.pairwise(names):
        assert mean[one] == pytest.approx(mean[other], abs=1e-9)


def test_the_order_is_drawn_by_lot_and_the_same_lot_gives_the_same_order() -> None:
    def order(number: int, seed: int) -> str:
        return "".join(leg.placement for leg in mirrored("ab", number, seed))

    orders = [order(number, seed=7) for number in range(200)]
    assert set(orders) == {"abba", "baab"}
    assert 70 <= orders.count("abba") <= 130  # binomial, 200 × 1/2: beyond four standard deviations otherwise
    assert orders == [order(number, seed=7) for number in range(200)]
    assert orders != [order(number, seed=8) for number in range(200)]


@given(ROUND, SEED)
def test_a_placement_against_itself_stands_as_abba_or_baab(number: int, seed: int) -> None:
    twins = [leg.twin for leg in again("even", number, seed)]
    assert twins in ([True, False, False, True], [False, True, True, False])
