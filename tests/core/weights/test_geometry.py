from __future__ import annotations

import pytest

from k3prof.core.weights.geometry import MAX_LAYERS, LayerCache, Skipped
from k3prof.core.weights.roles import AttentionKind
from k3prof.errors import ConfigError
from tests.doubles import tiny_models


def caches(model):
    return [layer.cache for layer in model.geometry.layers]


def test_grouped_query_attention_keeps_keys_and_values_of_its_kv_heads():
    assert caches(tiny_models.dense()) == [LayerCache(k_elements=64, v_elements=64)] * 2


def test_head_sizes_that_are_not_given_follow_from_the_width():
    model = tiny_models.dense("llama", attention__key_length=None, attention__value_length=None)
    assert caches(model) == [LayerCache(k_elements=32, v_elements=32)] * 2


def test_without_kv_heads_every_head_has_its_own():
    assert caches(tiny_models.dense(attention__head_count_kv=None)) == [LayerCache(128, 128)] * 2


def test_kv_heads_may_differ_by_layer():
    model = tiny_models.dense("openelm", attention__head_count_kv=(1, 3))
    assert caches(model) == [LayerCache(32, 32), LayerCache(96, 96)]


@pytest.mark.parametrize(
    "architecture",
    [
        "gemma2",
        "gemma3",
        "gpt-oss",
        "jamba",
        "mamba2",
        "qwen3next",
        "deepseek32",
        "glm-dsa",
        "llada",
        "bert",
        "t5",
        "new",
    ],
)
def test_caches_of_other_architectures_are_not_guessed(architecture):
    model = tiny_models.dense(architecture)
    assert not model.geometry.cache_known
    assert caches(model) == [None, None]
    assert model.kv_bytes_per_token() is None
    assert model.state_bytes_per_sequence is None
    assert model.n_bytes > 0


@pytest.mark.parametrize("missing", ["attention__head_count", "embedding_length"])
def test_caches_are_unknown_where_a_key_is_missing(missing):
    assert tiny_models.dense(**{missing: None}).kv_bytes_per_token() is None


DEEPSEEK_V3 = {
    "block_count": 61,
    "embedding_length": 7168,
    "attention.head_count": 128,
    "attention.head_count_kv": 1,
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "attention.kv_lora_rank": 512,
}


def test_deepseek2_keeps_one_latent_row_for_keys_and_values():
    model = tiny_models.model("deepseek2", DEEPSEEK_V3, {})
    # DeepSeek-V3's paper: (512 + 64) elements per token and layer.
    assert model.kv_bytes_per_token() == 61 * (512 + 64) * 2
    assert model.state_bytes_per_sequence == 0


def test_deepseek2_files_from_before_the_latent_cache_keep_full_keys_and_values():
    keys = {key: value for key, value in DEEPSEEK_V3.items() if not key.endswith("_mla")}
    keys |= {"attention.head_count_kv": 128, "attention.key_length": 192, "attention.value_length": 128}
    assert tiny_models.model("deepseek2", keys, {}).kv_bytes_per_token() == 61 * 128 * (192 + 128) * 2


def test_half_of_the_mla_keys_is_no_known_cache():
    keys = {key: value for key, value in DEEPSEEK_V3.items() if key != "attention.value_length_mla"}
    assert tiny_models.model("deepseek2", keys, {}).kv_bytes_per_token() is None


def test_mtp_layers_are_counted_but_keep_nothing_in_the_main_context():
    model = tiny_models.dense("glm4moe", nextn_predict_layers=1)
    first, second = model.geometry.layers
    assert (first.mtp, second.mtp) == (False, True)
    assert model.geometry.trunk_layers == 1
    assert (first.cache, second.cache) == (LayerCache(64, 64), LayerCache())


KIMI_LINEAR = {
    "block_count": 27,
    "embedding_length": 2304,
    "attention.head_count": 32,
    "attention.head_count_kv": tuple(int(layer in {3, 7, 11, 15, 19, 23, 26}) for layer in range(27)),
    "attention.key_length": 576,
    "attention.value_length": 512,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "attention.kv_lora_rank": 512,
    "ssm.conv_kernel": 4,
    "kda.head_dim": 128,
}


def test_kimi_linear_48b_keeps_what_is_published():
    model = tiny_models.model("kimi-linear", KIMI_LINEAR, {})
    assert model.kv_bytes_per_token() == 8064
    assert model.state_bytes_per_sequence / 2**20 == pytest.approx(42.8, abs=0.05)


def test_a_kimi_with_drafting_layers_is_not_known():
    assert tiny_models.model("kimi-linear", KIMI_LINEAR | {"nextn_predict_layers": 1}, {}).kv_bytes_per_token() is None


def test_experts_used_may_differ_by_layer():
    model = tiny_models.experts(expert_used_count=(0, 3))
    assert [layer.experts_used for layer in model.geometry.layers] == [0, 3]
    assert (model.geometry.experts, model.geometry.experts_used) == (8, 3)


def test_layers_without_a_count_are_those_that_have_tensors():
    model = tiny_models.dense("new", block_count=None)
    assert [layer.index for layer in model.geometry.layers] == [0, 1]
    assert {layer.attention for layer in model.geometry.layers} == {AttentionKind.GQA}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("block_count", "two", "qwen3.block_count: expected a whole number, got 'two'"),
        ("block_count", -1, "qwen3.block_count: expected a whole number, got -1"),
        ("block_count", True, "qwen3.block_count: expected a whole number, got True"),
        ("block_count", MAX_LAYERS + 1, "qwen3.block_count: 4097 layers are more than any model has"),
        ("embedding_length", 64.0, "qwen3.embedding_length: expected a whole number, got 64.0"),
        ("context_length", Skipped(9), "qwen3.context_length: expected a whole number"),
        ("attention__head_count_kv", (2,), "qwen3.attention.head_count_kv: has 1 values, but there is a layer 1"),
        ("attention__head_count_kv", (2, -5), "qwen3.attention.head_count_kv: expected a whole number, got -5"),
    ],
)
def test_impossible_keys_are_refused_by_name(key, value, said):
    with pytest.raises(ConfigError) as caught:
        tiny_models.dense(**{key: value})
    assert said in caught.value.message
