from __future__ import annotations

import pytest

from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.weights.metadata_override import overridden
from k3prof.errors import ConfigError
from tests.doubles import tiny_models


def changed(text, model=None):
    flags = {} if text is None else {"override-kv": text}
    return overridden(model or tiny_models.experts(), FlagReader(flags, "half.toml: flags.{}".format))


def refused(text, model=None):
    with pytest.raises(ConfigError) as caught:
        changed(text, model)
    return caught.value


def test_fewer_experts_are_used():
    assert changed("qwen3moe.expert_used_count=int:1").geometry.experts_used == 1
    assert changed(None).geometry.experts_used == 2


def test_several_keys_are_separated_by_commas():
    model = changed("qwen3moe.expert_used_count=int:1,general.architecture=str:qwen3moe")
    assert model.geometry.experts_used == 1


def test_a_key_that_the_model_lacks_is_refused():
    error = refused("qwen3moe.expert_usedcount=int:1")
    assert error.message == "half.toml: flags.override-kv: the model has no key 'qwen3moe.expert_usedcount'"
    assert error.hint == "did you mean qwen3moe.expert_used_count?"


def test_a_key_of_another_architecture_is_refused():
    assert refused("kimi-k3.expert_used_count=int:1").hint == "did you mean qwen3moe.expert_used_count?"


def test_more_experts_than_there_are_cannot_be_used():
    assert refused("qwen3moe.expert_used_count=int:9").message.endswith("9 experts used, but the model has 8")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("qwen3moe.expert_used_count", "no KEY=TYPE:VALUE"),
        ("qwen3moe.expert_used_count=1", "no KEY=TYPE:VALUE"),
        ("qwen3moe.expert_used_count=float:1", "is of type int"),
        ("qwen3moe.expert_used_count=int:two", "'two' in"),
        ("qwen3moe.block_count=int:-1", "qwen3moe.block_count"),
    ],
)
def test_values_that_llama_server_would_not_take_are_refused(text, message):
    assert message in refused(text).message


def test_lists_cannot_be_overridden():
    model = tiny_models.dense(attention__head_count_kv=(2, 2))
    assert "silently ignores" in refused("qwen3.attention.head_count_kv=int:1", model).message
