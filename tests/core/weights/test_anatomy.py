from __future__ import annotations

import gguf
import pytest

from k3prof.core.layout.hardware import DATASHEETS, Bandwidth
from k3prof.core.weights.anatomy import TRUNK_TYPES, dissect, tokens_per_s
from k3prof.core.weights.roles import Role
from k3prof.core.weights.traffic import ForwardPass
from k3prof.llama.gguf import read_model
from tests.doubles import tiny_models
from tests.doubles.full_size_k3 import K3, write_full_size_k3

A40 = DATASHEETS[0]


def k3(folder, **changed):
    return read_model(write_full_size_k3(folder / "k3.gguf", K3(tokens=100, **changed)))


@pytest.mark.parametrize(
    ("trunk", "routed_gb", "trunk_gb", "rate"), [("Q8_0", 6.93, 60.8, 10.1), ("Q6_K", 6.93, 47.6, 12.6)]
)
def test_one_a40_reads_k3_at_best_ten_times_a_second(tmp_path, trunk, routed_gb, trunk_gb, rate):
    anatomy = dissect(k3(tmp_path, trunk=gguf.GGMLQuantizationType[trunk]), ForwardPass(), [A40])
    routed = next(share for share in anatomy.shares if share.role is Role.ROUTED_EXPERTS)
    assert routed.read_bytes / 1e9 == pytest.approx(routed_gb, abs=0.005)
    assert routed.bits_per_weight == pytest.approx(1.14, abs=0.001)
    assert anatomy.variants[0].trunk_bytes / 1e9 == pytest.approx(trunk_gb, abs=0.05)
    assert anatomy.variants[0].tokens_per_s(A40, 1) == pytest.approx(rate, abs=0.05)


@pytest.mark.parametrize("trunk", TRUNK_TYPES)
def test_a_trunk_of_another_format_is_predicted_as_a_file_of_that_format_has_it(tmp_path, trunk):
    # Where rows do not fill blocks, the double's Q4_K file has Q8_0 and llama-quantize takes Q5_0: 0.2 % differ.
    predicted = next(v for v in dissect(k3(tmp_path), ForwardPass(), []).variants if v.type_name == trunk)
    written = dissect(k3(tmp_path, trunk=gguf.GGMLQuantizationType[trunk]), ForwardPass(), []).variants[0]
    assert predicted.trunk_bytes == pytest.approx(written.trunk_bytes, rel=0.003)


def test_the_shares_add_up_to_the_file_and_to_the_pass():
    model = tiny_models.experts()
    anatomy = dissect(model, ForwardPass(depth=10), [A40])
    assert sum(share.n_bytes for share in anatomy.shares) == model.n_bytes
    assert sum(share.n_elements for share in anatomy.shares) == model.parameters
    assert anatomy.total_bytes == anatomy.weight_bytes + anatomy.kv_bytes + anatomy.state_bytes
    assert anatomy.variants[0].read_bytes == anatomy.total_bytes


def test_formats_of_a_role_are_told_apart():
    tensors = {"blk.0.ffn_up.weight": (256, 64), "blk.0.ffn_down.weight": (256, 64)}
    model = tiny_models.model("qwen3", {"block_count": 1}, tensors, {"blk.0.ffn_down.weight": "Q4_K"})
    (share,) = dissect(model, ForwardPass(), []).shares
    assert share.type_bytes == (("F16", 2 * 256 * 64), ("Q4_K", 64 * 144))


def test_a_tied_embedding_gives_an_output_head_without_bytes_of_its_own():
    shares = {share.role: share for share in dissect(tiny_models.dense(tied=True), ForwardPass(), []).shares}
    head = shares[Role.OUTPUT]
    assert (head.n_bytes, head.bits_per_weight, head.read_bytes) == (0, None, 2 * 64 * 1000)


def test_mtp_layers_are_stored_and_not_read():
    shares = dissect(tiny_models.dense("glm4moe", nextn_predict_layers=1), ForwardPass(), []).shares
    mtp = next(share for share in shares if share.role is Role.MTP)
    assert mtp.n_bytes > 0
    assert mtp.read_bytes is None


def test_unknown_caches_leave_the_total_unknown_and_the_weights_known():
    anatomy = dissect(tiny_models.dense("gemma3"), ForwardPass(), [A40])
    assert (anatomy.total_bytes, anatomy.kv_bytes, anatomy.state_bytes, anatomy.caches) == (None, None, None, None)
    assert anatomy.variants[0].read_bytes == anatomy.weight_bytes > 0


def test_a_ceiling_is_bandwidth_over_bytes():
    assert tokens_per_s(2e9, Bandwidth("x", 100, "given"), tokens=3) == 150
    assert tokens_per_s(0, A40) is None


def test_several_streams_share_what_is_always_read():
    model = tiny_models.dense()
    one, four = (dissect(model, ForwardPass(n, n, 50), []) for n in (1, 4))
    assert four.variants[0].trunk_bytes < 1.01 * one.variants[0].trunk_bytes
    assert four.kv_bytes == 4 * one.kv_bytes
