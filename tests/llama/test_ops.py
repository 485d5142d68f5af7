from __future__ import annotations

import re
from dataclasses import replace

import gguf
import numpy as np
import psutil
import pytest

from k3prof.core.build import Build
from k3prof.core.ops.op_graph import OpNode, Part, place_nodes, stretches
from k3prof.core.ops.op_profile import profile
from k3prof.core.ops.op_record import OpRecord, OpRequest, Timing
from k3prof.core.weights.roles import Role
from k3prof.errors import MachineError
from k3prof.llama.ops import Progress, record_ops
from k3prof.workflows.model_file import find_model
from tests.doubles.loadable_models import deepseek2, glm4moe, kimi_linear, qwen3, write_loadable
from tests.doubles.other_libllama import other_libllama

LAYER = OpRequest(Timing.LAYER, tokens=2, prompt=0, threads=1)
NODE = OpRequest(Timing.NODE, tokens=3, prompt=20, threads=1)
DEMOS = ("demo:k3-tiny", "demo:qwen3moe", "demo:llama")

NAMED_BY_LAYER = re.compile(r"(?P<stem>[A-Za-z_0-9]+)-(?P<layer>\d+)")
PART_OF_NAME = {
    "ffn_moe": {Part.MOE},
    "ffn_out": {Part.MOE, Part.DENSE},
    "l_out": {Part.MOE, Part.DENSE},
    "kda": {Part.KDA},
    "mla": {Part.MLA},
    "fattn_mla": {Part.MLA},
    "Qcur": {Part.GQA},
    "Kcur": {Part.GQA},
    "kqv_out": {Part.GQA, Part.MLA},
    "ffn_inp": {Part.GQA, Part.MLA},
    "attn_norm": {Part.KDA, Part.MLA, Part.GQA},
    "ffn_norm": {Part.MOE, Part.DENSE},
    "res_probs": {Part.RESIDUALS},
}
"""What llama.cpp's own names of nodes say (`cb` in src/models/*.cpp)."""


@pytest.fixture(scope="module")
def recorded(build: Build) -> dict[str, tuple[OpRecord, ...]]:
    return {name: record_ops(build, find_model(name).path, NODE) for name in DEMOS}


@pytest.mark.parametrize("name", DEMOS)
def test_a_prompt_and_single_tokens_are_timed_by_stretch_and_by_node(recorded, name):
    prefill, decode = recorded[name]
    assert (prefill.kind, prefill.tokens, prefill.depth) == ("pp", 20, 0)
    assert (decode.kind, decode.tokens) == ("tg", 1)
    assert decode.depth >= 20
    assert len(decode.by_stretch.plain_ns) == 3
    for record in (prefill, decode):
        places = place_nodes(record.nodes, find_model(name).header)
        assert record.by_node is not None
        assert {len(row) for row in record.by_node.computed_ns} == {sum(node.works for node in record.nodes)}
        assert {len(row) for row in record.by_stretch.computed_ns} == {stretches(record.nodes, places)[-1] + 1}
        assert min(record.idle_ns) > 0
        for timed in (record.by_stretch, record.by_node):
            assert len(timed.plain_ns) == len(timed.whole_ns) == len(timed.computed_ns)
            for whole_ns, computed_ns in zip(timed.whole_ns, timed.computed_ns, strict=True):
                assert 0 < sum(computed_ns) < whole_ns


@pytest.mark.parametrize("name", DEMOS)
def test_shares_of_the_real_library_sum_to_one(recorded, name):
    for record in recorded[name]:
        found = profile(record, find_model(name).header)
        for shares in (found.by_part, found.by_layer, found.by_role, found.by_op):
            assert shares is not None
            assert sum(share.frac for share in shares) == pytest.approx(1)
            assert all(share.frac >= 0 for share in shares)
        layers = [share.name for share in found.by_layer]
        assert layers == [*map(str, range(len(find_model(name).header.geometry.layers))), "outside"]


@pytest.mark.parametrize("name", DEMOS)
def test_nodes_are_placed_as_llama_cpps_own_names_say(recorded, name):
    for record in recorded[name]:
        checked = 0
        for node, place in zip(record.nodes, place_nodes(record.nodes, find_model(name).header), strict=True):
            if (named := NAMED_BY_LAYER.fullmatch(node.name)) is None or not node.works:
                continue
            assert place.layer == int(named["layer"]), node
            stem = next((stem for stem in PART_OF_NAME if named["stem"].startswith(stem)), None)
            if stem is not None:
                checked += 1
                assert place.part in PART_OF_NAME[stem], node
        assert checked > 20


def test_every_weight_of_the_model_is_seen_in_use(recorded):
    for name in DEMOS:
        header = find_model(name).header
        used = {source for node in recorded[name][0].nodes for source in node.sources if isinstance(source, str)}
        # Before its first layer a Kimi-K3 has nothing to mix: only the embedding.
        unused = {tensor.name for tensor in header.tensors} - used
        assert unused == ({"blk.0.attn_res_score.weight"} if name == "demo:k3-tiny" else set())
        roles = {place.role for place in place_nodes(recorded[name][0].nodes, header)} - {None}
        assert roles >= {tensor.role for tensor in header.tensors} | {Role.OUTPUT}


@pytest.mark.parametrize("make", [qwen3, glm4moe, deepseek2, kimi_linear])
def test_models_of_other_architectures_without_a_tokenizer_are_profiled(build, tmp_path, make):
    path = write_loadable(tmp_path / "model.gguf", *make())
    header = find_model(str(path)).header
    (record,) = record_ops(build, path, LAYER)
    placed = list(zip(record.nodes, place_nodes(record.nodes, header), strict=True))
    for node, place in placed:
        if (named := NAMED_BY_LAYER.fullmatch(node.name)) and node.works:
            assert place.layer == int(named["layer"]), node
    assert Part.OTHER not in {place.part for node, place in placed if node.works}
    assert {place.layer for _, place in placed} == {None, *range(header.geometry.trunk_layers)}


def test_overrides_reach_the_library(build):
    file = find_model("demo:k3-tiny")
    few = replace(LAYER, overrides=(("kimi-k3.expert_used_count", 4),))
    chosen = {
        request: [node.n_bytes for node in record_ops(build, file.path, request)[0].nodes if "topk" in node.name]
        for request in (LAYER, few)
    }
    # One index of 4 bytes per expert, in each layer but the first.
    assert chosen == {LAYER: [16 * 4] * 6, few: [4 * 4] * 6}


def test_it_tells_how_far_it_is(build):
    heard: list[Progress] = []
    record_ops(build, find_model("demo:llama").path, replace(LAYER, prompt=5), heard.append)
    assert [progress.stage for progress in heard] == ["loading", *["prefill"] * 9, "decode", "decode"]
    assert heard[-1] == Progress("decode", 1, 2)


def test_an_interrupt_leaves_no_process(build):
    def interrupt(progress: Progress) -> None:
        if progress.stage == "decode":
            raise KeyboardInterrupt

    before = set(psutil.Process().children())
    with pytest.raises(KeyboardInterrupt):
        record_ops(build, find_model("demo:llama").path, LAYER, interrupt)
    assert set(psutil.Process().children()) <= before


def test_a_model_that_the_library_does_not_know_is_one_error_with_its_reason(build, tmp_path):
    writer = gguf.GGUFWriter(tmp_path / "odd.gguf", "no-such-arch")
    writer.add_uint32("no-such-arch.block_count", 1)
    writer.add_tensor("token_embd.weight", np.zeros((4, 32), np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(MachineError, match=r"odd\.gguf: .*does not load it: .*no-such-arch"):
        record_ops(build, tmp_path / "odd.gguf", LAYER)


def test_a_build_without_libllama_is_refused(tmp_path):
    with pytest.raises(MachineError, match="does not load libllama of build 'empty'"):
        record_ops(Build("empty", str(tmp_path), "", "", "", (), "registered", "", True), tmp_path, LAYER)


def test_without_llama_cpp_python_it_says_what_to_install(build, tmp_path, monkeypatch):
    (tmp_path / "llama_cpp.py").write_text("import k3_no_such_module")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(MachineError, match="module k3_no_such_module is missing") as raised:
        record_ops(build, tmp_path, LAYER)
    assert "make setup" in raised.value.hint


@pytest.mark.parametrize(
    ("bodies", "said", "hint"),
    [
        ({"llama_n_batch": ""}, "does not load libllama of build 'other'", "k3prof build"),
        ({}, "does not load it: it printed nothing", ""),
        ({"llama_model_load_from_file": "return 1;"}, "makes no context for it", ""),
        (
            {"llama_model_load_from_file": "return 1;", "llama_init_from_model": "return 1;"},
            r"of another version than llama-cpp-python \d.* is made for: asked for batch, threads and sequences",
            "k3prof build",
        ),
        ({"llama_model_load_from_file": "abort();"}, "crashed while loading: SIGABRT", "another version"),
    ],
)
def test_a_library_of_another_version_is_one_clear_error(build, tmp_path, bodies, said, hint):
    other = other_libllama(tmp_path, build, bodies)
    with pytest.raises(MachineError, match=said) as raised:
        record_ops(other, find_model("demo:llama").path, LAYER)
    assert hint in raised.value.hint
    assert "Traceback" not in raised.value.message


def test_a_build_whose_ggml_cannot_be_read_is_one_clear_error(build, tmp_path):
    other = other_libllama(tmp_path, build, {"llama_model_load_from_file": "return 1;"})
    (tmp_path / "libggml-base.so").unlink()
    with pytest.raises(MachineError, match=r"another version than llama-cpp-python .*libggml-base\.so") as raised:
        record_ops(other, find_model("demo:llama").path, LAYER)
    assert "k3prof build" in raised.value.hint


def test_a_recorder_that_is_killed_is_told_as_such(build):
    def kill(progress: Progress) -> None:
        (recorder,) = (one for one in psutil.Process().children() if "op_recorder" in " ".join(one.cmdline()))
        recorder.kill()

    with pytest.raises(MachineError, match="failed while loading: killed by SIGKILL"):
        record_ops(build, find_model("demo:llama").path, LAYER, kill)


def test_a_tensor_is_described_with_what_it_is_computed_from(recorded):
    nodes = recorded["demo:llama"][1].nodes
    (scores,) = (node for node in nodes if node.name == "result_output")
    assert isinstance(scores, OpNode)
    assert scores.op == "MUL_MAT"
    assert scores.sources[0] == "token_embd.weight"
    assert nodes[int(scores.sources[1])].name == "result_norm"
    assert scores.n_bytes % 4 == 0
