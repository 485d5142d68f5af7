from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.ops.op_graph import NodePlace, OpNode, Part, place_nodes, stretches
from k3prof.core.weights.model import Model, TensorHeader, describe
from k3prof.core.weights.roles import Role

WEIGHTS = (
    "token_embd.weight",
    "blk.0.attn_norm.weight",
    "blk.0.attn_q.weight",
    "blk.0.attn_k.weight",
    "blk.0.attn_v.weight",
    "blk.0.attn_output.weight",
    "blk.0.ffn_norm.weight",
    "blk.0.ffn_gate_inp.weight",
    "blk.0.ffn_up_exps.weight",
    "blk.0.ffn_down_exps.weight",
    "blk.0.post_ffw_norm.weight",
    "blk.1.attn_res_score.weight",
    "rope_freqs.weight",
    "output_norm.weight",
)
ATTENTION = (0, Part.GQA)
MOE = (0, Part.MOE)


def model(*names: str) -> Model:
    headers = [TensorHeader(name, (32, 32), "F16", 2048, 0, 0) for name in names or WEIGHTS]
    return describe("qwen3moe", {"qwen3moe.block_count": 2}, headers, [])


def graph(*rows: tuple[str, str, Sequence[str]], device: str = "CPU") -> list[OpNode]:
    """Make a graph of (name, op, names of the sources); a source is the latest node of its name, else a tensor."""
    nodes: list[OpNode] = []
    for name, op, named in rows:
        places = {node.name: place for place, node in enumerate(nodes)}
        nodes.append(OpNode(name, op, 4, device, tuple(places.get(source, source) for source in named)))
    return nodes


def homes(nodes: Sequence[OpNode], of: Model | None = None) -> dict[str, tuple[int | None, Part]]:
    places = place_nodes(nodes, of or model())
    return {node.name: (place.layer, place.part) for node, place in zip(nodes, places, strict=True)}


BEGIN = (
    ("embd", "GET_ROWS", ["token_embd.weight", "inp_tokens"]),
    ("norm", "RMS_NORM", ["embd"]),
    ("attn_norm", "MUL", ["norm", "blk.0.attn_norm.weight"]),
    ("q", "MUL_MAT", ["blk.0.attn_q.weight", "attn_norm"]),
)


def test_nodes_with_weights_belong_where_the_weights_do_and_norms_to_what_they_prepare():
    found = homes(graph(*BEGIN))
    assert found == {
        "embd": (None, Part.EMBEDDING),
        "norm": ATTENTION,
        "attn_norm": ATTENTION,
        "q": ATTENTION,
    }


def test_adding_a_branch_to_the_residual_stream_belongs_to_the_branch():
    found = homes(
        graph(
            *BEGIN,
            ("attn_out", "MUL_MAT", ["blk.0.attn_output.weight", "q"]),
            ("ffn_inp", "ADD", ["embd", "attn_out"]),
            ("norm2", "RMS_NORM", ["ffn_inp"]),
            ("ffn_norm", "MUL", ["norm2", "blk.0.ffn_norm.weight"]),
            ("logits", "MUL_MAT", ["blk.0.ffn_gate_inp.weight", "ffn_norm"]),
            ("probs", "SOFT_MAX", ["logits"]),
            ("up", "MUL_MAT_ID", ["blk.0.ffn_up_exps.weight", "ffn_norm", "probs"]),
            ("down", "MUL_MAT_ID", ["blk.0.ffn_down_exps.weight", "up"]),
            ("post", "RMS_NORM", ["down"]),
            ("post_norm", "MUL", ["post", "blk.0.post_ffw_norm.weight"]),
            ("l_out", "ADD", ["post_norm", "ffn_inp"]),
        )
    )
    assert found["ffn_inp"] == ATTENTION
    for name in ("norm2", "ffn_norm", "logits", "probs", "up", "down", "post", "post_norm", "l_out"):
        assert found[name] == MOE, name


def test_rows_picked_late_from_an_earlier_layer_do_not_drag_a_branch_back():
    found = homes(
        graph(
            *BEGIN,
            ("attn_out", "MUL_MAT", ["blk.0.attn_output.weight", "q"]),
            ("picked", "GET_ROWS", ["embd", "out_ids"]),
            ("ffn_inp", "ADD", ["attn_out", "picked"]),
        )
    )
    assert found["ffn_inp"] == ATTENTION


def test_what_comes_from_caches_and_inputs_alone_belongs_to_its_first_user():
    found = homes(
        graph(
            ("state", "RESHAPE", ["cache_s_l0"]),
            ("read", "GET_ROWS", ["state", "rs_s_copy"]),
            *BEGIN,
            ("attended", "FLASH_ATTN_EXT", ["q", "read"]),
        )
    )
    assert found["state"] == found["read"] == found["attended"] == ATTENTION


def test_weights_seen_through_views_and_copies_count():
    found = graph(
        *BEGIN,
        ("seen", "RESHAPE", ["blk.0.attn_k.weight"]),
        ("k", "SSM_CONV", ["q", "seen"]),
        ("v", "MUL_MAT", ["CUDA1#blk.0.attn_v.weight#0", "attn_norm"]),
    )
    places = place_nodes(found, model())
    assert [place.role for place in places[-3:]] == [Role.ATTENTION_GQA] * 3


def test_a_copy_on_another_device_stands_for_what_was_copied():
    found = homes(graph(*BEGIN, ("scaled", "SCALE", ["CUDA1#q#0"]), ("lost", "SCALE", ["CUDA1#nothing#3"])))
    assert found["scaled"] == ATTENTION
    assert found["lost"] == ATTENTION


def test_rotary_frequencies_are_weights_of_no_part_of_their_own():
    (*_, rope) = place_nodes(graph(*BEGIN, ("rope", "ROPE", ["q", "inp_pos", "rope_freqs.weight"])), model())
    assert rope == NodePlace(0, Part.GQA, Role.OTHER)


def test_attention_residuals_are_a_part_of_the_layer_that_they_prepare():
    found = homes(
        graph(
            *BEGIN,
            ("norm3", "RMS_NORM", ["q"]),
            ("scored", "MUL", ["norm3", "blk.1.attn_res_score.weight"]),
            ("sum", "SUM_ROWS", ["scored"]),
        )
    )
    assert found["norm3"] == found["scored"] == found["sum"] == (1, Part.RESIDUALS)


def test_an_embedding_that_is_multiplied_is_the_output_head():
    nodes = graph(
        *BEGIN,
        ("last", "RMS_NORM", ["q"]),
        ("result_norm", "MUL", ["last", "output_norm.weight"]),
        ("result_output", "MUL_MAT", ["token_embd.weight", "result_norm"]),
    )
    places = place_nodes(nodes, model())
    assert places[0].role is Role.EMBEDDING
    assert places[-1] == NodePlace(None, Part.OUTPUT, Role.OUTPUT)
    assert [place.part for place in places[-3:]] == [Part.OUTPUT] * 3


def test_a_graph_without_any_weights_is_of_no_part():
    assert homes(graph(("a", "ADD", ["x", "y"]), ("b", "VIEW", ["a"]))) == dict.fromkeys("ab", (None, Part.OTHER))


def test_a_stretch_ends_where_layer_part_or_device_changes_and_views_go_along():
    nodes = [
        *graph(("a", "ADD", []), ("b", "VIEW", ["a"]), ("c", "ADD", [])),
        *graph(("d", "ADD", []), device="CUDA1"),
        *graph(("e", "ADD", []), device="CUDA1"),
        *graph(("f", "VIEW", []), device="CPU"),
    ]
    one, other = NodePlace(0, Part.KDA, None), NodePlace(0, Part.MOE, None)
    assert stretches(nodes, [one, other, one, one, other, one]) == (0, 0, 0, 1, 2, 2)


@pytest.mark.parametrize(
    ("op", "n_bytes", "works"),
    [("ADD", 4, True), ("VIEW", 4, False), ("RESHAPE", 4, False), ("PERMUTE", 4, False), ("CPY", 0, False)],
)
def test_a_node_works_when_it_has_something_to_compute(op, n_bytes, works):
    assert OpNode("n", op, n_bytes, "CPU", ()).works is works


@st.composite
def graphs(draw: st.DrawFn) -> list[OpNode]:
    nodes: list[OpNode] = []
    for place in range(draw(st.integers(1, 25))):
        earlier = st.integers(0, place - 1) if place else st.nothing()
        names = st.sampled_from([*WEIGHTS, "inp_tokens", "cache_k_l0", "CUDA0#blk.0.attn_q.weight#1", "CUDA0#n#0"])
        sources = draw(st.lists(st.one_of(earlier, names), max_size=3))
        op = draw(st.sampled_from(["ADD", "MUL", "MUL_MAT", "RMS_NORM", "VIEW", "GET_ROWS"]))
        nodes.append(OpNode("n", op, draw(st.sampled_from([0, 4])), draw(st.sampled_from(["", "CPU"])), tuple(sources)))
    return nodes


@given(graphs())
def test_every_node_of_any_graph_has_a_place_and_lies_in_a_stretch_of_its_like(nodes):
    places = place_nodes(nodes, model())
    numbers = stretches(nodes, places)
    assert len(places) == len(numbers) == len(nodes)
    assert all(after - before in (0, 1) for before, after in pairwise(numbers))
    working = [(number, place, node) for number, place, node in zip(numbers, places, nodes, strict=True) if node.works]
    for (number, place, node), (next_number, next_place, next_node) in pairwise(working):
        alike = (place.layer, place.part, node.device) == (next_place.layer, next_place.part, next_node.device)
        assert (number == next_number) is alike
