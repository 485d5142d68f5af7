from __future__ import annotations

import pytest

from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.context_cost import context_cost
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.placed import lay_out
from k3prof.core.layout.rig import Rig, parse_rig
from k3prof.llama.gguf import read_model
from tests.doubles import tiny_models
from tests.doubles.full_size_k3 import write_full_size_k3

A40 = {f"CUDA{i}": Bandwidth("A40", 696, "datasheet") for i in range(5)}


def placed(model, machine, **flags):
    named = {"ctx-size": 4096, "parallel": 1} | {name.replace("_", "-"): value for name, value in flags.items()}
    return lay_out(model, named, machine, str)


def test_context_costs_on_each_device_what_its_cache_holds_per_token():
    one = placed(tiny_models.dense(), parse_rig("3xA40"))
    cost = context_cost(one, A40)
    allocated = {name: one.layout.size_bytes(BufferKind.KV, name) for name in one.layout.devices}
    assert cost.bytes_by_device == {name: size // 4096 for name, size in allocated.items() if size}


def test_kv_bytes_of_a_full_size_model_over_an_a40s_bandwidth_give_the_slope(tmp_path):
    model = read_model(write_full_size_k3(tmp_path / "k3.gguf"))
    cost = context_cost(placed(model, parse_rig("5xA40")), A40)
    # 24 of 93 layers keep one latent of 512 + 64 numbers of two bytes for each token.
    assert cost.n_bytes == 24 * 576 * 2
    assert cost.ms_per_1000_tokens() == pytest.approx(24 * 576 * 2 * 1000 / 696e9 * 1e3)
    assert cost.ms_per_1000_tokens(streams=8) == pytest.approx(8 * cost.ms_per_1000_tokens())


def test_quantized_caches_cost_less():
    whole, quantized = (
        context_cost(placed(tiny_models.dense(), parse_rig("A40"), cache_type_k=kind, cache_type_v=kind), A40)
        for kind in ("f16", "q8_0")
    )
    assert quantized.n_bytes / whole.n_bytes == pytest.approx(34 / 64)  # 32 numbers: 32 bytes and a scale, or 64 bytes


def test_a_device_of_unknown_speed_makes_the_slope_unknown_not_zero():
    cost = context_cost(placed(tiny_models.dense(), parse_rig("A40")), {})
    assert cost.of_unknown_speed == ("CUDA0",)
    assert cost.ms_per_1000_tokens() is None


def test_caches_kept_on_the_host_are_read_at_its_speed():
    one = placed(tiny_models.dense(), parse_rig("A40"), kv_offload=False)
    cost = context_cost(one, {"CPU": Bandwidth("host", 20, "measured")})
    assert set(cost.bytes_by_device) == {"CPU"}
    assert cost.ms_per_1000_tokens() == pytest.approx(cost.n_bytes * 1000 / 20e9 * 1e3)


def test_an_empty_rig_has_its_caches_on_the_host():
    assert set(context_cost(placed(tiny_models.dense(), Rig("cpu", ())), {}).bytes_by_device) == {"CPU"}
