from __future__ import annotations

import pytest

from k3prof.core.weights.model import kv_bytes, state_bytes
from k3prof.core.weights.roles import Role
from k3prof.errors import ConfigError
from k3prof.llama.gguf import read_model
from tests.doubles import tiny_models
from tests.doubles.full_size_k3 import K3, write_full_size_k3


@pytest.fixture(scope="module")
def k3(tmp_path_factory):
    return read_model(write_full_size_k3(tmp_path_factory.mktemp("k3") / "k3.gguf", K3(tokens=100)))


def test_a_full_size_k3_has_the_published_parameters(k3):
    assert round(k3.parameters / 1e9, 1) == 2779.5


def test_a_full_size_k3_keeps_27_gib_of_kv_for_a_million_tokens(k3):
    assert k3.kv_bytes_per_token() == 27_648
    assert 1_048_576 * k3.kv_bytes_per_token() == 27 * 2**30


def test_a_full_size_k3_keeps_465_mb_of_state_per_sequence(k3):
    assert round(k3.state_bytes_per_sequence / 1e6, 1) == 464.6
    assert {state_bytes(layer) for layer in k3.geometry.layers} == {0, 6_733_824}


def test_kv_and_state_lie_in_different_layers(k3):
    assert [layer.index for layer in k3.geometry.layers if kv_bytes(layer)] == [*range(3, 93, 4), 92]
    assert not any(kv_bytes(layer) and state_bytes(layer) for layer in k3.geometry.layers)


def test_the_cache_types_scale_the_kv_cache(k3):
    assert k3.kv_bytes_per_token("q8_0", "q8_0") == 24 * 576 // 32 * 34
    assert k3.kv_bytes_per_token("f32", "f16") == 2 * 27_648
    assert tiny_models.dense().kv_bytes_per_token("q8_0", "f16") == 2 * (68 + 128)


def test_blocks_that_do_not_fit_a_row_are_refused():
    model = tiny_models.dense(attention__key_length=20)
    with pytest.raises(ConfigError) as caught:
        model.kv_bytes_per_token("q8_0", "f16")
    assert "cache type q8_0: layer 0 keeps 40 elements" in caught.value.message


def test_the_embedding_is_the_output_head_where_there_is_no_other():
    assert tiny_models.dense().tied_embedding is None
    assert tiny_models.dense(tied=True).tied_embedding.name == "token_embd.weight"


def test_a_model_that_predicts_no_tokens_has_no_output_head():
    assert tiny_models.dense("bert", tied=True, attention__causal=False).tied_embedding is None


def test_every_tensor_keeps_its_place_and_gets_a_role():
    model = tiny_models.dense()
    tensor = next(tensor for tensor in model.tensors if tensor.name == "blk.1.ffn_up.weight")
    assert (tensor.role, tensor.layer, tensor.shape, tensor.n_bytes) == (Role.DENSE_FFN, 1, (64, 256), 2 * 64 * 256)
    assert model.parameters == 2 * 64 * 1000 + 64 + 2 * (64 + 3 * 64 * 256 + 2 * 64 * 64 + 2 * 64 * 128)
    assert model.n_bytes == 2 * model.parameters
