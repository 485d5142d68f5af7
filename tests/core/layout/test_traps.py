from __future__ import annotations

import pytest

from k3prof.core.device import DeviceKind
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.layout.placed import lay_out
from k3prof.core.layout.rig import Rig, RigDevice
from k3prof.core.layout.traps import find_traps, split_mode_trap
from tests.doubles import tiny_models

MOE_LAYER = {"attn_q": (64, 64), "ffn_gate_exps": (64, 32, 8), "ffn_up_exps": (64, 32, 8), "ffn_down_exps": (32, 64, 8)}


def moe(layers=8, architecture="qwen3moe", **keys):
    """Experts in every layer but the first."""
    base = {
        "block_count": layers,
        "embedding_length": 64,
        "context_length": 512,
        "attention.head_count": 2,
        "expert_count": 8,
        "expert_used_count": 2,
    }
    tensors = {"token_embd.weight": (64, 100), "output.weight": (64, 100), "blk.0.ffn_up.weight": (64, 64)}
    tensors |= {f"blk.{n}.{stem}.weight": shape for n in range(1, layers) for stem, shape in MOE_LAYER.items()}
    return tiny_models.model(architecture, base | keys, tensors)


def rig(count=2, kind=DeviceKind.CUDA, **known):
    return Rig("r", tuple(RigDevice(f"CUDA{index}", kind, **known) for index in range(count)))


def traps(model=None, machine=None, **flags):
    named = {"fit": "off"} | {name.replace("_", "-"): value for name, value in flags.items()}
    return {one.code: one for one in find_traps(lay_out(model or moe(), named, machine or rig(), "flags.{}".format))}


def test_a_plain_placement_has_no_traps():
    assert traps() == {}


def test_n_cpu_moe_empties_the_first_device():
    found = traps(n_cpu_moe=4)["n-cpu-moe-lopsided"]
    assert "CUDA0 holds" in found.message
    assert "tensor-split" in found.remedy


def test_n_cpu_moe_that_was_balanced_is_no_trap():
    assert "n-cpu-moe-lopsided" not in traps(n_cpu_moe=4, tensor_split=(3, 2))
    assert "n-cpu-moe-lopsided" not in traps(n_cpu_moe=8)
    assert "n-cpu-moe-lopsided" not in traps(n_cpu_moe=4, machine=rig(1))


def test_n_cpu_moe_over_dense_layers_moves_nothing():
    assert traps(n_cpu_moe=1)["n-cpu-moe-moves-nothing"].message.startswith("n-cpu-moe = 1 moves nothing")


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        ({"n_cpu_moe": 4}, "n-cpu-moe is set"),
        ({"override_tensor": "attn_q=CPU"}, "override-tensor is set"),
        ({"n_gpu_layers": 99}, "n-gpu-layers is set"),
        ({"tensor_split": (1, 1)}, "tensor-split is set"),
        ({"cpu_moe": True, "tensor_split": (1, 1)}, "cpu-moe is set and tensor-split is set"),
    ],
)
def test_fit_gives_up_where_something_is_set(flags, reason):
    assert f"because {reason};" in traps(fit="on", **flags)["fit-gives-up"].message


def test_fit_that_gives_up_may_have_shortened_the_context():
    assert "shorter context" in traps(fit="on", n_gpu_layers=99)["fit-gives-up"].message
    assert "shorter context" not in traps(fit="on", n_gpu_layers=99, ctx_size=512)["fit-gives-up"].message


def test_fit_decides_where_nothing_is_set():
    assert set(traps(fit="on")) == {"fit-decides"}
    assert set(traps(fit="on", n_gpu_layers="auto", n_cpu_moe=0)) == {"fit-decides"}


def test_rules_for_tensors_switch_pipelining_off():
    assert "n-cpu-moe" in traps(n_cpu_moe=8)["no-pipelining"].message
    assert "kv-offload" in traps(kv_offload=False)["no-pipelining"].message
    assert "n-gpu-layers" in traps(n_gpu_layers=3)["no-pipelining"].message
    assert "no-pipelining" not in traps(n_cpu_moe=8, machine=rig(1))


def test_a_rule_in_the_shadow_of_another_is_named():
    message = traps(override_tensor="exps=CPU,up_exps=CUDA1")["pattern-shadowed"].message
    assert message.startswith("up_exps=CUDA1 matches 7 tensors, of which rules before it take 7")


def test_formats_without_a_kernel_are_named():
    model = tiny_models.model(
        "qwen3",
        {"block_count": 1, "embedding_length": 256, "attention.head_count": 4, "context_length": 256},
        {"blk.0.ffn_up.weight": (256, 256), "token_embd.weight": (256, 100)},
        {"blk.0.ffn_up.weight": "TQ2_0"},
    )
    assert "CUDA multiplies no TQ2_0: 1 tensors" in traps(model)["no-kernel"].message
    assert "no-kernel" not in traps(model, override_tensor="ffn_up=CPU")


def test_experts_in_a_mapped_file_are_slow_to_copy():
    assert "overrides-mapped" in traps(n_cpu_moe=8)
    assert "overrides-mapped" not in traps(n_cpu_moe=8, load_mode="none")


def test_a_mapped_range_is_larger_than_what_is_used_of_it():
    assert "mapped-range" in traps(override_tensor=r"blk\.7\.ffn_up_exps=CPU")
    assert "mapped-range" not in traps()


def test_layers_on_the_edge_of_equal_gpus():
    gpus = rig(2, memory_bytes=48 * 10**9)
    found = traps(moe(7), gpus)["split-on-the-edge"]
    assert "layer 4 may go to either" in found.message
    assert found.remedy == "set tensor-split = [1, 1]"
    assert "split-on-the-edge" not in traps(moe(8), gpus)
    assert "split-on-the-edge" not in traps(moe(7), gpus, tensor_split=(1, 1))


def test_attention_residuals_ping_pong():
    # 3D - 1 splits for D devices.
    assert ", 5 splits" in traps(moe(architecture="kimi-k3"))["residual-ping-pong"].message
    assert ", 8 splits" in traps(moe(architecture="kimi-k3"), rig(3))["residual-ping-pong"].message
    assert "residual-ping-pong" not in traps(moe(architecture="kimi-k3"), rig(1))


def test_cache_reuse_on_a_recurrent_model():
    keys = {
        "attention.head_count_kv": (0,) * 8,
        "kda.head_dim": 32,
        "ssm.conv_kernel": 4,
    }
    recurrent = moe(architecture="kimi-linear", **keys)
    assert "kimi-linear" in traps(recurrent, cache_reuse=256)["cache-reuse"].message
    assert "cache-reuse" not in traps(recurrent, cache_reuse=0)
    assert "cache-reuse" not in traps(cache_reuse=256)


def test_what_is_not_counted_is_named():
    assert "model-draft" in traps(model_draft="draft.gguf")["not-counted"].message


@pytest.mark.parametrize(
    ("mode", "architecture", "message"),
    [
        ("tensor", "kimi-k3", "llama-server refuses split-mode tensor for kimi-k3"),
        ("tensor", "qwen3", "split-mode tensor cuts every tensor over all devices, which is not predicted"),
        ("row", "qwen3", "llama-server refuses split-mode row on CUDA and on stand-ins"),
    ],
)
def test_splits_that_are_not_by_layers(mode, architecture, message):
    found = split_mode_trap(tiny_models.dense(architecture), FlagReader({"split-mode": mode}, str))
    assert found.message == message


@pytest.mark.parametrize("flags", [{}, {"split-mode": "layer"}, {"split-mode": "none"}])
def test_splits_by_layers_are_no_trap(flags):
    assert split_mode_trap(tiny_models.dense("kimi-k3"), FlagReader(flags, str)) is None
