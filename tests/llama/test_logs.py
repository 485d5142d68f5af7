from __future__ import annotations

import dataclasses
import random
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.evidence.loaded import BufferKind, FitStatus, LoadedServer
from k3prof.core.trial import RequestStatus
from k3prof.llama.logs import read_log

LOGS = Path(__file__).parent / "logs"
RECORDED = sorted(path.name for path in LOGS.glob("*.*"))
OLD = sorted(f"old/{path.name}" for path in LOGS.glob("old/*.log"))


@cache
def text_of(name: str) -> str:
    return (LOGS / name).read_text(errors="replace")


@cache
def reading(name: str) -> LoadedServer:
    return read_log(text_of(name))


def test_a_layer_split_is_read_with_every_buffer_on_its_device() -> None:
    log = reading("layer-split-lv4.log")
    assert log.build == "build 1 (0c1e570)"
    assert log.verbosity == 4
    assert (log.model.architecture, log.model.layers, log.model.experts, log.model.experts_used) == (
        "kimi-k3",
        12,
        16,
        4,
    )
    assert [device.name for device in log.devices or ()] == ["RPC0", "RPC1", "RPC2"]
    assert log.load_mode == "none"
    assert (log.layers_offloaded, log.layers_total) == (13, 13)
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 0.13, "RPC0": 6.18, "RPC1": 5.39, "RPC2": 4.17}
    assert log.mib_by_device(BufferKind.KV) == {"RPC0": 1.25, "RPC1": 1.25, "RPC2": 1.25}
    assert log.mib_by_device(BufferKind.STATE) == {"RPC0": 0.29, "RPC1": 0.21, "RPC2": 0.14}
    assert log.mib_by_device(BufferKind.OUTPUT) == {"CPU": 0.0}
    assert log.mib_by_device(BufferKind.COMPUTE) == {"RPC0": 24.52, "RPC1": 33.16, "RPC2": 36.52, "CPU": 18.52}
    context = log.context
    assert (context.tokens, context.tokens_per_sequence, context.sequences, context.unified) == (4096, 4096, 1, False)
    assert (context.batch, context.ubatch, context.slots, context.tokens_per_slot) == (2048, 512, 1, 4096)
    assert (context.flash_attention, context.cache_type_k, context.cache_type_v) == (True, "f16", "f16")
    assert (context.kv_layers, context.kv_cells, context.rollback_states) == (3, 4096, 0)
    assert (context.pipeline_parallel, context.pipeline_copies) == (True, 4)
    assert (log.graph.nodes_pp, log.graph.splits_pp, log.graph.splits_tg) == (1935, 8, 8)
    assert log.fit is not None
    assert log.fit.status is FitStatus.NOT_RUN
    assert log.memory is not None
    assert [(row.name, row.own, row.unaccounted) for row in log.memory] == [
        ("RPC0", 32, -32),
        ("RPC1", 40, -40),
        ("RPC2", 42, -42),
        ("Host", 18, None),
    ]
    (request,) = log.requests
    assert (request.prompt_n, request.prompt_ms, request.predicted_n, request.predicted_ms) == (41, 218.55, 24, 234.03)
    assert request.predicted_steps == 23
    assert request.predicted_per_s == pytest.approx(98.28, abs=0.005), "the rate that the log itself prints"
    assert log.layer_devices is None
    assert log.caveats == ()


def test_verbosity_5_adds_the_layer_map_and_the_overridden_tensors() -> None:
    log = reading("cpu-experts-lv5.log")
    assert log.layer_devices == ("RPC0",) * 5 + ("RPC1",) * 4 + ("RPC2",) * 4
    assert {name.split(".")[1] for name, _ in log.overridden_tensors or ()} == {"1", "2"}
    assert {buffer for _, buffer in log.overridden_tensors or ()} == {"CPU"}
    assert log.model.overrides == {"kimi-k3.expert_used_count": "2"}
    assert log.model.experts_used == 2
    assert log.context.pipeline_parallel is False
    assert "overrides-with-mmap" in {caveat.code for caveat in log.caveats}


def test_experts_on_the_host_with_a_quantised_cache_in_two_slots_are_read() -> None:
    log = reading("cpu-experts-lv4.log")
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 2.52, "RPC0": 3.79, "RPC1": 5.39, "RPC2": 4.17}
    assert (log.context.cache_type_k, log.context.cache_type_v) == ("q8_0", "q8_0")
    assert (log.context.sequences, log.context.tokens_per_sequence, log.context.slots) == (2, 2048, 2)
    assert log.graph.splits_tg == 14


def test_an_override_of_a_key_that_the_model_lacks_leaves_no_trace() -> None:
    log = reading("override-missed-lv4.log")
    assert log.model.overrides == {}
    assert log.model.experts_used == 4
    assert log.context.tokens == 1536
    assert "context-rounded" in {caveat.code for caveat in log.caveats}


def test_a_model_on_the_host_alone_has_no_devices_although_layers_count_as_offloaded() -> None:
    log = reading("host-only-lv4.log")
    assert log.devices == ()
    assert log.layers_offloaded == 13
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 15.87}
    assert log.requests == ()


def test_a_cache_on_the_host_is_read() -> None:
    log = reading("kv-on-host-lv4.log")
    assert log.mib_by_device(BufferKind.KV) == {"CPU": 1.88}
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 0.13, "RPC0": 6.18, "RPC2": 9.56}
    assert log.graph.splits_tg == 101


def test_what_fit_did_is_told_apart() -> None:
    unchanged = reading("fit-unchanged.jsonl").fit
    assert unchanged is not None
    assert unchanged.status is FitStatus.UNCHANGED
    changed = reading("fit-changed-lv4.log").fit
    assert changed is not None
    assert (changed.status, changed.context_from, changed.context_to) == (FitStatus.CHANGED, 8192, 4096)
    gave_up = reading("fit-gave-up-lv4.log").fit
    assert gave_up is not None
    assert (gave_up.status, gave_up.context_from, gave_up.context_to) == (FitStatus.ABORTED, 8192, 4096)
    assert gave_up.reason == "n_gpu_layers already set by user to 99"
    quiet = reading("fit-gave-up-lv3.log")
    assert quiet.fit is not None
    assert (quiet.fit.status, quiet.fit.context_to) == (FitStatus.ABORTED, None)
    assert {caveat.code for caveat in quiet.caveats} >= {"quiet-log", "fit-gave-up"}


def test_the_loads_that_fit_replays_to_measure_are_not_taken_for_the_real_one() -> None:
    log = reading("fit-changed-lv5.log")
    assert text_of("fit-changed-lv5.log").count("no_alloc              = 1") > 1
    assert log.layer_devices == ("CPU",) * 12 + ("RPC2",)
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 15.87, "RPC2": 0.13}
    assert log.mib_by_device(BufferKind.COMPUTE) == {"CPU": 11.26, "RPC2": 4.26}
    assert log.context.tokens == 4096
    assert log.load_mode == "mmap"


def test_text_json_lines_colours_and_missing_prefixes_give_the_same_reading() -> None:
    plain = reading("no-prefix-lv4.log")
    coloured = reading("coloured-no-time-lv4.log")
    assert dataclasses.replace(plain, requests=()) == dataclasses.replace(coloured, requests=())
    as_json = reading("fit-unchanged.jsonl")
    assert as_json.mib_by_device(BufferKind.COMPUTE) == {"RPC0": 24.52, "RPC1": 33.54, "RPC2": 36.52, "CPU": 18.52}
    assert as_json.memory is not None
    assert [row.own for row in as_json.memory] == [33, 41, 42, 18]


def test_a_log_of_2024_is_read() -> None:
    log = reading("old/mainline-2024.log")
    assert log.build == "build 4321 (abcdef12)"
    assert (log.model.architecture, log.model.experts_used, log.model.layers) == ("mixtral", 2, 32)
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 150.75, "CUDA0": 12000.0, "CUDA1": 13000.5}
    assert log.mib_by_device(BufferKind.KV) == {"CUDA0": 256.0, "CUDA1": 272.0}
    assert log.mib_by_device(BufferKind.OUTPUT) == {"CPU": 1.95}
    assert log.mib_by_device(BufferKind.COMPUTE) == {"CPU": 40.02, "CUDA0": 672.01, "CUDA1": 680.02}
    assert (log.context.pipeline_copies, log.context.pipeline_parallel) == (4, True)
    assert (log.context.flash_attention, log.context.cache_type_k) == (False, "f16")
    assert (log.graph.nodes_pp, log.graph.splits_pp, log.graph.splits_tg) == (1030, 84, 3)
    assert (log.context.slots, log.context.tokens_per_slot) == (1, 4096)
    (request,) = log.requests
    assert (request.predicted_n, request.predicted_steps) == (200, 200), "older builds divide by all tokens"
    assert request.predicted_per_s == pytest.approx(20.33, abs=0.005)
    assert (request.draft_n, request.draft_n_accepted) == (304, 70)


def test_a_log_of_2025_with_two_caches_is_read() -> None:
    log = reading("old/mainline-2025.log")
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 1012.5, "CUDA0": 7000.0}
    assert log.mib_by_device(BufferKind.KV) == {"CUDA0": 800.0}
    assert (log.context.kv_layers, log.context.cache_type_v, log.context.flash_attention) == (48, "q8_0", True)
    assert (log.graph.nodes_pp, log.graph.nodes_tg, log.graph.splits_tg) == (1929, 1833, 2)
    assert log.load_mode == "mmap"
    assert (log.context.tokens, log.context.tokens_per_sequence, log.context.unified) == (8192, 4096, False)


def test_a_log_of_ik_llama_is_read_and_a_buffer_over_several_gpus_has_no_device() -> None:
    log = reading("old/ik-llama.log")
    assert log.build == "build 4567 (deadbee1)"
    split = {buffer.name: buffer.device for buffer in log.buffers[BufferKind.MODEL]}
    assert split == {"CPU": "CPU", "CUDA1": "CUDA1", "CUDA_Split": None}
    assert log.mib_by_device(BufferKind.MODEL) is None
    assert log.graph.splits_tg == 1453
    assert (log.context.tokens, log.context.slots, log.context.tokens_per_slot) == (16384, 1, 16384)
    (request,) = log.requests
    assert (request.prompt_n, request.predicted_n, request.total_ms) == (100, 100, 6900.0)
    assert request.predicted_per_s == pytest.approx(20.41, abs=0.005)


def test_one_server_of_a_router_is_read_with_the_times_that_it_prints_without_prefix() -> None:
    log = reading("old/router-2026.log")
    assert (log.context.slots, log.model.path) == (2, "a.gguf")
    (request,) = log.requests
    assert (request.task, request.prompt_n, request.draft_n_accepted) == (689, 30, 118)
    assert "several-servers" in {caveat.code for caveat in log.caveats}


def test_json_lines_of_early_2024_are_read() -> None:
    log = reading("old/json-2024.log")
    assert log.build == "build 2249 (15499eb9)"
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 70.31, "CUDA0": 4095.05}
    assert (log.context.slots, log.context.tokens_per_slot) == (1, 512)


def test_a_fragment_about_fit_is_enough_to_say_that_it_gave_up() -> None:
    log = reading("old/fit-2025.log")
    assert log.fit is not None
    assert (log.fit.status, log.fit.context_to) == (FitStatus.ABORTED, 4096)
    assert log.fit.reason == "model_params::tensor_split already set by user"
    assert [caveat.code for caveat in log.caveats] == ["fit-gave-up"]


@pytest.mark.parametrize(
    ("prompt", "predicted", "reason"),
    [
        ("429988.00 ms /     1 tokens", "100.00 ms /    10 tokens (  10.00 ms per token,", "one prompt token"),
        (
            "100.00 ms /    10 tokens",
            "0.01 ms /   950 tokens (   0.00 ms per token,",
            "faster than any device generates",
        ),
        ("0.00 ms /  4096 tokens", "100.00 ms /    10 tokens (  10.00 ms per token,", "faster than any device reads"),
        ("-1.00 ms /    10 tokens", "100.00 ms /    10 tokens (  10.00 ms per token,", "negative"),
    ],
)
def test_figures_that_cannot_be_true_are_marked_and_give_no_rate(prompt: str, predicted: str, reason: str) -> None:
    log = read_log(
        f"slot print_timing: id  0 | task 1 | prompt eval time = {prompt} (x)\n"
        f"slot print_timing: id  0 | task 1 |        eval time = {predicted} x tokens per second)\n"
        "slot print_timing: id  0 | task 1 |       total time = 430088.00 ms /    11 tokens\n"
    )
    (request,) = log.requests
    assert request.status is RequestStatus.IMPLAUSIBLE
    assert reason in request.reason
    assert request.predicted_per_s is None
    assert request.prompt_per_s is None
    assert request.total_ms == 430088.0


def test_a_rate_of_nothing_is_unknown() -> None:
    (request,) = read_log(
        "slot print_timing: id  0 | task 1 | prompt eval time = 0.00 ms /     0 tokens (    -nan ms per token,\n"
        "slot print_timing: id  0 | task 1 |        eval time = 0.00 ms /     1 tokens (     inf ms per token, x)\n"
    ).requests
    assert (request.prompt_per_s, request.predicted_per_s, request.status) == (None, None, RequestStatus.OK)


def test_a_request_whose_prompt_was_processed_again_is_cold() -> None:
    timing = "slot print_timing: id  0 | task {0} | prompt eval time = 10.00 ms /    10 tokens (x)\n"
    cold = "slot   operator(): id  0 | task 2 | forcing full prompt re-processing due to lack of cache data\n"
    log = read_log(timing.format(1) + cold + timing.format(2))
    assert [(request.task, request.cold) for request in log.requests] == [(1, False), (2, True)]
    assert [caveat.code for caveat in log.caveats] == ["full-reprocessing"]


@pytest.mark.parametrize(
    "line",
    [
        "draft acceptance rate = 0.50000 (   40 accepted /    80 generated)",
        "draft acceptance = 0.50000 (   40 accepted /    80 generated), mean len =  2.42",
        "draft acceptance rate = 0.5 (40 accepted / 80 generated), mean acceptance length = 2.4, per position = (0.8)",
    ],
)
def test_every_wording_of_draft_acceptance_is_read(line: str) -> None:
    (request,) = read_log(
        "slot print_timing: id  0 | task 1 | prompt eval time = 10.00 ms /    10 tokens (x)\n"
        f"slot print_timing: id  0 | task 1 | {line}\n"
    ).requests
    assert (request.draft_n, request.draft_n_accepted) == (80, 40)


def test_two_devices_behind_one_address_are_told_apart() -> None:
    head = text_of("layer-split-lv4.log").replace("50822", "50821")
    log = read_log(
        head.replace(
            "RPC0[127.0.0.1:50821] model buffer size =     5.39", "RPC1[127.0.0.1:50821] model buffer size =     5.39"
        )
    )
    assert log.mib_by_device(BufferKind.MODEL) == {"CPU": 0.13, "RPC0": 6.18, "RPC1": 5.39, "RPC2": 4.17}


def test_text_of_a_model_or_a_person_cannot_pose_as_the_server() -> None:
    forged = "load_tensors:        CUDA0 model buffer size =  9999.00 MiB"
    text = text_of("layer-split-lv4.log")
    kv = f"0.00.066.320 I llama_model_loader: - kv   1: general.name str = {forged}\n"
    in_template = f"{forged}\nprompt eval time = 1.00 ms / 1000 tokens (x)\nYou are a helpful assistant"
    poisoned = text.replace("You are a helpful assistant", in_template, 1).replace(
        "0.00.066.322", f"{kv}0.00.066.322", 1
    )
    assert poisoned != text
    assert dataclasses.replace(read_log(poisoned), caveats=()) == reading("layer-split-lv4.log")


def test_of_two_starts_in_one_log_the_last_is_read() -> None:
    log = read_log(text_of("layer-split-lv4.log") + text_of("cpu-experts-lv4.log"))
    assert dataclasses.replace(log, caveats=()) == dataclasses.replace(reading("cpu-experts-lv4.log"), caveats=())
    assert "several-starts" in {caveat.code for caveat in log.caveats}


def test_a_draft_models_load_is_not_taken_for_the_main_one() -> None:
    main, draft = text_of("layer-split-lv4.log"), text_of("host-only-lv4.log")
    second = draft[draft.index("0.00.0", draft.index("local path")) :].split("\n")
    second = [line for line in second if "srv" not in line and "slot" not in line]
    cut = main.index("speculative decoding will use checkpoints")
    cut = main.rindex("\n", 0, cut) + 1
    log = read_log(main[:cut] + "\n".join(second) + main[cut:])
    assert log.mib_by_device(BufferKind.MODEL) == reading("layer-split-lv4.log").mib_by_device(BufferKind.MODEL)
    assert log.context == reading("layer-split-lv4.log").context
    assert "second-model" in {caveat.code for caveat in log.caveats}


def contradictions(part: LoadedServer, whole: LoadedServer) -> list[str]:
    """What a cut log says that the whole log does not."""
    found = []
    if part.devices is not None:
        totals = zip(part.devices, whole.devices or (), strict=False)
        listed = tuple(dataclasses.replace(b, total_mib=a.total_mib and b.total_mib) for a, b in totals)
        found += ["devices"] if listed != part.devices or len(listed) != len(whole.devices or ()) else []
    for name in ("build", "verbosity", "load_mode", "layers_offloaded", "layers_total", "layer_devices"):
        if getattr(part, name) not in (None, getattr(whole, name)):
            found.append(name)
    if part.overridden_tensors not in (None, whole.overridden_tensors):
        found.append("overridden_tensors")
    for group in ("model", "context", "graph", "fit"):
        mine, other = getattr(part, group), getattr(whole, group)
        for item in dataclasses.fields(mine) if mine is not None else ():
            value = getattr(mine, item.name)
            if value not in (None, "", {}) and value != getattr(other, item.name):
                found.append(f"{group}.{item.name}: {value}")
    for kind, buffers in part.buffers.items():
        placed, sizes = dict(zip(buffers, buffers, strict=True)), {}
        for buffer in whole.buffers.get(kind, ()):
            sizes[buffer.name] = buffer.mib
            placed.pop(buffer, None)
            placed.pop(dataclasses.replace(buffer, device=None), None)
        if placed or {buffer.name: buffer.mib for buffer in buffers} != sizes:
            found.append(f"{kind.value}: {buffers}")
    found += [row.name for row in part.memory or () if row not in (whole.memory or ())]
    known = {request.task: request for request in whole.requests}
    for request in part.requests:
        for item in dataclasses.fields(request):
            value = getattr(request, item.name)
            if value not in (None, False) and value != getattr(known[request.task], item.name):
                found.append(f"request.{item.name}: {value}")
    return found


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(RECORDED), st.floats(0, 1), st.floats(0, 1))
def test_a_log_cut_at_either_end_turns_values_into_unknown_and_never_into_others(name: str, a: float, b: float) -> None:
    text = text_of(name)
    begin, end = sorted((int(a * len(text)), int(b * len(text))))
    assert contradictions(read_log(text[begin:end]), reading(name)) == []


@pytest.mark.parametrize("name", OLD)
def test_an_old_log_cut_anywhere_says_nothing_wrong(name: str) -> None:
    text, whole = text_of(name), reading(name)
    for cut in range(0, len(text), 3):
        assert contradictions(read_log(text[:cut]), whole) == []
        rest = read_log(text[cut:])
        if "several-servers" not in {caveat.code for caveat in rest.caveats}:
            assert contradictions(rest, whole) == []


@settings(deadline=None, max_examples=40)
@given(
    st.sampled_from([name for name in RECORDED if "lv5" not in name]),
    st.sampled_from(
        ["Apr 17 23:09:42 athena llama-server[2840]: ", "srv-1  | ", "2026-07-28T12:00:00.12Z stderr F ", "[40711] "]
    ),
)
def test_a_wrapped_log_gives_the_same_reading(name: str, wrapping: str) -> None:
    wrapped = "".join(f"{wrapping}{line}\n" for line in text_of(name).removesuffix("\n").split("\n"))
    assert read_log(wrapped) == reading(name)


@settings(deadline=None, max_examples=100)
@given(st.sampled_from(RECORDED), st.integers())
def test_a_log_whose_lines_are_shuffled_or_lost_is_read_without_an_error(name: str, seed: int) -> None:
    lines = text_of(name).split("\n")[:400]
    shuffler = random.Random(seed)
    shuffler.shuffle(lines)
    read_log("\n".join(lines[: shuffler.randrange(len(lines))]))


@settings(deadline=None)
@given(st.text())
def test_any_text_gives_a_reading(text: str) -> None:
    read_log(text)


@settings(deadline=None)
@given(st.sampled_from(RECORDED), st.integers(0), st.binary(max_size=40))
def test_damaged_bytes_give_a_reading(name: str, where: int, damage: bytes) -> None:
    data = bytearray(text_of(name).encode())
    where %= len(data)
    data[where : where + len(damage)] = damage
    read_log(bytes(data).decode(errors="replace"))
