"""Verdicts as rounds arrive one after the other: what was decided stays decided."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.refutation.evidence import Block, Evidence, Figure
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.judge import judge
from k3prof.core.refutation.verdict import Ruling, Verdict
from k3prof.core.trial import Workload

TG = Workload("tg", 64)
EVEN, HALF = Arm("even", TG), Arm("half", TG)
FASTER = Comparison(EVEN, HALF, Band(1.6, 2.0), 1.1)
SAME_AGAIN = Again(EVEN, 1.1)
SHAPE = (1, -1, 0.4, -0.3, 0.8, -0.9, 0.2, -0.5, 0.6, -0.7, 0.1, -0.1)


def hypothesis(test: Comparison | Threshold | Again, name: str = "a", rules: Rules = Rules()) -> Hypothesis:  # noqa: B008
    return Hypothesis(name, "c", "b", "tg", test, rules)


def block(number: int, log_ratio: float, figure: Figure = Figure(40.0)) -> Block:  # noqa: B008
    other = Figure(figure.value * math.exp(log_ratio), figure.bias_low, figure.bias_high)
    return Block(number, (figure, figure), (other, other))


def blocks(ratio: float, count: int, scatter: float, first: int = 0) -> tuple[Block, ...]:
    return tuple(block(first + n, math.log(ratio) + scatter * SHAPE[n]) for n in range(count))


def levels(*values: float, bias_low: float = 0.0, bias_high: float = 0.0) -> tuple[Block, ...]:
    return tuple(Block(n, (Figure(value, bias_low, bias_high),) * 2) for n, value in enumerate(values))


QUIET = blocks(1.0, 3, 0.004)


def verdict(test: Comparison | Threshold | Again, own: tuple[Block, ...], again: tuple[Block, ...] = QUIET) -> Verdict:
    return judge([(hypothesis(test), Evidence(own, again))])[0]


def test_noise_that_comes_later_takes_no_verdict_back() -> None:
    own = blocks(1.8, 3, 0.004, first=3)
    decided = verdict(FASTER, own)
    assert decided.ruling is Ruling.SUPPORTED
    later = (*QUIET, block(6, 0.3), block(7, -0.3))
    noisier = verdict(FASTER, own, later)
    assert (noisier.ruling, noisier.rule, noisier.effect) == (decided.ruling, decided.rule, decided.effect)


def test_a_placement_that_was_found_to_agree_with_itself_stays_so() -> None:
    before, after = verdict(SAME_AGAIN, QUIET, ()), verdict(SAME_AGAIN, (*QUIET, block(3, 0.3), block(4, -0.3)), ())
    assert before.ruling is after.ruling is Ruling.REFUTED


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_no_round_of_a_whole_session_changes_what_an_earlier_one_decided(seed: int) -> None:
    draw = np.random.default_rng(seed)
    claims = [hypothesis(Comparison(EVEN, HALF, Band(1.2, 1.5), 1.1), f"h{n}") for n in range(4)]
    cases = [*claims, hypothesis(SAME_AGAIN, "again")]
    truths, scatter = draw.normal(math.log(1.2), 0.05, 4), draw.choice([0.01, 0.03])
    own: list[list[Block]] = [[] for _ in cases]
    first: dict[int, Verdict] = {}
    for number in range(18):
        if number < 3 or draw.random() < 0.2:
            own[4].append(block(number, draw.normal(0, scatter * (5 if draw.random() < 0.1 else 1))))
        else:
            for n, truth in enumerate(truths):
                if draw.random() < 0.8:
                    own[n].append(block(number, draw.normal(truth, scatter)))
        again = tuple(own[4])
        evidence = [Evidence(tuple(found), () if n == 4 else again) for n, found in enumerate(own)]
        for n, found in enumerate(judge(list(zip(cases, evidence, strict=True)))):
            if found.ruling is not Ruling.INCONCLUSIVE:
                kept = first.setdefault(n, found)
                assert (kept.ruling, kept.rule, kept.effect) == (found.ruling, found.rule, found.effect)
            else:
                assert n not in first


def test_blocks_that_agree_by_luck_are_not_believed_more_than_a_a_allows() -> None:
    noisy = blocks(1.0, 3, 0.05)
    lucky = blocks(1.68, 3, 0.0005, first=3)
    assert verdict(FASTER, lucky).ruling is Ruling.SUPPORTED
    assert verdict(FASTER, lucky, noisy).ruling is Ruling.INCONCLUSIVE


@pytest.mark.parametrize("bias", [(math.nan, 0.0), (0.0, math.nan)])
def test_a_bias_that_is_no_number_decides_nothing(bias: tuple[float, float]) -> None:
    figure = Figure(40.0, *bias)
    own = tuple(block(3 + n, math.log(1.8) + 0.004 * SHAPE[n], figure) for n in range(3))
    found = verdict(FASTER, own)
    assert found.ruling is Ruling.INCONCLUSIVE
    assert "no number" in found.reasons[0]
    threshold = Threshold(EVEN, Band(0.6, math.inf))
    assert (
        verdict(threshold, levels(0.72, 0.7, 0.71, bias_low=bias[0], bias_high=bias[1])).ruling is Ruling.INCONCLUSIVE
    )


def test_a_bias_as_large_as_its_figure_leaves_the_question_open() -> None:
    slower = Comparison(EVEN, HALF, Band(0.4, 0.6), 1.1)
    own = tuple(Block(3 + n, (Figure(40.0),) * 2, (Figure(10.0 + n / 10, 11.0, 0.0),) * 2) for n in range(3))
    assert verdict(slower, own).ruling in (Ruling.SUPPORTED, Ruling.INCONCLUSIVE)


def test_no_verdict_contradicts_the_interval_that_is_shown_however_large_an_error_is_allowed() -> None:
    loose = hypothesis(FASTER, rules=Rules(alpha=0.2, looks=(3,)))
    for ratio in np.linspace(1.5, 1.8, 61):
        found = judge([(loose, Evidence(blocks(float(ratio), 3, 0.03, first=3), QUIET))])[0]
        assert found.effect is not None
        assert found.effect.low is not None
        assert found.effect.high is not None
        if found.ruling is Ruling.SUPPORTED:
            assert found.effect.low >= 1.6 - 1e-9
        if found.ruling is Ruling.REFUTED:
            assert found.effect.high < 1.6


def test_where_a_bias_hides_the_answer_no_number_of_blocks_is_promised() -> None:
    hidden = verdict(Threshold(EVEN, Band(-math.inf, 1.0)), levels(0.98, 0.981, 0.979, bias_high=0.05))
    assert hidden.ruling is Ruling.INCONCLUSIVE
    assert hidden.blocks_needed is None


def test_the_blocks_still_needed_end_at_a_look() -> None:
    found = verdict(FASTER, blocks(1.68, 4, 0.05, first=3))
    assert found.ruling is Ruling.INCONCLUSIVE
    assert found.blocks_needed is not None
    assert 4 + found.blocks_needed in Rules().looks or found.blocks_needed > 8


@pytest.mark.parametrize("value", [0.0, math.nan, math.inf])
def test_a_figure_that_cannot_be_read_ends_it_at_the_first_look(value: float) -> None:
    bad = Block(3, (Figure(40.0),) * 2, (Figure(value), Figure(40.0)))
    found = verdict(FASTER, (bad, *blocks(1.8, 3, 0.004, first=4)))
    assert found.ruling is Ruling.INCONCLUSIVE
    assert found.is_final


def test_blocks_that_agree_to_the_last_digit_have_no_magnitude() -> None:
    same = tuple(block(3 + n, 0.0) for n in range(3))
    found = verdict(FASTER, same)
    assert found.magnitude is None
    assert not found.is_final
    not_a_number = verdict(Threshold(EVEN, Band(0.6, math.inf)), levels(math.nan, 0.7, 0.71))
    assert not_a_number.effect is None
