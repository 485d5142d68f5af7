from __future__ import annotations

import pytest

from k3prof.core.device import DeviceKind
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.layout.headroom import (
    MARGIN_BYTES,
    ComputeBuffers,
    ComputeOrigin,
    compute_margin,
    longest_context,
    mask_bytes_per_cell,
    memory_by_device,
)
from k3prof.core.layout.placement import place
from k3prof.core.layout.rig import Rig, RigDevice, RigHost
from tests.doubles import tiny_models

NOTHING = ComputeBuffers(ComputeOrigin.ASKED, {})
LAYER = 2 * (64 + 64 * 128 + 2 * 64 * 64 + 128 * 64 + 3 * 64 * 256)
HEAD = 2 * (64 + 64 * 1000)


def rig(*free_bytes, host=None):
    devices = (RigDevice(f"CUDA{i}", DeviceKind.CUDA, free_bytes=size) for i, size in enumerate(free_bytes))
    return Rig("r", tuple(devices), RigHost(memory_bytes=host))


def laid(machine, model=None, **flags):
    named = {"ctx-size": 512, "parallel": 1} | {name.replace("_", "-"): value for name, value in flags.items()}
    model = model or tiny_models.dense()
    return model, place(model, named, machine), FlagReader(named, str)


def test_each_device_has_its_own_verdict():
    # In total there is room for twice the model, but not on the second device.
    machine = rig(4 * LAYER, 1000)
    _, layout, _ = laid(machine, tensor_split=(2, 1))
    first, second, host = memory_by_device(layout, machine, NOTHING)
    assert (first.device, first.fits) == ("CUDA0", True)
    assert (second.device, second.fits) == ("CUDA1", False)
    assert second.headroom_bytes == 1000 - HEAD
    assert (host.device, host.fits) == ("CPU", None)


def test_what_a_device_needs_is_itemized():
    machine = rig(10**9, 10**9, host=10**9)
    model, layout, _ = laid(machine, tiny_models.experts(context_length=512), tensor_split=(1, 2), n_cpu_moe=2)
    compute = ComputeBuffers(ComputeOrigin.ASKED, {"CUDA0": 7, "CUDA1": 8, "CPU": 9})
    first, second, host = memory_by_device(layout, machine, compute)
    experts = sum(tensor.n_bytes for tensor in model.tensors if "exps" in tensor.name)
    assert (first.expert_bytes, second.expert_bytes, host.expert_bytes) == (0, 0, experts)
    assert first.kv_bytes == second.kv_bytes == 512 * 2 * 2 * 64
    assert [need.compute_bytes for need in (first, second, host)] == [7, 8, 9]
    for need in (first, second, host):
        assert need.needed_bytes == need.weight_bytes + need.kv_bytes + need.state_bytes + need.compute_bytes
        assert need.headroom_bytes == 10**9 - need.needed_bytes


def test_of_a_mapped_file_only_the_tensors_take_memory():
    machine = rig(10**9, host=10**9)
    _, layout, _ = laid(machine, override_tensor=r"^output\.=CPU")
    *_, host = memory_by_device(layout, machine, NOTHING)
    assert host.weight_bytes == 2 * 2 * 64 * 1000


def test_unknown_caches_leave_the_fit_unknown_unless_the_weights_alone_are_too_much():
    for free, fits in ((10**9, None), (10, False)):
        machine = rig(free)
        _, layout, _ = laid(machine, tiny_models.dense("no-such-model"))
        assert memory_by_device(layout, machine, NOTHING)[0].fits is fits


def test_a_device_of_unknown_memory_is_not_said_to_fit():
    machine = rig(None)
    _, layout, _ = laid(machine)
    assert memory_by_device(layout, machine, NOTHING)[0].fits is None


def test_the_mask_grows_with_batch_and_copies():
    # llama-fit-params on a full-size Kimi-K3: 4,096 bytes per token of context when pipelined, 1,024 when not.
    assert mask_bytes_per_cell(*laid(rig(1, 1), ctx_size=8192)) == 4096
    assert mask_bytes_per_cell(*laid(rig(1, 1), ctx_size=8192, kv_offload=False)) == 1024
    assert mask_bytes_per_cell(*laid(rig(1, 1), ctx_size=8192, ubatch_size=256)) == 2048


def test_without_flash_attention_the_scores_of_every_head_are_kept():
    # Kimi-K3, 96 heads: 204,800 bytes per token of context; here 4 heads.
    assert mask_bytes_per_cell(*laid(rig(1, 1), ctx_size=8192, flash_attn="off")) == 4 * 512 * (4 + 4)


def test_a_batch_is_no_larger_than_the_context():
    assert mask_bytes_per_cell(*laid(rig(1), ctx_size=256)) == 2 * 256


def test_the_margin_says_that_it_is_one():
    margin = compute_margin(*laid(rig(1, 1), ctx_size=8192))
    assert margin.origin is ComputeOrigin.MARGIN
    assert margin.by_device == dict.fromkeys(("CUDA0", "CUDA1", "CPU"), MARGIN_BYTES + 8192 * 4096)


@pytest.mark.parametrize("tokens", [256, 1024, 65536])
def test_the_longest_context_is_the_longest_that_fits(tokens):
    machine = rig(MARGIN_BYTES + 2 * LAYER + HEAD + 300 * 2**20)
    model, layout, reader = laid(machine, ctx_size=tokens)
    memory = memory_by_device(layout, machine, compute_margin(model, layout, reader))
    longest = longest_context(model, layout, memory, reader)["CUDA0"]
    # Per token: two layers of K and V, and a mask of f16 for as many tokens of a batch as there are, up to 512.
    assert longest == pytest.approx(300 * 2**20 / (2 * 2 * 2 * 64 + 2 * min(tokens, 512)), rel=0.01)
    assert longest % 256 == 0


def test_no_context_helps_where_the_weights_are_too_large():
    machine = rig(LAYER)
    model, layout, reader = laid(machine)
    memory = memory_by_device(layout, machine, NOTHING)
    assert longest_context(model, layout, memory, reader) == {"CUDA0": 0}
