from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.weights.roles import Role
from k3prof.core.weights.traffic import (
    ForwardPass,
    active_parameters,
    bytes_by_role,
    cache_traffic,
    expected_distinct,
    weight_reads,
)
from k3prof.errors import ConfigError
from k3prof.llama.gguf import read_model
from tests.doubles import tiny_models
from tests.doubles.full_size_k3 import K3, write_full_size_k3


@pytest.fixture(scope="module")
def k3(tmp_path_factory):
    return read_model(write_full_size_k3(tmp_path_factory.mktemp("k3") / "k3.gguf", K3(tokens=100)))


@pytest.mark.parametrize(("tokens", "distinct"), [(1, 16), (2, 31.7), (4, 62.3), (8, 120), (32, 393)])
def test_kimi_k3_needs_more_experts_the_more_tokens_choose(tokens, distinct):
    assert expected_distinct(896, 16, tokens) == pytest.approx(distinct, abs=0.5)


def test_the_expected_number_of_experts_is_what_drawing_them_gives():
    draw = random.Random(1)
    trials = [len({e for _ in range(6) for e in draw.sample(range(32), 4)}) for _ in range(20_000)]
    assert expected_distinct(32, 4, 6) == pytest.approx(sum(trials) / len(trials), abs=0.05)


@given(experts=st.integers(1, 1024), used=st.integers(1, 64), tokens=st.integers(1, 4096))
def test_distinct_experts_lie_between_one_tokens_and_all(experts, used, tokens):
    used = min(used, experts)
    distinct = expected_distinct(experts, used, tokens)
    assert used - 1e-9 * experts <= distinct <= min(experts, used * tokens) + 1e-9 * experts
    assert distinct <= expected_distinct(experts, used, tokens + 1) + 1e-9 * experts


def test_one_token_of_k3_is_multiplied_with_104_billion_parameters(k3):
    assert round(active_parameters(k3) / 1e9, 2) == 104.19


def test_everything_but_the_routed_experts_is_55_billion_parameters(k3):
    reads = weight_reads(k3, ForwardPass())
    always = sum(
        read.share * read.tensor.n_elements for read in reads if read.role not in {Role.ROUTED_EXPERTS, Role.EMBEDDING}
    )
    assert round(always / 1e9, 2) == 55.57


def test_seven_gigabytes_per_token_are_the_routed_experts_alone(k3):
    read = bytes_by_role(weight_reads(k3, ForwardPass()))
    assert round(read[Role.ROUTED_EXPERTS] / 1e9, 2) == 6.93
    # 55.57 B parameters at Q8_0's 8.5 bits are 59.0 GB; routers, which stay F32, add the rest.
    assert sum(read.values()) - read[Role.ROUTED_EXPERTS] == pytest.approx(60.8e9, rel=0.001)


def test_fewer_experts_read_only_fewer_experts(k3):
    sixteen, eight = (bytes_by_role(weight_reads(k3, ForwardPass(experts_used=n))) for n in (16, 8))
    assert eight.pop(Role.ROUTED_EXPERTS) == pytest.approx(sixteen.pop(Role.ROUTED_EXPERTS) / 2)
    assert eight == sixteen


def test_each_token_reads_one_row_of_the_embedding(k3):
    row = 7168 // 32 * 34
    for tokens in (1, 5):
        assert bytes_by_role(weight_reads(k3, ForwardPass(tokens)))[Role.EMBEDDING] == pytest.approx(tokens * row)


def test_a_prefill_reads_every_expert_once(k3):
    reads = weight_reads(k3, ForwardPass(tokens=4096))
    stored = sum(tensor.n_bytes for tensor in k3.tensors if tensor.role is Role.ROUTED_EXPERTS)
    assert bytes_by_role(reads)[Role.ROUTED_EXPERTS] == pytest.approx(stored, rel=1e-6)


def test_k3_reads_a_gigabyte_of_kv_at_32k_and_as_much_state_at_any_depth(k3):
    traffic = cache_traffic(k3, ForwardPass(depth=32_768))
    assert sum(layer.kv_read for layer in traffic) == 27_648 * 32_769
    assert sum(layer.kv_written for layer in traffic) == 27_648
    assert sum(layer.state_read + layer.state_written for layer in traffic) == pytest.approx(0.93e9, rel=0.01)
    assert len(traffic) == 93


def test_every_sequence_reads_its_own_cache_and_state():
    model = tiny_models.dense()
    one = cache_traffic(model, ForwardPass(tokens=1, sequences=1, depth=100))
    four = cache_traffic(model, ForwardPass(tokens=4, sequences=4, depth=100))
    assert [layer.n_bytes for layer in four] == [4 * layer.n_bytes for layer in one]


def test_a_prefill_of_one_sequence_reads_its_cache_once():
    (first, _) = cache_traffic(tiny_models.dense(), ForwardPass(tokens=512, sequences=1, depth=1000))
    row = 2 * (64 + 64)
    assert (first.kv_read, first.kv_written) == (1512 * row, 512 * row)


def test_unknown_caches_give_no_traffic():
    assert cache_traffic(tiny_models.dense("gemma3"), ForwardPass()) is None


def test_a_tied_embedding_is_read_as_output_head_in_full():
    read = bytes_by_role(weight_reads(tiny_models.dense(tied=True), ForwardPass()))
    assert read[Role.OUTPUT] == 2 * 64 * 1000
    assert read[Role.EMBEDDING] == 2 * 64


def test_mtp_layers_are_not_read():
    model = tiny_models.dense("glm4moe", nextn_predict_layers=1)
    assert {read.tensor.layer for read in weight_reads(model, ForwardPass())} == {None, 0}


def test_experts_stored_one_by_one_are_read_in_the_same_share():
    stacked = tiny_models.experts()
    names = {f"blk.1.ffn_{part}.{e}.weight": (64, 32) for part in ("gate", "up", "down") for e in range(8)}
    keys = {"block_count": 2, "expert_count": 8, "expert_used_count": 2}
    single = tiny_models.model("qwen3moe", keys, names)
    sums = [bytes_by_role(weight_reads(m, ForwardPass(3)))[Role.ROUTED_EXPERTS] for m in (stacked, single)]
    assert sums[0] == pytest.approx(sums[1])


def test_biases_of_experts_are_shared_out_like_their_weights():
    model = tiny_models.model(
        "gpt-oss", {"block_count": 1, "expert_count": 8, "expert_used_count": 2}, {"blk.0.ffn_up_exps.bias": (32, 8)}
    )
    (read,) = weight_reads(model, ForwardPass())
    assert read.share == pytest.approx(2 / 8)


@pytest.mark.parametrize("asked", [0, 9])
def test_more_experts_than_there_are_cannot_be_used(asked):
    with pytest.raises(ConfigError, match=f"{asked} of 8 cannot be chosen"):
        weight_reads(tiny_models.experts(), ForwardPass(experts_used=asked))


def test_a_dense_model_has_no_experts_to_choose():
    with pytest.raises(ConfigError, match="no routed experts"):
        weight_reads(tiny_models.dense(), ForwardPass(experts_used=2))


@given(tokens=st.integers(1, 600), depth=st.integers(0, 10**6))
def test_nothing_is_read_more_than_once(tokens, depth):
    model = tiny_models.experts()
    reads = weight_reads(model, ForwardPass(tokens, depth=depth))
    assert all(0 <= read.share <= 1 for read in reads)
    assert sum(bytes_by_role(reads).values()) <= model.n_bytes
