from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from k3prof.core.evidence.check import Agreement, Check
from k3prof.core.evidence.explanation import Explanation
from k3prof.core.evidence.loaded import BufferKind, LoadedServer, LoggedRequest
from k3prof.core.trial import Caveat, Failure, Outcome, RequestStatus, TrialStatus
from k3prof.llama.logs import read_log
from k3prof.reporters.log_json import as_json
from k3prof.reporters.log_page import page
from k3prof.reporters.log_text import LogText, as_markdown

LOGS = Path(__file__).parent.parent / "llama" / "logs"


def explained(name: str) -> Explanation:
    return Explanation(name, read_log((LOGS / name).read_text(errors="replace")), None)


def drawn(explanation: Explanation, width: int = 120) -> str:
    out = io.StringIO()
    Console(file=out, width=width, color_system=None).print(LogText(explanation))
    return out.getvalue()


def facts(name: str) -> dict[str, str]:
    return {fact.name: fact.text for fact in page(explained(name)).facts}


def test_a_whole_log_is_told_in_facts() -> None:
    assert facts("cpu-experts-lv5.log") == {
        "server": "build 1 (0c1e570), log verbosity 5",
        "model": "k3.gguf, kimi-k3, (guessed) Q8_0, 12 layers, 2 of 16 experts used, trained for 8,192 tokens, "
        "kimi-k3.expert_used_count overridden to 2",
        "devices": "RPC0 (127.0.0.1:50821), RPC1 (127.0.0.1:50822), RPC2 (127.0.0.1:50823)",
        "layers": "RPC0: 0–4; RPC1: 5–8; RPC2: 9–11 and the output",
        "load mode": "mmap",
        "fit": "did not run",
        "context": "2,048 tokens for one sequence",
        "slots": "1 slot of 2,048 tokens",
        "batch": "2,048 tokens, computed 512 at a time",
        "cache": "K f16, V f16, in 3 layers",
        "flash attention": "on",
        "pipeline parallelism": "off",
        "graph": "1,891 nodes in 12 splits",
    }


@pytest.mark.parametrize(
    ("name", "fact", "text"),
    [
        ("host-only-lv4.log", "graph", "1,935 nodes in 1 split"),
        ("host-only-lv4.log", "devices", "none: the host alone"),
        ("host-only-lv4.log", "layers", "13 of 13 counted as offloaded though there is no device"),
        ("fit-changed-lv5.log", "layers", "CPU: 0–11; RPC2: the output"),
        (
            "fit-gave-up-lv4.log",
            "fit",
            "gave up: n_gpu_layers already set by user to 99, context 8,192 to 4,096 tokens",
        ),
        ("fit-gave-up-lv4.log", "context", "4,096 tokens, shared by 4 sequences"),
        ("cpu-experts-lv4.log", "context", "4,096 tokens, 2,048 for each of 2 sequences"),
        ("old/mainline-2024.log", "graph", "prompts 1,030 nodes in 84 splits, decoding 1,030 nodes in 3 splits"),
        ("old/mainline-2024.log", "pipeline parallelism", "on, 4 copies of the inputs"),
    ],
)
def test_a_fact_is_put_into_words(name: str, fact: str, text: str) -> None:
    assert facts(name)[fact] == text


def test_memory_is_shown_by_device_and_summed() -> None:
    table = next(table for table in page(explained("layer-split-lv4.log")).tables if table.heading.startswith("Memory"))
    assert table.columns == ("", "model", "KV cache", "recurrent state", "compute", "output", "total")
    assert table.rows[0] == ("RPC0", "6.18", "1.25", "0.29", "24.52", "0.00", "32.24")
    assert [row[0] for row in table.rows] == ["RPC0", "RPC1", "RPC2", "CPU"]


def test_a_kind_of_memory_that_the_log_does_not_show_is_unknown_and_so_is_the_total() -> None:
    done = read_log((LOGS / "layer-split-lv4.log").read_text())
    less = replace(done, buffers={kind: done.buffers[kind] for kind in (BufferKind.MODEL, BufferKind.COMPUTE)})
    shown = page(Explanation("x", less, None))
    assert shown.tables[0].rows[0] == ("RPC0", "6.18", "unknown", "24.52", "unknown", "unknown")
    assert {"KV cache buffers", "output buffers"} <= set(shown.unknown)


def test_with_a_buffer_over_several_gpus_no_single_gpus_share_is_claimed() -> None:
    rows = {row[0]: row for row in page(explained("old/ik-llama.log")).tables[0].rows}
    assert rows["CUDA_Split"][1] == "12,362.08"
    assert rows["CUDA0"] == ("CUDA0", "unknown", "unknown", "587.00", "0.00", "unknown")
    assert rows["CUDA1"][1:3] == ("994.65", "unknown")
    assert rows["CPU"][-1] == "644.72"


def test_what_a_log_does_not_say_is_listed_and_never_drawn_as_nought() -> None:
    shown = page(explained("fit-gave-up-lv3.log"))
    assert {"flash attention", "graph", "context", "model buffers"} <= set(shown.unknown)
    assert not {fact.name for fact in shown.facts} & set(shown.unknown)
    assert [table.heading for table in shown.tables] == ["Requests"]
    assert "not in this log" in drawn(explained("fit-gave-up-lv3.log"))


def test_requests_show_their_rates_and_implausible_ones_their_wall_time_and_reason() -> None:
    good = LoggedRequest(0, 7, 100, 1000.0, 51, 500.0, 50, 1500.0, 30, 20, cold=True)
    bad = LoggedRequest(
        0,
        8,
        1,
        429_988.0,
        10,
        100.0,
        9,
        430_088.0,
        status=RequestStatus.IMPLAUSIBLE,
        reason="one prompt token in 430 s",
    )
    shown = page(Explanation("x", LoadedServer(requests=(good, bad)), None))
    assert shown.tables[0].rows == (
        ("7", "100", "100.0", "51", "100.0", "1.50", "cold, 20 of 30 drafted tokens accepted"),
        ("8", "1", "unknown", "10", "unknown", "430.09", "implausible: one prompt token in 430 s"),
    )


def test_of_many_requests_the_last_are_shown_and_all_are_in_json() -> None:
    many = tuple(LoggedRequest(0, task, 10, 10.0) for task in range(500))
    explanation = Explanation("x", LoadedServer(requests=many), None)
    table = page(explanation).tables[0]
    assert [row[0] for row in table.rows] == [str(task) for task in range(480, 500)]
    assert "last 20 of 500" in table.note
    assert len(as_json(explanation)["requests"]) == 500


def test_a_failure_stands_first_with_its_line() -> None:
    failure = Outcome(TrialStatus.FAILED, Failure.OUT_OF_MEMORY, "GPU 2 has no room", "cudaMalloc failed")
    explanation = Explanation("x", LoadedServer(), failure)
    assert drawn(explanation).splitlines()[1:3] == ["  out of memory: GPU 2 has no room", "  log: cudaMalloc failed"]
    assert "**out of memory: GPU 2 has no room**\n\n> cudaMalloc failed" in as_markdown(explanation)
    assert as_json(explanation)["failure"] == {
        "kind": "out of memory",
        "message": "GPU 2 has no room",
        "evidence": "cudaMalloc failed",
    }


def test_fallbacks_are_shown_with_their_remedies() -> None:
    text = drawn(explained("cpu-experts-lv5.log"))
    assert "overrides-with-mmap: llama_model_loader: tensor overrides to CPU" in text
    assert 'remedy: set load-mode = "none"' in text


def test_a_header_held_against_the_log_is_shown() -> None:
    checks = (Check("experts", "16", "8", Agreement.DIFFERS), Check("layers", "12", None, Agreement.UNKNOWN))
    table = page(Explanation("x", LoadedServer(), None, checks)).tables[0]
    assert table.rows == (("experts", "16", "8", "differs"), ("layers", "12", "unknown", "not in the log"))


@pytest.mark.parametrize("name", ["layer-split-lv4.log", "fit-gave-up-lv3.log", "old/ik-llama.log"])
def test_json_holds_what_the_text_shows_with_null_for_what_is_not_known(name: str) -> None:
    found = json.loads(json.dumps(as_json(explained(name))))
    done = explained(name).done
    assert found["model"]["experts"] == done.model.experts
    assert found["context"]["tokens"] == done.context.tokens
    assert found["requests"][0]["predicted_tok_per_s"] == pytest.approx(done.requests[0].predicted_per_s)
    model = found["buffers"].get("model")
    assert (model is None) == (BufferKind.MODEL not in done.buffers)
    assert found["layer_devices"] is None or len(found["layer_devices"]) == (done.model.layers or 0) + 1


@pytest.mark.parametrize("width", [40, 80, 200])
def test_any_width_is_drawn(width: int) -> None:
    assert "RPC0" in drawn(explained("layer-split-lv4.log"), width)


@given(st.text())
def test_text_from_the_log_is_shown_harmlessly(text: str) -> None:
    done = LoadedServer(build=text, load_mode=text, caveats=(Caveat("x", text, text),))
    failure = Outcome(TrialStatus.FAILED, Failure.CRASHED, text, text)
    explanation = Explanation(text, done, failure)
    json.dumps(as_json(explanation))
    for shown in (drawn(explanation), as_markdown(explanation)):
        assert not any(ord(char) < 32 and char != "\n" for char in shown)
        assert "\x7f" not in shown
        assert "\u202e" not in shown
