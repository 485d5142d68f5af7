"""Certificates of recorded servers: what each was really asked, held against its log."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.evidence.certificate import Certificate, certify
from k3prof.core.evidence.check import Agreement
from k3prof.core.trial import FlagValue
from k3prof.llama.logs import read_log

LOGS = Path(__file__).parent / "logs"
DEVICES = ("RPC0", "RPC1", "RPC2")

ASKED: dict[str, dict[str, FlagValue]] = {
    "layer-split-lv4.log": {"fit": "off", "ctx-size": 4096, "parallel": 1, "load-mode": "none"},
    "cpu-experts-lv4.log": {
        "fit": "off",
        "ctx-size": 4096,
        "parallel": 2,
        "n-cpu-moe": 4,
        "load-mode": "none",
        "cache-type-k": "q8_0",
        "cache-type-v": "q8_0",
        "override-kv": "kimi-k3.expert_used_count=int:2",
    },
    "cpu-experts-lv5.log": {
        "fit": "off",
        "ctx-size": 2048,
        "parallel": 1,
        "n-cpu-moe": 3,
        "override-kv": "kimi-k3.expert_used_count=int:2",
    },
    "fit-unchanged.jsonl": {"fit": "on", "ctx-size": 4096},
    "fit-changed-lv4.log": {"fit": "on"},
    "fit-changed-lv5.log": {"fit": "on"},
    "fit-gave-up-lv4.log": {"fit": "on", "n-gpu-layers": 99},
    "fit-gave-up-lv3.log": {"fit": "on", "n-gpu-layers": 99},
    "override-missed-lv4.log": {
        "fit": "off",
        "ctx-size": 1000,
        "parallel": 3,
        "override-kv": "qwen3moe.expert_used_count=int:2",
    },
    "kv-on-host-lv4.log": {
        "fit": "off",
        "ctx-size": 2048,
        "parallel": 1,
        "kv-offload": False,
        "tensor-split": (1, 0, 2),
        "cache-reuse": 16,
    },
    "no-prefix-lv4.log": {"fit": "off", "ctx-size": 2048},
}


def certificate(name: str, begin: float = 0, end: float = 1) -> Certificate:
    text = (LOGS / name).read_text(errors="replace")
    return certify(ASKED[name], read_log(text[int(begin * len(text)) : int(end * len(text))]), DEVICES)


@pytest.mark.parametrize(
    ("name", "void"),
    [(name, "gave-up" in name or "missed" in name) for name in ASKED],
)
def test_a_recorded_server_is_certified_or_voided(name: str, void: bool) -> None:
    found = certificate(name)
    assert found.is_void is void
    unknown = {check.name for check in found.checks if check.agreement is Agreement.UNKNOWN}
    needs_verbosity_5 = {"n-cpu-moe", "tensor-split"}
    assert unknown <= needs_verbosity_5 or name.endswith("lv3.log")


def test_fit_that_gave_up_silently_is_told_with_the_servers_own_words() -> None:
    outcome = certificate("fit-gave-up-lv4.log").outcome()
    assert outcome.message == "fit: asked on, done: gave up (n_gpu_layers already set by user to 99)"
    assert outcome.evidence.startswith("common_fit_params: failed to fit params to free device memory")


def test_an_override_with_the_wrong_prefix_is_told_with_the_right_one() -> None:
    message = certificate("override-missed-lv4.log").outcome().message
    assert "4 experts used (the key does not match the architecture: kimi-k3.expert_used_count)" in message


def test_prefix_reuse_on_a_recurrent_model_is_doubted() -> None:
    assert "cache-reuse-with-state" in {caveat.code for caveat in certificate("kv-on-host-lv4.log").caveats}


@pytest.mark.parametrize(
    ("name", "asked", "differs"),
    [
        ("cpu-experts-lv5.log", {"tensor-split": (3, 1, 1)}, "tensor-split"),
        ("cpu-experts-lv5.log", {"n-cpu-moe": 2}, "n-cpu-moe"),
        ("kv-on-host-lv4.log", {"tensor-split": (1, 1, 1)}, "tensor-split"),
        ("host-only-lv4.log", {"n-gpu-layers": "all"}, "devices"),
        ("layer-split-lv4.log", {"kv-offload": False}, "kv-offload"),
        ("fit-changed-lv4.log", {"ctx-size": 8192}, "ctx-size"),
    ],
)
def test_a_server_that_did_otherwise_is_void(name: str, asked: dict[str, FlagValue], differs: str) -> None:
    found = certify(asked, read_log((LOGS / name).read_text(errors="replace")), DEVICES)
    assert differs in {check.name for check in found.checks if check.agreement is Agreement.DIFFERS}


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(ASKED)), st.floats(0, 1), st.floats(0, 1))
def test_a_cut_log_leaves_checks_unknown_and_changes_none(name: str, a: float, b: float) -> None:
    whole = {check.name: check.agreement for check in certificate(name).checks}
    for check in certificate(name, min(a, b), max(a, b)).checks:
        assert check.agreement in (Agreement.UNKNOWN, whole[check.name])
