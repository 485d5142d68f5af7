from __future__ import annotations

import pytest

from k3prof.core.layout.context_shape import context_shape
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.errors import ConfigError
from tests.doubles import tiny_models


def shape(model=None, **flags):
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return context_shape(FlagReader(named, "flags.{}".format), model or tiny_models.dense())


def kimi(**keys):
    """One MLA and one KDA layer."""
    base = {
        "block_count": 2,
        "embedding_length": 64,
        "context_length": 4096,
        "attention.head_count": 2,
        "attention.head_count_kv": (0, 1),
        "attention.key_length": 96,
        "attention.value_length": 64,
        "attention.key_length_mla": 48,
        "attention.value_length_mla": 32,
        "kda.head_dim": 32,
        "ssm.conv_kernel": 4,
    }
    return tiny_models.model("kimi-k3", base | keys, {"token_embd.weight": (64, 100)})


def test_without_parallel_four_slots_share_one_cache():
    found = shape(ctx_size=1000)
    assert (found.sequences, found.unified, found.streams) == (4, True, 1)
    assert (found.cells, found.tokens) == (1024, 1024)


def test_a_number_of_slots_divides_the_context():
    found = shape(ctx_size=1000, parallel=3)
    assert (found.sequences, found.unified, found.streams) == (3, False, 3)
    # 1024 / 3 = 341, up to 512.
    assert (found.cells, found.tokens) == (512, 1536)


def test_a_number_of_slots_may_share_one_cache():
    found = shape(ctx_size=1000, parallel=3, kv_unified=True)
    assert (found.sequences, found.streams, found.cells) == (3, 1, 1024)


def test_without_a_context_it_is_what_the_model_was_trained_for():
    assert shape(parallel=1).cells == 512
    assert shape(parallel=1, ctx_size=0).cells == 512


def test_a_context_per_slot_sizes_the_shared_cache():
    assert shape(parallel=2, kv_unified=True, kv_unified_per_slot=300).tokens == 768
    assert shape(parallel=2, kv_unified=True, kv_unified_per_slot=300).slot_tokens == 300
    assert shape(parallel=2, kv_unified=True, kv_unified_per_slot=300, ctx_size=0).tokens == 512


def test_a_slot_is_never_larger_than_the_training():
    assert shape(ctx_size=4096, parallel=1).slot_tokens == 512


def test_drafts_that_can_be_taken_back_multiply_the_state():
    assert shape(kimi()).state_copies == 1
    assert shape(kimi(), spec_type="draft-dspark").state_copies == 4
    assert shape(kimi(), spec_type="draft-dspark", spec_draft_n_max=7).state_copies == 8
    assert shape(kimi(), spec_type="ngram-mod").state_copies == 1
    assert shape(tiny_models.dense(), spec_type="draft-eagle3").state_copies == 1


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"parallel": 0}, "flags.parallel: llama-server has 1 to 256 slots, not 0"),
        ({"parallel": 300}, "flags.parallel: llama-server has 1 to 256 slots, not 300"),
        ({"cache_type_k": "q3_k"}, "flags.cache-type-k: there is no 'q3_k'"),
        ({"cache_type_v": "q8_0", "flash_attn": "off"}, "flags.cache-type-v: q8_0 needs flash attention"),
    ],
)
def test_what_no_server_takes_is_refused(flags, message):
    with pytest.raises(ConfigError) as caught:
        shape(**flags)
    assert caught.value.message.startswith(message)


def test_one_latent_for_keys_and_values_has_one_type():
    with pytest.raises(ConfigError) as caught:
        shape(kimi(), cache_type_v="q8_0")
    assert caught.value.message == "flags.cache-type-v: f16 for K and q8_0 for V: kimi-k3 keeps one latent for both"
    assert caught.value.hint == 'set cache-type-k and cache-type-v to "q8_0"'
    assert shape(kimi(), cache_type_k="q8_0", cache_type_v="q8_0").cache_type_k == "q8_0"


def test_rows_that_blocks_do_not_divide_are_refused_under_their_flag():
    with pytest.raises(ConfigError, match=r"flags\.cache-type-k: .*layer 0 keeps 40 elements"):
        shape(tiny_models.dense(attention__key_length=20), cache_type_k="q8_0")
