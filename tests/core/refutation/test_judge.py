from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nct, t
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_paired

from k3prof.core.refutation import stats
from k3prof.core.refutation.evidence import Block, Evidence, Figure, Grade
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.judge import judge, planned_blocks
from k3prof.core.refutation.verdict import Magnitude, Ruling, Verdict
from k3prof.core.trial import Workload
from tests.calibrate.rates import ALL, Rate
from tests.calibrate.simulated import NOISES, comparison, normal
from tests.calibrate.simulated import blocks as simulated_blocks

ONE_LOOK = Rules(alpha=0.05, looks=(4,))
TG = Workload("tg", 64)
NOISE = (0.01, -0.004, 0.006, -0.012, 0.003, 0.009, -0.007, 0.002, 0.011, -0.005, 0.004, -0.001)


def pairs(*ratios: float, level: float = 40.0) -> tuple[Block, ...]:
    """Blocks with these ratios, on a machine whose level moves from block to block."""
    found = []
    for number, ratio in enumerate(ratios):
        base = level * (1 + 0.1 * number)
        found.append(Block(number, (Figure(base), Figure(base)), (Figure(base * ratio), Figure(base * ratio))))
    return tuple(found)


def around(ratio: float, count: int) -> tuple[Block, ...]:
    return pairs(*(ratio * math.exp(NOISE[number % len(NOISE)]) for number in range(count)))


QUIET = around(1.0, 3)


def verdict(test: Comparison | Threshold | Again, *, rules: Rules = ONE_LOOK, **evidence: object) -> Verdict:
    hypothesis = Hypothesis("a", "a claim", "a reason", "tg", test, rules)
    found = {"again": around(1.0, rules.looks[-1]), **evidence}
    return judge([(hypothesis, Evidence(**found))])[0]  # type: ignore[arg-type]


def ratio_test(low: float, high: float, smallest: float = 1.1) -> Comparison:
    return Comparison(Arm("even", TG), Arm("half", TG), Band(low, high), smallest)


@pytest.mark.parametrize(
    ("predict", "measured", "ruling", "magnitude"),
    [
        ((1.6, 2.0), 1.8, Ruling.SUPPORTED, Magnitude.AS_PREDICTED),
        ((1.6, 2.0), 2.4, Ruling.SUPPORTED, Magnitude.LARGER),
        ((1.6, math.inf), 9.0, Ruling.SUPPORTED, Magnitude.AS_PREDICTED),
        ((1.6, 2.0), 1.3, Ruling.REFUTED, Magnitude.SMALLER),
        ((1.6, 2.0), 1.0, Ruling.REFUTED, Magnitude.NO_EFFECT),
        ((1.6, 2.0), 0.6, Ruling.REFUTED, Magnitude.OPPOSITE),
        ((0.4, 0.6), 0.5, Ruling.SUPPORTED, Magnitude.AS_PREDICTED),
        ((0.4, 0.6), 0.3, Ruling.SUPPORTED, Magnitude.LARGER),
        ((0.0, 0.6), 0.1, Ruling.SUPPORTED, Magnitude.AS_PREDICTED),
        ((0.4, 0.6), 0.8, Ruling.REFUTED, Magnitude.SMALLER),
        ((0.4, 0.6), 1.0, Ruling.REFUTED, Magnitude.NO_EFFECT),
        ((0.4, 0.6), 1.5, Ruling.REFUTED, Magnitude.OPPOSITE),
        ((0.9, 1.1), 1.0, Ruling.SUPPORTED, Magnitude.NO_EFFECT),
        ((0.9, 1.1), 1.3, Ruling.REFUTED, None),
        ((0.9, 1.1), 0.7, Ruling.REFUTED, None),
        ((1.6, 2.0), 1.6, Ruling.INCONCLUSIVE, None),
        ((0.4, 0.6), 0.6, Ruling.INCONCLUSIVE, None),
        ((0.9, 1.1), 1.1, Ruling.INCONCLUSIVE, None),
    ],
)
def test_a_comparison_is_judged_by_where_its_interval_lies(
    predict: tuple[float, float], measured: float, ruling: Ruling, magnitude: Magnitude | None
) -> None:
    found = verdict(ratio_test(*predict), blocks=around(measured, 4))
    assert (found.ruling, found.magnitude) == (ruling, magnitude)
    assert found.effect is not None
    assert found.effect.estimate == pytest.approx(measured, rel=0.01)
    assert found.grade is Grade.REPLICATED
    assert found.is_final


@pytest.mark.parametrize(
    ("band", "level", "ruling"),
    [
        (Band(0.6, math.inf), 0.7, Ruling.SUPPORTED),
        (Band(0.6, math.inf), 0.5, Ruling.REFUTED),
        (Band(-math.inf, 1.1), 0.9, Ruling.SUPPORTED),
        (Band(-math.inf, 1.1), 1.3, Ruling.REFUTED),
        (Band(0.6, math.inf), 0.6, Ruling.INCONCLUSIVE),
    ],
)
def test_a_threshold_is_judged_by_where_its_level_lies(band: Band, level: float, ruling: Ruling) -> None:
    blocks = tuple(Block(n, (Figure(level + d), Figure(level - d / 3))) for n, d in enumerate(NOISE[:4]))
    found = verdict(Threshold(Arm("even", TG), band), blocks=blocks, again=())
    assert found.ruling is ruling
    assert found.magnitude is None


def test_what_no_repetition_averages_out_widens_a_threshold_s_interval() -> None:
    test = Threshold(Arm("even", TG), Band(-math.inf, 1.0))

    def level(bias: float) -> Ruling:
        blocks = tuple(Block(n, (Figure(0.98 + d / 10, 0, bias),) * 2) for n, d in enumerate(NOISE[:4]))
        return verdict(test, blocks=blocks, again=()).ruling

    assert level(0.0) is Ruling.SUPPORTED
    assert level(0.05) is Ruling.INCONCLUSIVE


@pytest.mark.parametrize("noise", NOISES)
def test_a_placement_against_itself_never_supports_anything(noise: str) -> None:
    draw = np.random.default_rng(5)
    hypothesis = Hypothesis("a", "c", "b", "tg", Again(Arm("even", TG), 1.02))
    for effect in (1.0, 1.3, 0.5):
        for _ in range(100):
            blocks = tuple(simulated_blocks(draw, NOISES[noise], effect, 3))
            found = judge([(hypothesis, Evidence(blocks=blocks))])[0]
            assert found.ruling is not Ruling.SUPPORTED
            if found.ruling is Ruling.REFUTED:
                assert found.magnitude is Magnitude.NO_EFFECT


def test_a_quiet_machine_finds_no_difference_between_a_placement_and_itself() -> None:
    found = verdict(Again(Arm("even", TG), 1.1), blocks=around(1.0, 4))
    assert (found.ruling, found.magnitude, found.is_final) == (Ruling.REFUTED, Magnitude.NO_EFFECT, True)


@pytest.mark.parametrize(
    ("evidence", "said", "is_final"),
    [
        ({"blocks": ()}, "not measured yet", False),
        ({"blocks": around(1.8, 3)}, "3 of the 4 blocks", False),
        ({"blocks": around(1.8, 4), "again": around(1.0, 3)}, "against itself so far: 3;", False),
        ({"blocks": around(1.8, 4), "again": pairs(1.3, 0.8, 1.2, 0.9)}, "more than the", True),
        ({"blocks": pairs(1.8, 1.8, 1.8, 1.8)}, "agree to the last digit", True),
        ({"blocks": around(1.8, 4)[:3] + pairs(0.0)}, "has no ratio", True),
        ({"blocks": around(1.8, 4)[:3] + pairs(math.nan)}, "no number", True),
        ({"obstacle": "confounded by the phase of the moon"}, "phase of the moon", True),
    ],
)
def test_what_cannot_be_judged_is_inconclusive_with_its_reason(
    evidence: dict[str, object], said: str, is_final: bool
) -> None:
    found = verdict(ratio_test(1.6, 2.0), **evidence)
    assert found.ruling is Ruling.INCONCLUSIVE
    assert said in " ".join(found.reasons)
    assert found.is_final is is_final


def test_an_undecided_verdict_says_how_many_blocks_it_would_take() -> None:
    rules = Rules(looks=(4, 12))
    near = verdict(ratio_test(1.6, 2.0), rules=rules, blocks=around(1.61, 4))
    far = verdict(ratio_test(1.6, 2.0), rules=rules, blocks=around(1.605, 4))
    assert near.ruling is far.ruling is Ruling.INCONCLUSIVE
    assert not near.is_final
    assert near.blocks_needed is not None
    assert far.blocks_needed is not None
    assert near.blocks_needed < far.blocks_needed


BASES = st.lists(st.floats(1, 1e3), min_size=4, max_size=4)
RATIOS = st.lists(st.floats(0.2, 5), min_size=4, max_size=4, unique=True)
PREDICT = st.floats(1.11, 3)


@given(BASES, PREDICT)
def test_identical_data_is_never_refuted(bases: list[float], low: float) -> None:
    blocks = tuple(Block(n, (Figure(base), Figure(base)), (Figure(base), Figure(base))) for n, base in enumerate(bases))
    assert verdict(ratio_test(low, low + 1), blocks=blocks).ruling is Ruling.INCONCLUSIVE


@given(RATIOS)
def test_swapping_the_arms_inverts_the_ratio_and_its_interval(ratios: list[float]) -> None:
    there = stats.of_log_ratios(pairs(*ratios))
    back = stats.of_log_ratios(tuple(Block(b.round, b.candidate, b.baseline) for b in pairs(*ratios)))  # type: ignore[arg-type]
    assert there.interval is not None
    assert back.interval is not None
    assert (back.interval.low, back.interval.high) == pytest.approx((-there.interval.high, -there.interval.low))


@given(RATIOS, st.floats(1e-6, 1e6), PREDICT)
def test_another_unit_changes_nothing(ratios: list[float], factor: float, low: float) -> None:
    one = verdict(ratio_test(low, low + 1), blocks=pairs(*ratios))
    other = verdict(ratio_test(low, low + 1), blocks=pairs(*ratios, level=40 * factor))
    assert one.ruling is other.ruling
    assert one.effect is not None
    assert other.effect is not None
    assert other.effect.estimate == pytest.approx(one.effect.estimate)


@given(st.floats(-3, 3), st.sampled_from(["abba", "baab"]), st.floats(0.3, 3))
def test_a_steady_drift_of_any_size_cancels(slope: float, order: str, ratio: float) -> None:
    legs = {"a": [], "b": []}  # type: dict[str, list[Figure]]
    for position, arm in enumerate(order):
        legs[arm].append(Figure((ratio if arm == "b" else 1.0) * math.exp(slope * position)))
    block = Block(0, tuple(legs["a"]), tuple(legs["b"]))  # type: ignore[arg-type]
    assert block.log_ratio == pytest.approx(math.log(ratio), abs=1e-9)


@given(RATIOS, RATIOS, st.floats(1.02, 1.5))
def test_no_effect_is_judged_as_statsmodels_does(ratios: list[float], base: list[float], margin: float) -> None:
    blocks = tuple(Block(n, (Figure(b),) * 2, (Figure(b * r),) * 2) for n, (b, r) in enumerate(zip(base, ratios)))  # noqa: B905
    ours = stats.of_log_ratios(blocks).p_within(Band(-math.log(margin), math.log(margin)))
    candidate = np.array(base) * np.array(ratios)
    theirs, *_ = ttost_paired(candidate, np.array(base), 1 / margin, margin, transform=np.log)
    assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-12)


@given(st.lists(st.floats(1e-6, 0.2), min_size=1, max_size=9))
def test_a_set_is_corrected_as_statsmodels_does(p_values: list[float]) -> None:
    ours = {key for key, _ in stats.holm({n: p / 0.05 for n, p in enumerate(p_values)}, len(p_values))}
    theirs, *_ = multipletests(p_values, alpha=0.05, method="holm")
    assert ours == set(np.flatnonzero(theirs))


@settings(max_examples=50)
@given(st.integers(0, 2**32 - 1), st.floats(0.8, 2.5))
def test_a_verdict_that_a_look_decided_is_not_changed_by_later_blocks(seed: int, effect: float) -> None:
    rules = Rules(looks=(3, 5, 8, 12))
    claim = comparison(1.2, 1.5, smallest=1.1, rules=rules)
    blocks = tuple(simulated_blocks(np.random.default_rng(seed), normal, effect, 12))
    rulings = []
    for count in range(13):
        found = judge([(claim, Evidence(blocks=blocks[:count], again=QUIET))])[0]
        rulings.append(found.ruling)
    decided = [ruling for ruling in rulings if ruling is not Ruling.INCONCLUSIVE]
    assert rulings[-len(decided) :] == decided if decided else True
    assert len(set(decided)) <= 1
    assert all(ruling is Ruling.INCONCLUSIVE for ruling in rulings[:3])
    changes = [count for count in range(1, 13) if rulings[count] is not rulings[count - 1]]
    assert set(changes) <= set(rules.looks)


def test_more_claims_in_a_set_need_more_evidence_for_each() -> None:
    rules = Rules(looks=(4,))
    alone = comparison(1.2, 1.5, smallest=1.1, rules=rules)
    evidence = Evidence(blocks=around(1.2155, 4), again=around(1.0, 4))
    others = [
        (
            comparison(1.2, 1.5, smallest=1.1, rules=rules, name=f"o{n}"),
            dataclasses.replace(evidence, blocks=around(1.2, 4)),
        )
        for n in range(9)
    ]
    assert judge([(alone, evidence)])[0].ruling is Ruling.SUPPORTED
    assert judge([(alone, evidence), *others])[0].ruling is Ruling.INCONCLUSIVE


def test_a_claim_that_cannot_be_tested_costs_the_others_nothing() -> None:
    rules = Rules(looks=(4,))
    alone = comparison(1.2, 1.5, smallest=1.1, rules=rules)
    evidence = Evidence(blocks=around(1.2155, 4), again=around(1.0, 4))
    hopeless = [(comparison(1.2, 1.5, rules=rules, name=f"o{n}"), Evidence(obstacle="confounded")) for n in range(9)]
    assert judge([(alone, evidence), *hopeless])[0].ruling is Ruling.SUPPORTED


def test_fewer_blocks_are_planned_for_a_larger_effect_and_a_quieter_machine() -> None:
    draw = np.random.default_rng(0)
    noisy = simulated_blocks(draw, normal, 1.0, 40)
    large, small = comparison(1.1, 2.0, smallest=1.1), comparison(1.1, 1.13, smallest=1.1)
    assert planned_blocks(large, noisy, 6) == 3
    wanted = planned_blocks(small, noisy, 6)
    assert wanted is None or wanted > 3


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("measure", ALL, ids=lambda measure: measure.__name__)
def test_errors_on_simulated_truth_stay_within_their_rates(noise: str, measure: object) -> None:
    rates: list[Rate] = measure(noise, 250, seed=11)  # type: ignore[operator]
    assert rates
    for rate in rates:
        assert not rate.is_broken, f"{rate.what} under {noise} noise: {rate.hits} of {rate.tries}"


@given(st.floats(0.2, 20), st.floats(1e-4, 0.05))
def test_the_blocks_that_are_planned_suffice_and_one_less_does_not(distance_in_sd: float, level: float) -> None:
    sd = 0.1
    found = stats.blocks_to_tell(distance_in_sd * sd, sd, Band(-math.inf, 0.0), level)
    assert found is not None

    def power(blocks: int) -> float:
        bound = t.ppf(1 - level, blocks - 1)
        return float(nct.sf(bound, blocks - 1, distance_in_sd * math.sqrt(blocks)))

    assert power(found) >= 0.9 - 1e-6
    assert found == 2 or power(found - 1) < 0.9 + 1e-6
