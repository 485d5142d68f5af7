from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from k3prof.core.ops.op_graph import OpNode, Part
from k3prof.core.ops.op_profile import OUTSIDE, WITHOUT_WEIGHTS, Share, profile
from k3prof.core.ops.op_record import OpRecord, TimedPasses
from k3prof.core.weights.model import Model, TensorHeader, describe
from k3prof.core.weights.roles import Role

NODES = (
    OpNode("embd", "GET_ROWS", 64, "CPU", ("token_embd.weight", "inp_tokens")),
    OpNode("q", "MUL_MAT", 64, "CPU", ("blk.0.attn_q.weight", 0)),
    OpNode("q (view)", "VIEW", 64, "CPU", (1,)),
    OpNode("attended", "SOFT_MAX", 64, "GPU", (2,)),
    OpNode("up", "MUL_MAT_ID", 64, "GPU", ("blk.0.ffn_up_exps.weight", 3)),
    OpNode("silu", "SILU", 64, "GPU", (4,)),
    OpNode("scores", "MUL_MAT", 64, "GPU", ("output.weight", 5)),
)
"""Stretches: the embedding; q and its view; attended; up and silu; scores."""
WAIT_NS = 10


def model() -> Model:
    names = ("token_embd.weight", "blk.0.attn_q.weight", "blk.0.ffn_up_exps.weight", "output.weight")
    headers = [TensorHeader(name, (32, 32, 4), "F16", 8192, 0, 0) for name in names]
    keys = {"qwen3moe.block_count": 1, "qwen3moe.expert_count": 4, "qwen3moe.expert_used_count": 2}
    return describe("qwen3moe", keys, headers, [])


def passes(*computed_ns: tuple[int, ...], plain_ns: int = 1000, whole_ns: int = 1200) -> TimedPasses:
    return TimedPasses((plain_ns,) * len(computed_ns), (whole_ns,) * len(computed_ns), computed_ns)


def record(by_stretch: TimedPasses, by_node: TimedPasses | None = None) -> OpRecord:
    return OpRecord("tg", 1, 5, NODES, (WAIT_NS, WAIT_NS, 3 * WAIT_NS), by_stretch, by_node)


def fracs(shares: tuple[Share, ...] | None) -> dict[str, float]:
    assert shares is not None
    return {share.name: pytest.approx(share.frac) for share in shares}


STRETCHES = (10 + 50, 10 + 300, 10 + 50, 10 + 500, 10 + 100)


def test_stretches_are_shared_out_by_part_and_layer_after_waiting_is_taken_off():
    found = profile(record(passes(STRETCHES)), model())
    assert fracs(found.by_part) == {Part.MOE: 0.5, Part.GQA: 0.35, Part.OUTPUT: 0.1, Part.EMBEDDING: 0.05}
    assert [share.name for share in found.by_part] == [Part.MOE, Part.GQA, Part.OUTPUT, Part.EMBEDDING]
    assert fracs(found.by_layer) == {"0": 0.85, OUTSIDE: 0.15}
    assert [(share.name, share.about) for share in found.by_layer] == [("0", "GQA + MoE"), (OUTSIDE, "")]
    assert found.by_role is None
    assert found.by_op is None
    assert found.devices == ("CPU", "GPU")


def test_nodes_divide_their_stretch_and_leave_the_sums_over_stretches_alone():
    # In the MoE, silu takes a quarter; all nodes together take far longer than the stretches.
    nodes = passes((1000, 2000, 2010, 10 + 3000, 10 + 1000, 700))
    found = profile(record(passes(STRETCHES), nodes), model())
    assert fracs(found.by_part) == {Part.MOE: 0.5, Part.GQA: 0.35, Part.OUTPUT: 0.1, Part.EMBEDDING: 0.05}
    assert fracs(found.by_op) == {
        "MUL_MAT": 0.3 + 0.1,
        "MUL_MAT_ID": 0.375,
        "SILU": 0.125,
        "SOFT_MAX": 0.05,
        "GET_ROWS": 0.05,
    }
    assert fracs(found.by_role) == {
        Role.ROUTED_EXPERTS: 0.375,
        Role.ATTENTION_GQA: 0.3,
        WITHOUT_WEIGHTS: 0.125 + 0.05,
        Role.OUTPUT: 0.1,
        Role.EMBEDDING: 0.05,
    }


def test_a_stretch_whose_nodes_took_no_longer_than_waiting_is_divided_evenly():
    nodes = passes((1000, 2000, 2010, WAIT_NS, WAIT_NS - 5, 700))
    by_op = profile(record(passes(STRETCHES), nodes), model()).by_op
    assert fracs(by_op)["MUL_MAT_ID"] == fracs(by_op)["SILU"] == 0.25


def test_a_single_disturbed_pass_changes_nothing():
    disturbed = (60, 310, 60, 90_000, 110)
    found = profile(record(passes(STRETCHES, disturbed, STRETCHES)), model())
    assert fracs(found.by_part)[Part.MOE] == 0.5


def test_the_interval_is_students_over_blocks_of_passes():
    # 6 passes are two blocks of 3, in which the MoE takes 500 and 400 of 1000 and 900.
    first, second = STRETCHES, (*STRETCHES[:3], 10 + 400, STRETCHES[4])
    moe = profile(record(passes(*[first] * 3, *[second] * 3)), model()).part(Part.MOE)
    assert moe is not None
    assert moe.frac == pytest.approx((0.5 + 4 / 9) / 2)
    half = stats.t.ppf(0.95, 1) * (0.5 - 4 / 9) / 2
    assert moe.low == pytest.approx(max(moe.frac - half, 0))
    assert moe.high == pytest.approx(min(moe.frac + half, 1))


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (5, 1), (6, 2), (9, 3), (23, 3), (32, 4), (64, 8), (999, 8)])
def test_few_passes_have_no_interval_and_many_no_more_blocks_than_eight(count, blocks):
    # Only the last pass differs, so that only the last block does: its share of the mean tells how many there are.
    size = -(-count // blocks)
    last = passes(*[STRETCHES] * (count - size), *[(10, 10, 10, 510, 10)] * size)
    moe = profile(record(last), model()).part(Part.MOE)
    assert moe is not None
    assert moe.frac == pytest.approx(0.5 + 0.5 / blocks)
    assert (moe.low is None) is (blocks == 1)


def test_distortion_holds_timed_passes_against_the_untimed_ones_beside_them():
    stretch = passes(STRETCHES, STRETCHES, STRETCHES, plain_ns=2000, whole_ns=2200)
    node = passes((110, 210, 110, 310, 210, 110), plain_ns=1000, whole_ns=1500)
    found = profile(record(stretch, node), model()).distortion
    assert (found.nodes, found.working_nodes, found.stretches) == (7, 6, 5)
    assert (found.wait_ns, found.plain_ns) == (10, 2000)
    assert (found.by_stretch, found.by_node) == (1.1, 1.5)
    assert (found.stretches_frac, found.nodes_frac) == (0.5, 1.0)


def test_without_a_node_that_computes_nothing_no_waiting_is_taken_off():
    found = profile(replace(record(passes((50, 300, 50, 500, 100))), idle_ns=()), model())
    assert found.distortion.wait_ns is None
    assert fracs(found.by_part)[Part.MOE] == 0.5


@pytest.mark.parametrize(("frac", "gain"), [(0.0, 1.0), (0.5, 2.0), (0.75, 4.0), (1.0, None)])
def test_what_is_free_gains_no_more_than_amdahl_allows(frac, gain):
    assert Share("it", frac, None, None).most_gain == gain


rows = st.tuples(*[st.integers(WAIT_NS + 1, 10**12)] * 5), st.tuples(*[st.integers(1, 10**12)] * 6)


@given(st.lists(st.tuples(*rows), min_size=1, max_size=20))
def test_all_shares_sum_to_one_and_lie_within_their_intervals(timed):
    stretch_rows, node_rows = zip(*timed, strict=True)
    found = profile(record(passes(*stretch_rows), passes(*node_rows)), model())
    for shares in (found.by_part, found.by_layer, found.by_role, found.by_op):
        assert shares is not None
        assert sum(share.frac for share in shares) == pytest.approx(1)
        for share in shares:
            if share.low is not None and share.high is not None:
                assert 0 <= share.low <= share.frac + 1e-12
                assert share.frac - 1e-12 <= share.high <= 1
    by_part, by_op = fracs(found.by_part), {share.name: share.frac for share in found.by_op or ()}
    assert by_op["MUL_MAT_ID"] + by_op["SILU"] == by_part[Part.MOE]
