from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.weights.roles import AttentionKind, Place, Role, attention_kinds, expert_layers, place_of, role_of
from tests.doubles.full_size_k3 import K3


@pytest.mark.parametrize(
    ("name", "layer", "stem"),
    [
        ("token_embd.weight", None, "token_embd"),
        ("blk.3.ffn_gate_exps.weight", 3, "ffn_gate_exps"),
        ("blk.12.ssm_a", 12, "ssm_a"),
        ("blk.0.ssm_dt.bias", 0, "ssm_dt"),
        ("blk.61.nextn.eh_proj.weight", 61, "nextn.eh_proj"),
        ("blk.1.ffn_down.7.weight", 1, "ffn_down.7"),
        ("blk.5.indexer.k_norm.weight", 5, "indexer.k_norm"),
        ("dec.blk.2.cross_attn_q.weight", 2, "cross_attn_q"),
        ("blk.99999999999999999999.attn_q.weight", None, "blk.99999999999999999999.attn_q"),
    ],
)
def test_names_are_split_into_layer_and_stem(name, layer, stem):
    assert place_of(name) == Place(layer, stem)


@given(st.text())
def test_any_name_has_a_place_and_a_role(name):
    assert role_of(place_of(name), {}, None) in Role


def test_every_tensor_of_kimi_k3_has_its_role():
    names = [name for name, _, _ in K3().tensors()]
    places = [place_of(name) for name in names]
    kinds = attention_kinds(places)
    count = dict.fromkeys(Role, 0)
    for place in places:
        count[role_of(place, kinds, 93)] += 1
    # By hand from the list of tensors in src/models/kimi-k3.cpp.
    assert count == {
        Role.EMBEDDING: 1,
        Role.ATTENTION_MLA: 24 * 7,
        Role.ATTENTION_KDA: 69 * 13,
        Role.ATTENTION_GQA: 0,
        Role.ATTENTION_OTHER: 0,
        Role.ROUTER: 92 * 2,
        Role.ROUTED_EXPERTS: 92 * 3,
        Role.SHARED_EXPERTS: 92 * 3,
        Role.LATENT: 92 * 2,
        Role.DENSE_FFN: 3,
        Role.NORM: 93 * 2 + 69 + 24 * 2 + 92 + 1,
        Role.OUTPUT: 1,
        Role.MTP: 0,
        Role.OTHER: 93 * 2 + 1,  # the scores by which residuals are mixed
    }
    assert sum(kind is AttentionKind.MLA for kind in kinds.values()) == 24
    assert sum(kind is AttentionKind.KDA for kind in kinds.values()) == 69
    assert expert_layers(places) == set(range(1, 93))


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["attn_q", "attn_k", "attn_v"], AttentionKind.GQA),
        (["attn_qkv"], AttentionKind.GQA),
        (["attn_q", "attn_kv_a_mqa", "attn_kv_b"], AttentionKind.MLA),
        (["attn_q", "attn_k", "ssm_f_a", "ssm_a"], AttentionKind.KDA),
        (["ssm_in", "ssm_conv1d"], AttentionKind.OTHER),
        (["attn_qkv", "attn_gate", "ssm_ba"], AttentionKind.OTHER),
        (["time_mix_key"], AttentionKind.OTHER),
        (["shortconv.conv"], AttentionKind.OTHER),
        (["ffn_up"], AttentionKind.NONE),
    ],
)
def test_a_layers_tensors_tell_how_it_mixes_tokens(names, kind):
    assert attention_kinds(Place(0, name) for name in names) == {0: kind}


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("blk.0.ffn_gate_inp.weight", Role.ROUTER),
        ("blk.0.exp_probs_b.bias", Role.ROUTER),
        ("blk.0.ffn_gate_inp_shexp.weight", Role.SHARED_EXPERTS),
        ("blk.0.ffn_gate_up_exps.weight", Role.ROUTED_EXPERTS),
        ("blk.0.ffn_up_chexps.weight", Role.ROUTED_EXPERTS),
        ("blk.0.ffn_gate.3.weight", Role.ROUTED_EXPERTS),
        ("blk.0.ffn_down_exps.bias", Role.ROUTED_EXPERTS),
        ("blk.0.ffn_norm_exps.weight", Role.NORM),
        ("blk.0.ffn_down.weight", Role.DENSE_FFN),
        ("blk.0.ffn_latent_down.weight", Role.LATENT),
        ("blk.0.attn_q_a_norm.weight", Role.NORM),
        ("blk.0.post_ffw_norm.weight", Role.NORM),
        ("blk.0.attn_sinks.weight", Role.ATTENTION_GQA),
        ("blk.0.layer_output_scale.weight", Role.OTHER),
        ("blk.1.attn_q.weight", Role.MTP),
        ("blk.0.nextn.eh_proj.weight", Role.MTP),
        ("nextn.pre_projection.weight", Role.MTP),
        ("position_embd.weight", Role.EMBEDDING),
        ("token_embd_norm.weight", Role.NORM),
        ("output.bias", Role.OUTPUT),
        ("cls.output.weight", Role.OUTPUT),
        ("output_norm.weight", Role.NORM),
        ("rope_freqs.weight", Role.OTHER),
    ],
)
def test_roles_of_names_that_are_easily_confused(name, role):
    assert role_of(place_of(name), {0: AttentionKind.GQA, 1: AttentionKind.GQA}, trunk_layers=1) is role
