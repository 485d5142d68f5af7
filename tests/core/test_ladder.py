from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.ladder import depth_ladders, mean_context, slope, streams_ladders
from k3prof.core.layout.context_cost import ContextCost
from k3prof.core.trial import Workload
from tests.doubles.ladders import placement, workload


def ladder_of(*medians):
    (ladder,) = streams_ladders(placement(*(workload(f"tg8 x{2**i}", [rate]) for i, rate in enumerate(medians))))
    return ladder


def test_scaling_efficiency_and_rate_per_stream_are_against_the_first_level():
    (ladder,) = streams_ladders(
        placement(workload("tg8 x4", [24.0]), workload("tg8", [10.0, 9.0, 11.0]), workload("tg8 x2", [18.0]))
    )
    assert [one.workload.streams for one in ladder.levels] == [1, 2, 4]
    assert [one.scaling for one in ladder.levels] == [1.0, 1.8, 2.4]
    assert [one.efficiency_frac for one in ladder.levels] == pytest.approx([1.0, 0.9, 0.6])
    assert [one.per_stream for one in ladder.levels] == [10.0, 9.0, 6.0]


def test_it_saturates_after_the_level_from_which_on_each_step_gains_less_than_ten_per_cent():
    assert ladder_of(10.0, 18.0, 19.7, 20.0).saturated_after == Workload("tg", 8, streams=2)
    assert ladder_of(10.0, 10.6, 11.2).saturated_after == Workload("tg", 8)
    assert ladder_of(10.0, 11.1, 12.3).saturated_after is None
    assert ladder_of(10.0, 9.0).saturated_after == Workload("tg", 8)


def test_a_level_that_gains_again_later_was_no_saturation():
    assert ladder_of(56.9, 56.2, 82.5).saturated_after is None


def test_saturation_goes_by_the_median_not_the_best_repetition():
    (ladder,) = streams_ladders(placement(workload("tg8", [10.0, 10.0, 10.0]), workload("tg8 x2", [10.5, 10.4, 30.0])))
    assert ladder.saturated_after == Workload("tg", 8)


def test_a_level_that_was_not_measured_is_unknown_and_saturates_nothing():
    (ladder,) = streams_ladders(placement(workload("tg8", []), workload("tg8 x2", [20.0]), workload("tg8 x4", [21.0])))
    assert [one.scaling for one in ladder.levels] == [None, None, None]
    assert ladder.levels[0].per_stream is None
    assert ladder.saturated_after == Workload("tg", 8, streams=2)


def test_streams_of_different_depths_are_ladders_of_their_own_and_one_level_is_none():
    summary = placement(*(workload(name, [9.0]) for name in ("tg8", "tg8 x2", "tg8@d9", "tg8@d9 x2", "tg9", "pp8")))
    assert [one.levels[0].workload.name for one in streams_ladders(summary)] == ["tg8", "tg8@d9"]
    assert [one.levels[0].workload.name for one in depth_ladders(summary)] == ["tg8", "tg8 x2"]


def test_the_slope_and_its_interval_are_those_of_statsmodels():
    context, ms = [16, 528, 1040, 2064, 4112], [20.1, 20.4, 21.3, 22.0, 24.9]
    fitted = sm.OLS(ms, sm.add_constant(np.array(context) / 1000)).fit()
    found = slope(list(zip(context, ms, strict=True)))
    assert (found.at_zero_ms, found.ms) == pytest.approx(tuple(fitted.params))
    assert (found.low, found.high) == pytest.approx(tuple(fitted.conf_int(alpha=0.1)[1]))


@given(
    st.lists(st.integers(0, 10**5), min_size=3, max_size=8, unique=True),
    st.floats(-5, 5, allow_subnormal=False),
    st.floats(1, 1000),
)
def test_a_straight_line_is_found_exactly(depths, per_1000, at_zero):
    found = slope([(depth, at_zero + per_1000 * depth / 1000) for depth in depths])
    span = (max(depths) - min(depths)) / 1000
    assert found.ms == pytest.approx(per_1000, abs=1e-9 * at_zero / span + 1e-6)
    assert found.low <= found.ms <= found.high


def test_two_levels_give_a_slope_without_an_interval_and_one_gives_none():
    found = slope([(0, 10.0), (2000, 12.0)])
    assert (found.ms, found.low, found.high) == (pytest.approx(1.0), None, None)
    assert slope([(5, 10.0), (5, 11.0)]) is None
    assert slope([]) is None


def test_repetitions_of_one_level_are_one_point():
    few = placement(*(workload(f"tg8@d{depth}", [rate]) for depth, rate in ((0, 50), (1000, 40), (2000, 39))))
    many = placement(*(workload(f"tg8@d{depth}", [rate] * 9) for depth, rate in ((0, 50), (1000, 40), (2000, 39))))
    assert depth_ladders(few)[0].slope == depth_ladders(many)[0].slope


def test_a_token_of_one_of_several_streams_takes_as_long_as_their_step():
    (ladder,) = depth_ladders(placement(workload("tg8 x4", [40.0]), workload("tg8@d1024 x4", [20.0])))
    assert [one.ms_per_token.median for one in ladder.levels] == [100.0, 200.0]


def test_a_prompts_tokens_have_half_of_it_before_them():
    assert mean_context(Workload("pp", 512, 4096)) == 2304
    assert mean_context(Workload("tg", 128, 4096)) == 4160
    # If a token costs 10 ms and 1 ms more per 1,000 tokens of context, the whole prompt shows just that slope.
    rates = {depth: 1000 / (10 + (512 + depth) / 2 / 1000) for depth in (0, 2048, 8192)}
    (ladder,) = depth_ladders(placement(*(workload(f"pp512@d{depth}", [rate]) for depth, rate in rates.items())))
    assert (ladder.slope.ms, ladder.slope.at_zero_ms) == (pytest.approx(1.0), pytest.approx(10.0))


def test_the_predicted_slope_stands_beside_it_for_decode_alone_or_says_why_not():
    cost = ContextCost({"CUDA0": 1000, "CUDA1": 500}, {"CUDA0": 500.0, "CUDA1": 500.0})
    levels = [workload(name, [9.0]) for name in ("tg8 x2", "tg8@d512 x2", "pp8", "pp8@d512")]
    decode, prefill = depth_ladders(placement(*levels, cost=cost))
    assert decode.predicted_ms == pytest.approx(2 * 1000 * 1500 / 500e9 * 1e3)
    assert (prefill.predicted_ms, prefill.unknown) == (None, "prefill computes more than it reads")
    slow = depth_ladders(placement(*levels, cost=ContextCost({"CUDA0": 1000}, {})))[0]
    assert (slow.predicted_ms, slow.unknown) == (None, "the memory bandwidth of CUDA0 is not known")
    assert depth_ladders(placement(*levels))[0].predicted_ms is None
