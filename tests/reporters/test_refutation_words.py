from __future__ import annotations

import math
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.refutation.evidence import Block, Figure
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Threshold
from k3prof.core.refutation.verdict import Effect, Magnitude
from k3prof.reporters import refutation_words as words
from tests.doubles.verdicts import TG128, cpu_experts, depth, kernel, threads, turns

ARM = Arm("even", TG128)
POSITIVE = st.floats(1e-3, 1e5)


def hypothesis(test) -> Hypothesis:
    return Hypothesis("x", "a claim", "a reason", "tg", test)


def compared(low: float, high: float) -> Hypothesis:
    return hypothesis(Comparison(ARM, Arm("uneven", TG128), Band(low, high), 1.05))


@pytest.mark.parametrize(
    ("effect", "unit", "text"),
    [
        (Effect(1.0312, 1.0081, 1.0549, 5), "", "1.03 [1.01, 1.05]"),
        (Effect(1.0023, 0.9989, 1.0057, 5), "", "1.002 [0.999, 1.006]"),
        (Effect(0.9652, 0.9473, 0.9834, 5), "", "0.965 [0.947, 0.983]"),
        (Effect(33.31, 32.72, 33.9, 5), "tok/s", "33.3 tok/s [32.7, 33.9]"),
        (Effect(1234.4, 1180.2, 1288.6, 5), "ms", "1,234 ms [1,180, 1,289]"),
        (Effect(0.0704, 0.0689, 0.0718, 3), "", "0.0704 [0.0689, 0.0718]"),
        (Effect(1.281, None, None, 1), "", "1.28, no interval"),
        (Effect(1.5, 1.5, 1.5, 3), "", "1.50 [1.50, 1.50]"),
        (Effect(1.5, 0.0, math.inf, 2), "", "1.50 [0.00, ∞]"),
        (None, "ms", "not measured"),
    ],
)
def test_an_effect_is_written_to_the_digit_that_is_in_doubt(effect, unit, text):
    assert words.effect(effect, unit) == text


@given(POSITIVE, st.floats(1e-6, 0.5))
def test_rounding_moves_no_end_by_more_than_a_tenth_of_the_interval(estimate, part):
    effect = Effect(estimate, estimate * (1 - part), estimate * (1 + part), 4)
    figures = [float(one.replace(",", "")) for one in re.findall(r"[\d.]+(?:,\d{3})*(?:\.\d+)?", words.effect(effect))]
    assert len(figures) == 3
    slack = max(0.26 * part * estimate, 1e-6)
    for shown, true in zip(figures, (effect.estimate, effect.low, effect.high), strict=True):
        assert shown == pytest.approx(true, abs=slack)


@pytest.mark.parametrize(
    ("given_hypothesis", "unit", "text"),
    [
        (compared(1.6, 2.0), "tok/s", "1.6 to 2.0"),
        (compared(1.15, math.inf), "tok/s", "at least 1.15"),
        (compared(0.0, 0.9), "tok/s", "at most 0.9"),
        (compared(-math.inf, 0.9), "tok/s", "at most 0.9"),
        (hypothesis(Threshold(ARM, Band(0.6, math.inf))), "", "at least 0.6"),
        (hypothesis(Threshold(ARM, Band(-math.inf, 12))), "ms", "at most 12 ms"),
        (hypothesis(Again(ARM, 1.05)), "tok/s", "outside 0.952 to 1.05"),
    ],
)
def test_a_prediction_is_written_in_the_metrics_unit_unless_it_is_a_ratio(given_hypothesis, unit, text):
    assert words.prediction(given_hypothesis, unit) == text


@given(POSITIVE, POSITIVE)
def test_a_predicted_band_can_be_read_back(one, other):
    low, high = sorted((one, other))
    ends = [float(end) for end in words.prediction(compared(low, high)).split(" to ")]
    assert ends == pytest.approx([low, high], rel=1e-5)


def test_a_verdict_has_a_sign_and_a_word():
    assert words.verdict(cpu_experts().verdict) == "✗ refuted"
    assert words.verdict(turns().verdict) == "✓ supported"
    assert words.verdict(depth().verdict) == "? inconclusive"


def test_a_verdict_on_single_figures_says_so():
    assert words.verdict(kernel().verdict) == "✗ refuted, unreplicated"
    assert "assumed and not measured" in words.grade(kernel().verdict)


def test_what_is_measured_names_the_workloads_only_apart_where_they_differ():
    assert words.test(cpu_experts().verdict.hypothesis) == "tg of experts-8 / tg of experts-16, in tg128"
    assert words.test(depth().verdict.hypothesis) == "tg of (even, tg128@d4096) / tg of (even, tg128)"


def test_what_would_settle_it_is_told_for_undecided_ones_alone():
    assert words.needed(depth().verdict) == "about 3 more blocks"
    assert words.needed(threads().verdict).startswith("more blocks would not")
    assert words.needed(cpu_experts().verdict) == ""


def test_more_blocks_than_the_rules_allow_are_said_to_be():
    far = replace(depth().verdict, blocks_needed=30)
    assert words.needed(far) == "about 30 more blocks, beyond the 8 that its rules allow"


def test_what_follows_is_that_of_the_verdict_or_both_when_there_is_none():
    assert list(words.consequences(turns().verdict)) == ["more devices hold more, but make no single stream faster"]
    assert list(words.consequences(depth().verdict)) == [
        "if refuted: measure at the depth that you use",
        "if supported: one depth stands for all",
    ]


def test_every_magnitude_has_words():
    texts = {words.magnitude(replace(cpu_experts().verdict, magnitude=one)) for one in Magnitude}
    assert len(texts) == len(Magnitude)
    assert words.magnitude(replace(cpu_experts().verdict, magnitude=None)) == ""


def test_a_block_with_a_figure_that_has_no_logarithm_has_no_ratio():
    nought = (Figure(0.0), Figure(0.0))
    assert words.value(Block(0, (Figure(2.0), Figure(2.0)), nought)) is None
    assert words.value(Block(0, (Figure(2.0), Figure(8.0)), (Figure(4.0), Figure(4.0)))) == pytest.approx(1.0)
    assert words.value(Block(0, nought)) == 0.0
