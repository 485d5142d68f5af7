from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.evidence.certificate import certify
from k3prof.core.evidence.check import Agreement
from k3prof.core.evidence.loaded import (
    Buffer,
    BufferKind,
    ContextFacts,
    FitFacts,
    FitStatus,
    LoadedServer,
    ModelFacts,
    UsedDevice,
)
from k3prof.core.trial import Caveat, FlagValue, TrialStatus

DEVICES = ("CUDA0", "CUDA1")

DONE = LoadedServer(
    model=ModelFacts(architecture="kimi-k3", layers=12, experts=16, experts_used=4),
    devices=tuple(UsedDevice(name, "NVIDIA A40") for name in DEVICES),
    load_mode="none",
    layers_offloaded=13,
    layers_total=13,
    layer_devices=("CUDA0",) * 7 + ("CUDA1",) * 6,
    overridden_tensors=(("blk.1.ffn_up_exps.weight", "CPU"), ("blk.2.ffn_down_exps.weight", "CPU")),
    buffers={
        BufferKind.MODEL: (Buffer("CPU", "CPU", 1.0), Buffer("CUDA0", "CUDA0", 7.0), Buffer("CUDA1", "CUDA1", 6.0)),
        BufferKind.KV: (Buffer("CUDA0", "CUDA0", 1.0), Buffer("CUDA1", "CUDA1", 1.0)),
        BufferKind.STATE: (Buffer("CUDA0", "CUDA0", 1.0),),
    },
    context=ContextFacts(
        tokens=4096,
        tokens_per_sequence=2048,
        sequences=2,
        unified=False,
        batch=2048,
        ubatch=512,
        flash_attention=True,
        cache_type_k="f16",
        cache_type_v="f16",
        rollback_states=0,
        pipeline_copies=1,
        pipeline_parallel=False,
    ),
    fit=FitFacts(FitStatus.NOT_RUN),
)


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("fit", "off"),
        ("n-gpu-layers", "all"),
        ("n-gpu-layers", 13),
        ("gpu-layers", 99),
        ("split-mode", "layer"),
        ("tensor-split", (1, 1)),
        ("tensor-split", "7/6"),
        ("n-cpu-moe", 3),
        ("cpu-moe", True),
        ("load-mode", "none"),
        ("ctx-size", 4096),
        ("ctx-size", 4000),
        ("parallel", 2),
        ("kv-unified", False),
        ("no-kv-unified", True),
        ("batch-size", 2048),
        ("batch-size", "2048"),
        ("ubatch-size", 512),
        ("flash-attn", "on"),
        ("flash-attn", True),
        ("cache-type-k", "f16"),
        ("cache-type-v", "f16"),
        ("override-kv", "kimi-k3.expert_used_count=int:4"),
    ],
)
def test_what_was_done_as_asked_passes(flag: str, value: FlagValue) -> None:
    certificate = certify({flag: value}, DONE)
    assert [check.agreement for check in certificate.checks] == [Agreement.SAME]
    assert certificate.outcome().status is TrialStatus.OK


@pytest.mark.parametrize(
    ("flag", "value", "done"),
    [
        ("fit", "on", "did not run"),
        ("n-gpu-layers", 5, "13 of 13 layers"),
        ("split-mode", "row", "layer"),
        ("split-mode", "tensor", "layer"),
        ("tensor-split", (3, 1), "7 layers on CUDA0, 6 layers on CUDA1"),
        ("n-cpu-moe", 2, "experts of 2 layers moved"),
        ("cpu-moe", False, "experts of 2 layers moved"),
        ("load-mode", "mmap", "none"),
        ("ctx-size", 8192, "4096"),
        ("ctx-size", 1024, "4096"),
        ("parallel", 4, "2"),
        ("kv-unified", True, "off"),
        ("batch-size", 512, "2048"),
        ("batch-size", 3072, "2048"),
        ("ubatch-size", 1024, "512"),
        ("flash-attn", "off", "on"),
        ("cache-type-k", "q8_0", "f16"),
        ("cache-type-v", "q8_0", "f16"),
        ("kv-offload", False, "KV cache on CUDA0, CUDA1"),
        ("override-kv", "kimi-k3.expert_used_count=int:8", "4 experts used"),
    ],
)
def test_what_was_done_otherwise_voids_the_trial(flag: str, value: FlagValue, done: str) -> None:
    certificate = certify({flag: value}, DONE)
    (check,) = certificate.checks
    assert (check.agreement, check.done) == (Agreement.DIFFERS, done)
    outcome = certificate.outcome()
    assert outcome.status is TrialStatus.VOID
    assert check.name in outcome.message
    assert done in outcome.message


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("n-gpu-layers", "auto"),
        ("ctx-size", 0),
        ("parallel", -1),
        ("flash-attn", "auto"),
        ("load-mode", "auto"),
        ("kv-offload", True),
        ("threads", 8),
    ],
)
def test_what_was_left_to_the_server_is_not_checked(flag: str, value: FlagValue) -> None:
    assert certify({flag: value}, DONE).checks == ()


CHECKED: dict[str, FlagValue] = {
    "fit": "on",
    "n-gpu-layers": 7,
    "split-mode": "layer",
    "tensor-split": (1, 2),
    "cpu-moe": True,
    "n-cpu-moe": 4,
    "load-mode": "mmap",
    "ctx-size": 8192,
    "parallel": 3,
    "kv-unified": True,
    "batch-size": 64,
    "ubatch-size": 64,
    "flash-attn": "on",
    "cache-type-k": "q8_0",
    "cache-type-v": "q8_0",
    "kv-offload": False,
    "override-kv": "kimi-k3.expert_used_count=int:8,kimi-k3.context_length=int:9",
}


def test_a_log_that_says_nothing_voids_nothing_and_vouches_for_nothing() -> None:
    certificate = certify(CHECKED, LoadedServer(), DEVICES)
    assert len(certificate.checks) == len(CHECKED) + 2
    assert {check.agreement for check in certificate.checks} == {Agreement.UNKNOWN}
    assert all(check.done is None for check in certificate.checks)
    assert not certificate.is_void


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [(FitStatus.ABORTED, "fit-gave-up", "gave up"), (FitStatus.FAILED, "fit-failed", "failed with an error")],
)
def test_fit_that_gave_up_or_failed_voids_the_trial_and_quotes_the_log(
    status: FitStatus, code: str, words: str
) -> None:
    line = "common_fit_params: it did not work out: tensor_split already set by user"
    done = replace(
        DONE,
        fit=FitFacts(status, "tensor_split already set by user", 8192, 4096),
        caveats=(Caveat(code, line),),
    )
    certificate = certify({"fit": "on", "tensor-split": (1, 1)}, done)
    assert certificate.outcome().status is TrialStatus.VOID
    assert f"fit: asked on, done: {words} (tensor_split already set by user)" in certificate.outcome().message
    assert certificate.outcome().evidence == line
    assert "context-reduced" in {caveat.code for caveat in certificate.caveats}


def test_an_override_for_another_architecture_is_explained() -> None:
    certificate = certify({"override-kv": "qwen3moe.expert_used_count=int:2"}, DONE)
    assert certificate.is_void
    assert "does not match the architecture: kimi-k3.expert_used_count" in certificate.outcome().message


def test_another_override_is_known_only_when_the_log_names_it() -> None:
    asked: dict[str, FlagValue] = {"override-kv": "kimi-k3.context_length=int:8192"}
    assert [check.agreement for check in certify(asked, DONE).checks] == [Agreement.UNKNOWN]
    for value, agreement in (("8192", Agreement.SAME), ("4096", Agreement.DIFFERS)):
        model = replace(DONE.model, overrides={"kimi-k3.context_length": value})
        assert [check.agreement for check in certify(asked, replace(DONE, model=model)).checks] == [agreement]


@pytest.mark.parametrize(
    ("flags", "devices", "agreement"),
    [
        ({}, DEVICES, Agreement.SAME),
        ({}, ("CUDA1", "CUDA0"), Agreement.DIFFERS),
        ({}, (*DEVICES, "CUDA2"), Agreement.DIFFERS),
        ({}, (), Agreement.DIFFERS),
        ({"device": "CUDA0,CUDA1"}, ("CUDA0", "CUDA1", "CUDA2"), Agreement.SAME),
        ({"device": "none"}, DEVICES, Agreement.DIFFERS),
        ({"split-mode": "none", "main-gpu": 1}, DEVICES, Agreement.DIFFERS),
    ],
)
def test_the_devices_used_are_held_against_those_that_there_were(
    flags: dict[str, FlagValue], devices: tuple[str, ...], agreement: Agreement
) -> None:
    checks = {check.name: check.agreement for check in certify(flags, DONE, devices).checks}
    assert checks["devices"] is agreement


def test_layers_that_count_as_offloaded_without_a_device_are_not() -> None:
    (check,) = certify({"n-gpu-layers": "all"}, replace(DONE, devices=())).checks
    assert (check.agreement, check.done) == (Agreement.DIFFERS, "0 layers")


def test_without_a_layer_map_a_tensor_split_can_be_refuted_but_not_confirmed() -> None:
    done = replace(DONE, layer_devices=None)
    assert [check.agreement for check in certify({"tensor-split": (3, 1)}, done).checks] == [Agreement.UNKNOWN]
    assert [check.agreement for check in certify({"tensor-split": (1, 0)}, done).checks] == [Agreement.DIFFERS]


def test_limits_that_llama_server_sets_to_batches_are_no_difference() -> None:
    context = replace(DONE.context, tokens=1024, batch=1000, ubatch=1000)
    asked: dict[str, FlagValue] = {"ctx-size": 1000, "batch-size": 2048, "ubatch-size": 2048}
    assert not certify(asked, replace(DONE, context=context)).is_void


def test_settings_that_spoil_a_recurrent_model_become_caveats() -> None:
    asked: dict[str, FlagValue] = {"cache-reuse": 256, "spec-type": "draft-simple"}
    codes = {caveat.code for caveat in certify(asked, DONE).caveats}
    assert codes == {"no-pipeline", "cache-reuse-with-state", "no-rollback"}
    assert {caveat.code for caveat in certify({}, DONE).caveats} == {"no-pipeline"}


VALUES = st.one_of(st.booleans(), st.integers(), st.floats(), st.text(), st.tuples(st.integers(), st.text()))


@given(
    st.dictionaries(st.sampled_from([*CHECKED, "device", "main-gpu"]), VALUES), st.sampled_from([DONE, LoadedServer()])
)
def test_odd_values_are_certified_without_an_error(asked: dict[str, FlagValue], done: LoadedServer) -> None:
    certificate = certify(asked, done, DEVICES)
    for check in certificate.checks:
        assert (check.done is None) == (check.agreement is Agreement.UNKNOWN)
