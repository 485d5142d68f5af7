from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from k3prof.core.refutation.evidence import Grade
from k3prof.core.refutation.figures import FormulaError
from k3prof.core.refutation.formula import parse_formula
from k3prof.core.refutation.hypothesis import Band
from k3prof.core.refutation.published import (
    Check,
    Finding,
    Published,
    PublishedHypothesis,
    Reading,
    Scatter,
    Spread,
    Tolerance,
)
from k3prof.core.refutation.published_checks import decimals, recompute, stated_decimals
from k3prof.core.refutation.published_verdicts import judge_claim, judge_evidence
from k3prof.core.refutation.verdict import Magnitude, Ruling


def check(stated, formula, *, digits=None, rounded=(), tolerance=None, **more) -> Check:
    numbers = stated if isinstance(stated, tuple) else (stated,)
    allowed = (
        Tolerance(tolerance)
        if tolerance
        else Tolerance.of_digits(stated_decimals(numbers) if digits is None else digits)
    )
    return Check(
        name="a number",
        stated=numbers,
        unit="",
        because="arithmetic",
        formula=formula and parse_formula(formula),
        tolerance=allowed,
        rounded=tuple(map(parse_formula, rounded)),
        **more,
    )


def claim(value=None, *, arms=None, predict=(1.1, 2.0), smallest=1.05, corrected=(), **more) -> PublishedHypothesis:
    return PublishedHypothesis(
        id="claim",
        claim="it is so",
        because="it follows",
        predict=Band(*predict),
        smallest=smallest,
        value=value and parse_formula(value),
        arms=arms and (parse_formula(arms[0]), parse_formula(arms[1])),
        corrected=tuple(Reading(name, parse_formula(formula)) for name, formula in corrected),
        **more,
    )


def judged(hypothesis, data=None, **checks):
    return judge_claim(hypothesis, data or {}, checks)


@pytest.mark.parametrize(("number", "digits"), [(1.77, 2), (7.0, 0), (0.1, 1), (1e20, 0), (1e-7, 7), (-0.25, 2)])
def test_the_digits_of_a_number_are_those_it_is_written_with(number, digits):
    assert decimals(number) == digits


def test_a_list_shows_its_trailing_zeros_by_its_neighbours():
    assert stated_decimals([0.347, 0.22, 0.157]) == 3


@pytest.mark.parametrize(
    ("stated", "recomputed", "agrees"),
    [
        (1.77, "9.85 / 5.56", True),
        (1.77, "1.7649", False),
        (1.77, "1.7651", True),
        (7, "7.49", True),
        (7, "6.5", True),
        (7, "7.51", False),
        (51.6, "206.6 / 4", True),  # 51.65, a half of the last digit: it may be rounded either way
        (51.7, "206.6 / 4", True),
        (-34, "(149.8 / 228.6 - 1) * 100", True),
    ],
)
def test_a_number_is_confirmed_when_it_is_the_value_rounded_to_its_digits(stated, recomputed, agrees):
    found = recompute(check(stated, recomputed), {})
    assert found.finding is (Finding.CONFIRMED if agrees else Finding.WRONG)


def test_digits_tell_of_zeros_that_toml_does_not():
    assert recompute(check(29, "28.6"), {}).finding is Finding.CONFIRMED
    assert recompute(check(29, "28.6", digits=1), {}).finding is Finding.WRONG
    assert recompute(check(660, "657.8", digits=-1), {}).finding is Finding.CONFIRMED
    assert recompute(check(660, "652.5", digits=-1), {}).finding is Finding.WRONG


def test_a_tolerance_stands_for_a_number_that_is_called_approximate():
    assert recompute(check(85, "83.7", tolerance=2.5), {}).finding is Finding.CONFIRMED
    assert recompute(check(85, "82.4", tolerance=2.5), {}).finding is Finding.WRONG


def test_the_rounding_of_what_it_is_computed_from_is_no_error():
    plain = recompute(check(1.814, "0.44 / tg / 3600 * 1e6"), {"tg": 67.4})
    allowed = recompute(check(1.814, "0.44 / tg / 3600 * 1e6", rounded=["tg"]), {"tg": 67.4})
    assert plain.finding is Finding.WRONG
    assert allowed.finding is Finding.CONFIRMED
    (number,) = allowed.numbers
    assert not number.plainly
    assert (number.low, number.high) == pytest.approx((0.44 / 67.45 / 3600 * 1e6, 0.44 / 67.35 / 3600 * 1e6))


def test_the_rounding_of_a_list_within_tables_is_that_of_each_number():
    data = {"ladder": [{"tg": [67.4, 206.6]}]}
    found = recompute(check((67.44, 206.56), "ladder[0].tg", rounded=["ladder[0].tg"]), data)
    assert found.finding is Finding.CONFIRMED
    assert data == {"ladder": [{"tg": [67.4, 206.6]}]}


def test_one_wrong_number_of_a_list_makes_it_wrong_and_is_the_worst():
    found = recompute(check((2.0, 5.0, 6.0), "x * 2"), {"x": [1, 2, 3]})
    assert found.finding is Finding.WRONG
    assert [number.agrees for number in found.numbers] == [True, False, True]
    assert found.worst is found.numbers[1]
    assert found.worst.excess_frac == pytest.approx(0.25)


def test_a_number_whose_figures_were_not_published_cannot_be_recomputed():
    told = recompute(check(28, None, missing="the two rates"), {})
    assert (told.finding, told.missing, told.numbers) == (Finding.UNKNOWN, "the two rates", ())
    absent = recompute(check(28, "rates.on / rates.off"), {"rates": {"off": 1}})
    assert absent.finding is Finding.UNKNOWN
    assert absent.missing.startswith("there is no rates.on")


def test_another_number_of_values_than_stated_is_an_error_of_the_file():
    with pytest.raises(FormulaError, match="gives 1 numbers, and 2 are stated"):
        recompute(check((1.0, 2.0), "3"), {})


@given(st.floats(0, 1e6), st.integers(0, 6), st.sampled_from([-1, 1]))
def test_a_value_confirms_its_own_rounding_and_no_number_a_digit_away(value, digits, side):
    stated, unit = round(value, digits), 10.0**-digits
    away = stated + 1.51 * unit * side
    assert recompute(check(stated, repr(value), digits=digits), {}).finding is Finding.CONFIRMED
    assert recompute(check(away, repr(value), digits=digits), {}).finding is Finding.WRONG


# 1.1 / 0.9 = 1.2222…: what a ratio of two figures that may be off by 10 % each may itself be off by.
def test_two_single_figures_decide_nothing_that_their_scatter_could_explain():
    found = judged(claim(arms=("off", "on")), {"off": 2.6, "on": 3.0})
    assert found.ruling is Ruling.INCONCLUSIVE
    assert found.grade is Grade.UNREPLICATED
    estimate = found.as_published.estimate
    assert estimate.value == pytest.approx(1.153846154)
    assert (estimate.low, estimate.high) == pytest.approx((0.944055944, 1.410256410))
    assert estimate.counts == (1, 1)
    assert "assumed, not measured (n = 1 and 1)" in found.reasons[0]


@pytest.mark.parametrize(
    ("predict", "ratio", "ruling"),
    [
        ((1.6, 2.0), 1.28, Ruling.REFUTED),  # 1.28 × 1.2222 = 1.564
        ((1.6, 2.0), 1.32, Ruling.INCONCLUSIVE),  # 1.613
        ((1.6, 2.0), 1.95, Ruling.INCONCLUSIVE),  # 1.595
        ((1.6, 2.0), 1.96, Ruling.SUPPORTED),  # 1.604
        ((1.6, 2.0), 5.0, Ruling.SUPPORTED),
        ((0.0, 0.5), 0.40, Ruling.SUPPORTED),  # 0.489
        ((0.0, 0.5), 0.42, Ruling.INCONCLUSIVE),  # 0.344 to 0.513
        ((0.0, 0.5), 0.62, Ruling.REFUTED),  # 0.507
        ((0.8, 1.25), 1.0, Ruling.SUPPORTED),  # 0.818 to 1.222
        ((0.8, 1.25), 1.05, Ruling.INCONCLUSIVE),
        ((0.8, 1.25), 1.54, Ruling.REFUTED),  # 1.26
    ],
)
def test_the_whole_interval_has_to_bear_a_ruling_out(predict, ratio, ruling):
    assert judged(claim("ratio", predict=predict), {"ratio": ratio}).ruling is ruling


@pytest.mark.parametrize(
    ("predict", "value", "ruling"),
    [
        ((0.6, math.inf), 0.67, Ruling.SUPPORTED),  # / 1.1 = 0.609
        ((0.6, math.inf), 0.65, Ruling.INCONCLUSIVE),
        ((0.6, math.inf), 0.53, Ruling.REFUTED),  # / 0.9 = 0.589
        ((-math.inf, 1.1), 0.98, Ruling.SUPPORTED),  # 1.089
        ((-math.inf, 1.1), 1.22, Ruling.REFUTED),  # 1.109
        ((-math.inf, 1.1), 1.0, Ruling.INCONCLUSIVE),
    ],
)
def test_a_single_figure_is_judged_by_its_threshold(predict, value, ruling):
    assert judged(claim("value", predict=predict, smallest=None), {"value": value}).ruling is ruling


def test_a_declared_scatter_takes_the_place_of_the_default():
    wide, narrow = claim("1.2", predict=(1.1, 2)), claim("1.2", predict=(1.1, 2), scatter=Scatter(0.02, "five runs"))
    assert judged(wide).ruling is Ruling.INCONCLUSIVE
    assert judged(narrow).ruling is Ruling.SUPPORTED
    assert "up to 2 % either way is assumed" in judged(narrow).as_published.rule


def test_three_repetitions_of_each_arm_are_judged_by_welch():
    off, on = [10.0, 10.2, 9.9], [12.1, 12.0, 12.4, 12.3]
    found = judged(claim(arms=("off", "on"), predict=(1.1, 2)), {"off": off, "on": on})
    oracle = stats.ttest_ind([math.log(x) for x in on], [math.log(x) for x in off], equal_var=False)
    interval = oracle.confidence_interval(0.90)
    estimate = found.as_published.estimate
    assert estimate.spread is Spread.WELCH
    assert (estimate.low, estimate.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.ruling is Ruling.SUPPORTED
    assert found.grade is Grade.UNREPLICATED
    assert "not paired in blocks" in found.as_published.rule


def test_two_repetitions_are_not_enough_to_know_their_scatter():
    found = judged(claim(arms=("off", "on"), predict=(0.8, 1.25)), {"off": [7.33, 7.35], "on": [7.32, 7.33, 7.34]})
    assert found.as_published.estimate.spread is Spread.ASSUMED
    assert found.as_published.estimate.counts == (2, 3)


def test_repetitions_of_one_figure_are_judged_by_student():
    six = [555.96, 598.49, 579.65, 567.95, 575.66, 570.69]
    found = judged(claim("tg", predict=(500, math.inf), smallest=None), {"tg": six})
    interval = stats.ttest_1samp(six, 0).confidence_interval(0.90)
    assert (found.as_published.estimate.low, found.as_published.estimate.high) == pytest.approx(tuple(interval))
    assert found.ruling is Ruling.SUPPORTED


def test_repetitions_that_agree_to_the_last_digit_decide_nothing():
    found = judged(claim(arms=("[7, 7, 7]", "[14, 14, 14]")))
    assert found.ruling is Ruling.INCONCLUSIVE
    assert "to the last digit" in found.reasons[0]


def test_tests_of_one_file_share_the_rate_of_error():
    data = {"off": [10.0, 10.4, 9.7], "on": [11.9, 12.6, 11.4]}
    one = claim(arms=("off", "on"))
    alone, among = (judge_claim(one, data, {}, tests).as_published.estimate for tests in (1, 10))
    assert (alone.low, alone.high) == (among.low, among.high)
    assert alone.decisive == (alone.low, alone.high)
    assert among.decisive[0] < alone.decisive[0] < alone.decisive[1] < among.decisive[1]
    published = Published("", "", Scatter(), data, (), tuple(dataclasses.replace(one, id=str(n)) for n in range(10)))
    assert {verdict.as_published.estimate for verdict in judge_evidence(published).verdicts} == {among}


def test_what_rests_on_a_wrong_number_is_inconclusive_and_judged_again_with_the_right_one():
    wrong = recompute(dataclasses.replace(check(7, "66"), name="bytes per token"), {})
    hypothesis = claim(
        "7 / 100",
        predict=(0.6, math.inf),
        smallest=None,
        rests_on=("bytes per token",),
        corrected=[("Q4_K", "38 / 100"), ("Q8_0", "68 / 100")],
    )
    found = judge_claim(hypothesis, {}, {"bytes per token": wrong})
    assert found.ruling is Ruling.INCONCLUSIVE
    assert found.reasons == ("rests on “bytes per token”, which is wrong",)
    assert found.as_published.ruling is Ruling.REFUTED
    assert [(one.name, one.ruling) for one in found.corrected] == [
        ("Q4_K", Ruling.REFUTED),
        ("Q8_0", Ruling.SUPPORTED),
    ]


def test_what_rests_on_a_confirmed_number_stands():
    right = recompute(check(7, "7"), {})
    assert judge_claim(claim("2", rests_on=("a",)), {}, {"a": right}).ruling is Ruling.SUPPORTED
    unknown = recompute(check(7, None, missing="all"), {})
    found = judge_claim(claim("2", rests_on=("a",)), {}, {"a": unknown})
    assert (found.ruling, found.reasons) == (
        Ruling.INCONCLUSIVE,
        ("rests on “a number”, which cannot be recomputed",),
    )


def test_an_obstacle_leaves_the_figures_shown_and_nothing_decided():
    found = judged(claim("5", obstacle="nobody knows whether it was on"))
    assert found.ruling is Ruling.INCONCLUSIVE
    assert found.as_published.ruling is Ruling.SUPPORTED
    assert found.reasons == ("nobody knows whether it was on",)


def test_without_figures_there_is_no_evidence():
    for hypothesis in (claim(obstacle="counts were not published"), claim("absent")):
        found = judged(hypothesis)
        assert (found.ruling, found.grade, found.as_published.estimate) == (Ruling.INCONCLUSIVE, Grade.NONE, None)
        assert found.reasons


@pytest.mark.parametrize(
    ("ratio", "predict", "magnitude"),
    [
        (1.00, (1.6, 2.0), Magnitude.NO_EFFECT),
        (1.28, (1.6, 2.0), Magnitude.SMALLER),
        (1.80, (1.6, 2.0), Magnitude.AS_PREDICTED),
        (3.00, (1.6, 2.0), Magnitude.LARGER),
        (0.50, (1.6, 2.0), Magnitude.OPPOSITE),
        (1.59, (1.6, 2.0), None),
        (0.80, (0.0, 0.9), Magnitude.AS_PREDICTED),
        (0.40, (0.5, 0.8), Magnitude.LARGER),
        (0.88, (0.5, 0.8), Magnitude.SMALLER),
        (2.00, (0.5, 0.8), Magnitude.OPPOSITE),
    ],
)
def test_the_size_of_an_effect_is_told_by_its_whole_interval(ratio, predict, magnitude):
    found = judged(claim("ratio", predict=predict, scatter=Scatter(0.01)), {"ratio": ratio})
    assert found.as_published.magnitude is magnitude


def test_a_ratio_of_what_is_not_above_zero_is_an_error_of_the_file():
    with pytest.raises(FormulaError, match="above 0"):
        judged(claim(arms=("0", "1")))


@given(st.floats(-0.99, 0.99), st.floats(0.001, 0.5), st.floats(1.06, 5))
def test_no_figure_within_its_scatter_of_the_edge_is_decided(place, frac, edge):
    ratio = edge * ((1 + frac) / (1 - frac)) ** place
    found = judged(claim("ratio", predict=(edge, 10), scatter=Scatter(frac)), {"ratio": ratio})
    assert found.ruling is Ruling.INCONCLUSIVE


def test_what_is_wrong_stands_in_order_of_how_far_it_is_off():
    checks = tuple(dataclasses.replace(check(stated, "10"), name=str(stated)) for stated in (11, 5, 10, 30))
    report = judge_evidence(Published("", "", Scatter(), {}, checks, ()))
    assert [result.check.name for result in report.found(Finding.WRONG)] == ["30", "5", "11"]
    assert [result.check.name for result in report.found(Finding.CONFIRMED)] == ["10"]
