from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.refutation.evidence import Block, Evidence, Figure
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.schedule import again, mirrored, most_rounds_left, next_round
from k3prof.core.refutation.verdict import Ruling, Verdict
from k3prof.core.trial import Workload

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


TG, TG4, PP = Workload("tg", 64), Workload("tg", 64, streams=4), Workload("pp", 512)
RULES = Rules(looks=(3, 5))
QUIET = tuple(
    Block(n, (Figure(40.0), Figure(40.0)), (Figure(40.0 * ratio), Figure(40.0 * ratio)))
    for n, ratio in enumerate((1.001, 0.999, 1.002))
)
NOISY = tuple(
    Block(n, (Figure(40.0), Figure(40.0)), (Figure(40.0 * ratio), Figure(40.0 * ratio)))
    for n, ratio in enumerate((1.5, 0.7, 1.3))
)


def waiting(
    test: Comparison | Threshold | Again, again: tuple[Block, ...] = QUIET, *, is_final: bool = False
) -> Verdict:
    hypothesis = Hypothesis("a", "c", "b", "tg", test, RULES)
    return Verdict(hypothesis, Ruling.INCONCLUSIVE, "rule", evidence=Evidence(again=again), is_final=is_final)


def compared(baseline: str, candidate: str, workload: Workload = TG) -> Comparison:
    return Comparison(Arm(baseline, workload), Arm(candidate, workload), Band(1.6, 2.0), 1.1)


BUSY = Threshold(Arm("busy", PP), Band(1.05, float("inf")))


def test_placements_are_run_against_themselves_before_anything_is_compared() -> None:
    planned = next_round([waiting(compared("even", "host"), again=())], [], seed=1)
    assert planned is not None
    assert planned.is_again
    assert planned.placements == ("even",)
    assert {leg.twin for leg in planned.legs} == {True, False}


def test_what_most_comparisons_start_from_is_run_against_itself_with_their_workloads_alone() -> None:
    verdicts = [waiting(compared(*names), again=()) for names in (("a", "b"), ("even", "b"), ("even", "c", PP))]
    planned = next_round([*verdicts, waiting(BUSY)], [], seed=1)
    assert planned is not None
    assert planned.workloads == {"even": (PP, TG)}


def test_a_claim_about_a_placement_against_itself_is_tested_first() -> None:
    planned = next_round([waiting(compared("a", "b"), again=()), waiting(Again(Arm("c", TG), 1.1))], [], seed=1)
    assert planned is not None
    assert planned.placements == ("c",)


def test_all_undecided_hypotheses_share_the_servers_of_a_round() -> None:
    verdicts = [waiting(compared("even", "host")), waiting(compared("even", "uneven", TG4)), waiting(BUSY)]
    planned = next_round(verdicts, [], seed=1)
    assert planned is not None
    assert not planned.is_again
    assert planned.workloads == {"even": (TG, TG4), "host": (TG,), "uneven": (TG4,), "busy": (PP,)}
    assert len(planned.legs) == 8


def test_what_is_decided_is_not_run_any_more() -> None:
    verdicts = [waiting(compared("even", "host"), is_final=True), waiting(BUSY)]
    planned = next_round(verdicts, [], seed=1)
    assert planned is not None
    assert planned.placements == ("busy",)
    assert next_round([waiting(BUSY, is_final=True)], [], seed=1) is None


def test_rounds_are_numbered_on() -> None:
    earlier = [mirrored(["even", "host"], number, 1) for number in range(3)]
    planned = next_round([waiting(compared("even", "host"))], earlier, seed=1)
    assert planned is not None
    assert {leg.round for leg in planned.legs} == {3}


def test_a_machine_that_is_too_noisy_runs_against_itself_until_the_last_look_and_then_gives_up() -> None:
    verdict = waiting(compared("even", "host"), again=NOISY)
    planned = next_round([verdict], [], seed=1)
    assert planned is not None
    assert planned.is_again
    assert next_round([waiting(compared("even", "host"), again=NOISY * 2)], [], seed=1) is None


def test_rounds_that_stay_void_are_not_repeated_for_ever() -> None:
    void = [mirrored(["even", "host"], number, 1) for number in range(2 * RULES.looks[-1])]
    assert next_round([waiting(compared("even", "host"))], void, seed=1) is None
    assert next_round([waiting(compared("even", "host"))], void[:-1], seed=1) is not None


def test_it_is_known_how_many_rounds_there_will_be_at_most() -> None:
    assert most_rounds_left([waiting(BUSY)]) == 5
    assert most_rounds_left([waiting(compared("a", "b"), again=()), waiting(BUSY)]) == 5 + 5
    assert most_rounds_left([waiting(BUSY, is_final=True)]) == 0
