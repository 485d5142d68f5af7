from __future__ import annotations

import pytest

from k3prof.core.layout.overrides import check_matches, first_match, match_all, read_overrides, with_buffer_types
from k3prof.errors import ConfigError

BUFFERS = {"RPC0[127.0.0.1:5000]": "RPC0", "CUDA1": "CUDA1"}
NAMES = [
    "token_embd.weight",
    "blk.0.ffn_up.weight",
    *(f"blk.{layer}.ffn_{part}_exps.weight" for layer in range(1, 12) for part in ("gate", "up", "down")),
    "blk.1.ffn_up_shexp.weight",
]


def rules(**flags):
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return read_overrides(named, BUFFERS, 12, "a.toml: flags.{}".format)


def targets(*overrides):
    return {name: rule.target for name in NAMES if (rule := first_match(name, overrides))}


def refused(**flags):
    with pytest.raises(ConfigError) as caught:
        rules(**flags)
    return caught.value


def test_a_pattern_is_searched_anywhere_in_the_name():
    assert set(targets(*rules(override_tensor="exps=CPU"))) == {name for name in NAMES if "exps" in name}


def test_the_first_match_wins():
    found = targets(*rules(override_tensor="up_exps=CUDA1,exps=CPU"))
    assert found["blk.1.ffn_up_exps.weight"] == "CUDA1"
    assert found["blk.1.ffn_down_exps.weight"] == "CPU"


def test_flags_count_in_their_order():
    assert targets(*rules(cpu_moe=True, override_tensor="exps=CUDA1"))["blk.1.ffn_up_exps.weight"] == "CPU"
    assert targets(*rules(override_tensor="exps=CUDA1", cpu_moe=True))["blk.1.ffn_up_exps.weight"] == "CUDA1"


def test_a_buffer_is_named_by_llama_cpp_or_by_its_device():
    assert rules(override_tensor="exps=RPC0[127.0.0.1:5000]")[0].target == "RPC0"
    assert rules(override_tensor="exps=RPC0")[0].target == "RPC0"


def test_cpu_moe_takes_all_routed_experts_and_no_shared_ones():
    assert set(targets(*rules(cpu_moe=True))) == {name for name in NAMES if "_exps" in name}
    assert rules(cpu_moe=False) == ()


def test_n_cpu_moe_counts_layers_from_the_first():
    moved = targets(*rules(n_cpu_moe=2))
    assert set(moved) == {name for name in NAMES if name.startswith("blk.1.") and "_exps" in name}


def test_n_cpu_moe_of_more_layers_than_there_are_takes_all():
    assert targets(*rules(n_cpu_moe=999)) == targets(*rules(cpu_moe=True))


def test_n_cpu_ffn_takes_dense_weights_only():
    assert set(targets(*rules(n_cpu_ffn=12))) == {"blk.0.ffn_up.weight"}


def test_what_each_rule_matches_and_wins():
    narrow, wide, layers = match_all(NAMES, rules(override_tensor="up_exps=CUDA1,exps=CPU", n_cpu_moe=2))
    assert (narrow.text, len(narrow.matched), len(narrow.won)) == ("up_exps=CUDA1", 11, 11)
    assert (wide.text, len(wide.matched), len(wide.won)) == ("exps=CPU", 33, 22)
    assert (layers.text, len(layers.matched), layers.won) == ("n-cpu-moe = 2", 3, ())


def test_a_pattern_that_matches_nothing_is_refused():
    with pytest.raises(ConfigError) as caught:
        check_matches(match_all(NAMES, rules(override_tensor="ffn_up_experts=CPU")), "a.toml: flags.{}".format)
    assert caught.value.message == (
        "a.toml: flags.override-tensor: 'ffn_up_experts=CPU' matches no tensor of this model"
    )


def test_cpu_moe_on_a_dense_model_is_refused():
    with pytest.raises(ConfigError, match="no tensor"):
        check_matches(match_all(NAMES[:2], rules(cpu_moe=True)), str)


def test_a_number_of_layers_may_move_nothing():
    check_matches(match_all(NAMES, rules(n_cpu_moe=1)), str)


def test_a_device_that_does_not_exist_is_refused():
    error = refused(override_tensor="exps=CUDA5")
    assert error.message == "a.toml: flags.override-tensor: 'CUDA5' in 'exps=CUDA5' is no device's memory"
    assert "did you mean CUDA1?" in error.hint


def test_page_locked_memory_cannot_be_asked_for():
    assert "there are RPC0, CUDA1, CPU" in refused(override_tensor="exps=CUDA_Host").hint


@pytest.mark.parametrize("text", ["exps", "blk.[0,1]=CPU", "exps=CPU,"])
def test_a_comma_ends_a_pattern(text):
    assert "cannot contain a comma" in refused(override_tensor=text).hint


def test_a_pattern_that_is_none_is_refused_with_the_reason():
    assert refused(override_tensor="(exps=CPU").message.endswith(
        "llama.cpp reads no pattern in '(exps': a parenthesis is not closed"
    )


@pytest.mark.parametrize("value", ["many", -1, 1.5])
def test_a_number_of_layers_is_whole(value):
    assert "no number of layers" in refused(n_cpu_moe=value).message


def test_devices_are_replaced_by_their_buffers():
    assert with_buffer_types("a=RPC1,b=CPU,(c|d)=RPC0", {"RPC1": "RPC0[h:1]"}) == "a=RPC0[h:1],b=CPU,(c|d)=RPC0"
