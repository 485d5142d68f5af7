from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from k3prof.core.refutation.effective import Effective, effective
from k3prof.core.timeline import Counter, Series
from k3prof.llama.logs import read_log
from tests.doubles.trials import gpu_trial, stand_in_trial

TRIAL, SERIES = stand_in_trial()


@pytest.fixture
def log(repository: Path) -> str:
    return (repository / "tests/llama/logs/layer-split-lv4.log").read_text()


def ran(log: str, host: dict[str, object] | None = None) -> Effective:
    return effective(TRIAL, read_log(log), host or {}, SERIES)


def test_a_real_log_shows_what_was_chosen_and_what_followed(log: str) -> None:
    found = ran(log)
    chosen = {
        "build": "build 1 (0c1e570)",
        "context": "4096",
        "slots": "1",
        "unified KV cache": "off",
        "batch": "2048",
        "ubatch": "512",
        "flash attention": "on",
        "K cache": "f16",
        "threads": "1",
        "load mode": "none",
        "experts used": "4",
    }
    assert {name: found.settings[name] for name in chosen} == chosen
    assert found.settings["sampler chain"].startswith("logits -> logit-bias -> ?penalties")
    followed = {
        "model on RPC0": "6.18 MiB",
        "KV cache on RPC2": "1.25 MiB",
        "splits of a token": "8",
        "pipelining": "on",
    }
    assert {name: found.consequences[name] for name in followed} == followed
    assert found.architecture == "kimi-k3"


def test_ports_times_and_free_memory_are_no_part_of_it(log: str) -> None:
    moved = re.sub(r"127\.0\.0\.1:\d+", lambda match: f"127.0.0.1:{int(match[0][10:]) ^ 1}", log)
    moved = re.sub(r"^\d+\.\d\d\.", "7.31.", moved, flags=re.MULTILINE)
    moved = re.sub(r"\d+ MiB free", "17 MiB free", moved)
    assert moved != log
    assert ran(moved) == ran(log)


def test_a_device_that_holds_nothing_of_a_kind_that_the_log_shows_has_zero(log: str) -> None:
    assert ran(log).consequences["KV cache on CPU"] == "0.00 MiB"


def test_what_a_cut_log_does_not_say_is_left_out(log: str) -> None:
    found = ran("\n".join(log.splitlines()[:20]))
    assert "context" not in found.settings
    assert found.consequences == {}
    assert ran("") == Effective({}, {})


def test_a_server_on_the_host_alone_has_no_devices(repository: Path) -> None:
    found = ran((repository / "tests/llama/logs/host-only-lv4.log").read_text())
    assert found.consequences["devices"] == "none"
    assert found.consequences["model on RPC0"] == "0.00 MiB"


def test_no_quota_is_told_from_an_unknown_one() -> None:
    facts = {"kernel": "6.8", "cpu_quota_cores": None, "governors": ["performance"], "cpu_model": None}
    assert ran("", facts).settings == {"kernel": "6.8", "cpu quota cores": "none", "governors": "performance"}
    assert ran("", {"cpu_quota_cores": 1.5}).settings == {"cpu quota cores": "1.5"}


def test_clocks_are_those_of_devices_at_work_while_something_was_measured() -> None:
    trial, series = gpu_trial()
    sent_ns = min(request.sent_ns for request in trial.requests if request.role == "measure")
    time_ns = np.linspace(trial.started_ns, max(request.ended_ns for request in trial.requests), 400).astype(np.int64)
    mhz = np.where(time_ns <= sent_ns, 210.0, 1740.0)
    clocks = [Series(name, Counter.SM_MHZ, 10_000_000, time_ns, mhz) for name in ("CUDA0", "CUDA1")]
    rested = [replace(one, value=one.value * 0) if one.device == "CUDA1" else one for one in series]
    found = effective(trial, read_log(""), {}, (*rested, *clocks))
    assert found.clocks_mhz == {"CUDA0 SM clock": 1740.0}
