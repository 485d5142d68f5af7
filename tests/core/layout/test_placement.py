from __future__ import annotations

import pytest

from k3prof.core.device import DeviceKind
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.placement import place
from k3prof.core.layout.rig import Rig, RigDevice
from k3prof.errors import ConfigError
from tests.doubles import tiny_models

GPUS = Rig("two", (RigDevice("CUDA0", DeviceKind.CUDA), RigDevice("CUDA1", DeviceKind.CUDA)))
STAND_INS = Rig("two", tuple(RigDevice(f"RPC{i}", DeviceKind.STAND_IN, buffer_type=f"RPC0[h:{i}]") for i in range(2)))

# tiny_models.dense: two layers of F16 weights, in bytes.
LAYER = 2 * (64 + 64 * 128 + 2 * 64 * 64 + 128 * 64 + 3 * 64 * 256)
TABLE = 2 * 64 * 1000
NORM = 2 * 64


def lay(model, rig, **flags):
    return place(model, {name.replace("_", "-"): value for name, value in flags.items()}, rig)


def refused(rig=GPUS, model=None, **flags):
    with pytest.raises(ConfigError) as caught:
        lay(model or tiny_models.dense(), rig, **flags)
    return caught.value


def weights(layout, device):
    return layout.size_bytes(BufferKind.MODEL, device)


def named(layout, kind=BufferKind.MODEL):
    return {(one.name, one.device): one.n_bytes for one in layout.buffers if one.kind is kind}


def test_layers_follow_the_split_and_the_embedding_stays_on_the_host():
    layout = lay(tiny_models.dense(), STAND_INS, load_mode="none")
    assert layout.layer_devices == ("RPC0", "RPC0", "RPC1")
    assert named(layout) == {
        ("CPU", "CPU"): TABLE,
        ("RPC0[h:0]", "RPC0"): 2 * LAYER,
        ("RPC0[h:1]", "RPC1"): TABLE + NORM,
    }


def test_a_tied_table_is_loaded_twice():
    layout = lay(tiny_models.dense(tied=True), STAND_INS, load_mode="none")
    assert weights(layout, "CPU") == TABLE
    assert weights(layout, "RPC1") == TABLE + NORM


def test_a_tied_table_that_stays_on_the_host_is_loaded_once():
    layout = lay(tiny_models.dense(tied=True), STAND_INS, load_mode="none", n_gpu_layers=0)
    assert weights(layout, "CPU") == TABLE + NORM + 2 * LAYER
    assert layout.layer_devices == ("CPU",) * 3


def test_on_a_machine_without_devices_everything_is_on_the_host():
    layout = lay(tiny_models.dense(), Rig("none", ()), load_mode="none")
    assert layout.devices == ("CPU",)
    assert weights(layout, "CPU") == 2 * TABLE + NORM + 2 * LAYER


def test_a_mapped_model_lists_a_range_of_the_file():
    # The embedding comes first in the file and the output third: the norm between them is counted in.
    layout = lay(tiny_models.dense(), STAND_INS, override_tensor=r"^output\.=CPU")
    assert named(layout)["CPU_Mapped", "CPU"] == 2 * TABLE + NORM


def test_gpus_offer_page_locked_memory_unless_the_file_is_mapped():
    assert ("CUDA_Host", "CPU") in named(lay(tiny_models.dense(), GPUS, load_mode="none"))
    assert ("CPU_Mapped", "CPU") in named(lay(tiny_models.dense(), GPUS))
    assert ("CPU", "CPU") in named(lay(tiny_models.dense(), GPUS, load_mode="none", no_host=True))


def test_a_weight_without_a_cuda_kernel_stays_on_the_host():
    model = tiny_models.model(
        "qwen3",
        {"block_count": 1, "embedding_length": 256, "attention.head_count": 4},
        {"blk.0.attn_q.weight": (256, 256), "blk.0.ffn_up.weight": (256, 256)},
        {"blk.0.ffn_up.weight": "TQ2_0"},
    )
    placed = {one.tensor.name: one.device for one in lay(model, GPUS, ctx_size=256).tensors}
    assert placed == {"blk.0.attn_q.weight": "CUDA0", "blk.0.ffn_up.weight": "CPU"}
    placed = {one.tensor.name: one.device for one in lay(model, STAND_INS, ctx_size=256).tensors}
    assert placed["blk.0.ffn_up.weight"] == "RPC0"


def test_each_device_with_layers_has_its_own_copy_of_rope_factors():
    tensors = {"rope_freqs.weight": (16,), "blk.0.attn_q.weight": (64, 64), "blk.1.attn_q.weight": (64, 64)}
    keys = {"block_count": 2, "embedding_length": 64, "attention.head_count": 2, "context_length": 256}
    layout = lay(tiny_models.model("llama", keys, tensors), STAND_INS, tensor_split=(1, 2))
    assert [one.device for one in layout.tensors if one.tensor.name == "rope_freqs.weight"] == ["RPC0", "RPC1"]


def test_the_kv_cache_lies_with_its_layer():
    layout = lay(tiny_models.dense(), STAND_INS, ctx_size=512, parallel=1, tensor_split=(1, 2))
    per_layer = 512 * 2 * 2 * (32 + 32)
    assert named(layout, BufferKind.KV) == {("RPC0[h:0]", "RPC0"): per_layer, ("RPC0[h:1]", "RPC1"): per_layer}


def test_rules_for_tensors_do_not_move_the_kv_cache():
    layout = lay(tiny_models.dense(), STAND_INS, ctx_size=512, override_tensor=r"blk\.=CPU")
    assert set(named(layout, BufferKind.KV)) == {("RPC0[h:0]", "RPC0")}


def test_without_kv_offload_the_caches_are_on_the_host():
    layout = lay(tiny_models.dense(), STAND_INS, ctx_size=512, kv_offload=False)
    assert set(named(layout, BufferKind.KV)) == {("CPU", "CPU")}
    assert layout.cache_device(0) == "CPU"


def test_cuda_pads_a_quantized_cache():
    # Rows of 64 elements, padded as if the last had 512: 448 more, as 14 blocks of 34 bytes, for K and for V.
    layout = lay(
        tiny_models.dense(),
        GPUS,
        ctx_size=512,
        parallel=1,
        cache_type_k="q8_0",
        cache_type_v="q8_0",
        tensor_split=(1, 2),
    )
    tensor = 512 * 68 + 14 * 34
    assert named(layout, BufferKind.KV)["CUDA0", "CUDA0"] == 2 * -(-tensor // 128) * 128


def test_an_unknown_architecture_has_weights_but_no_known_caches():
    layout = lay(tiny_models.dense("no-such-model"), STAND_INS, ctx_size=512)
    assert weights(layout, "RPC0") == 2 * LAYER
    assert layout.size_bytes(BufferKind.KV, "RPC0") is None


def test_one_device_can_be_chosen():
    assert lay(tiny_models.dense(), GPUS, split_mode="none", main_gpu=1).devices == ("CUDA1", "CPU")
    assert lay(tiny_models.dense(), GPUS, split_mode="none", main_gpu=-1).devices == ("CPU",)


def test_devices_are_used_in_the_order_given():
    layout = lay(tiny_models.dense(), GPUS, device="CUDA1,CUDA0")
    assert layout.layer_devices == ("CUDA1", "CUDA1", "CUDA0")
    assert lay(tiny_models.dense(), GPUS, device="none").devices == ("CPU",)


def test_unequal_gpus_share_by_what_they_have_free():
    large, small = (RigDevice(f"CUDA{i}", DeviceKind.CUDA, free_bytes=size) for i, size in enumerate((80_000, 20_000)))
    model = tiny_models.dense(block_count=9)
    assert lay(model, Rig("r", (large, small))).layer_devices.count("CUDA0") == 8


def test_prompts_are_pipelined_only_over_whole_layers_on_several_devices():
    assert lay(tiny_models.dense(), GPUS).pipelined
    assert not lay(tiny_models.dense(), GPUS, n_gpu_layers=2).pipelined
    assert not lay(tiny_models.dense(), GPUS, kv_offload=False).pipelined
    assert not lay(tiny_models.dense(), GPUS, override_tensor="attn_q=CPU").pipelined
    assert not lay(tiny_models.dense(), GPUS, split_mode="none").pipelined
    assert not lay(tiny_models.experts(context_length=256), GPUS, n_cpu_moe=1).pipelined


def test_a_device_that_does_not_exist_is_refused():
    error = refused(device="CUDA2")
    assert error.message == "flags.device: there is no 'CUDA2'"
    assert error.hint.endswith("there are CUDA0, CUDA1")
    assert refused(split_mode="none", main_gpu=2).message == "flags.main-gpu: there is no device 2"


def test_more_shares_than_devices_are_refused():
    assert refused(tensor_split=(1, 1, 1)).message == "flags.tensor-split: 3 shares for 2 devices (CUDA0, CUDA1)"


def test_a_split_that_is_not_by_layers_is_refused():
    assert refused(split_mode="tensor").message == "flags.split-mode: k3prof predicts no split by tensors"
    assert refused(split_mode="layers").hint.startswith("did you mean layer?")


def test_a_rule_to_a_device_that_is_not_used_is_refused():
    assert "is no device's memory" in refused(device="CUDA0", override_tensor="attn_q=CUDA1").message
