from __future__ import annotations

import json

import pytest
from rich.console import Console

from k3prof.core.device import DeviceKind
from k3prof.core.layout.placed import lay_out
from k3prof.core.layout.prediction import Prediction, predict
from k3prof.core.layout.rig import Rig, RigDevice, parse_rig
from k3prof.core.trial import Caveat, Workload
from k3prof.reporters.prediction_json import as_json
from k3prof.reporters.prediction_markdown import as_markdown
from k3prof.reporters.prediction_table import PredictionTable
from tests.doubles import tiny_models

DECODE = (Workload("tg", 128), Workload("tg", 128, streams=4))


def foresee(name="even", model=None, rig=None, **flags):
    named = {"parallel": 4, "fit": "off", "ctx-size": 2048} | {key.replace("_", "-"): flags[key] for key in flags}
    placed = lay_out(model or tiny_models.dense(), named, rig or parse_rig("2xA40"), "flags.{}".format)
    return predict(name, placed, DECODE)


def million():
    """A context that no A40 holds: 512 bytes per token and layer, over 600 million tokens."""
    return foresee("million", ctx_size=600_000_000, tensor_split=(1, 2))


def drawn(*predictions: Prediction, width: int = 110, notes=()) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(PredictionTable(predictions, notes))
    return capture.get()


def row(text: str, start: str) -> list[str]:
    return next(line for line in text.splitlines() if line.startswith(start)).split()


@pytest.mark.parametrize("width", [80, 110, 200])
def test_the_table_fits_the_terminal(width):
    shown = drawn(
        foresee(), million(), foresee("moe", tiny_models.experts(context_length=512), cpu_moe=True), width=width
    )
    assert max(len(line) for line in shown.splitlines()) <= width
    assert "…" not in shown


def test_each_device_has_its_own_row_and_verdict():
    shown = drawn(million())
    assert "Memory in MiB" in shown
    assert row(shown, "CUDA0")[-1] == "big"
    assert row(shown, "CPU")[-2:] == ["unknown", "unknown"]
    assert "CUDA0 lacks" in shown
    assert "it would fit up to ctx-size =" in " ".join(shown.split())


def test_the_summary_comes_first():
    shown = drawn(foresee(), million())
    assert shown.index("Placements") < shown.index("Memory in")
    assert row(shown, "even")[:3] == ["even", "fits", "CUDA0"]
    assert row(shown, "million")[1:3] == ["too", "big"]


def test_a_ceiling_says_what_it_is_of():
    words = " ".join(drawn(foresee()).split())
    assert "696 (datasheet)" in words
    assert "tok/s at most, devices taking turns" in words
    assert "tok/s at most, all devices busy" in words
    assert "ONE device reads at" in words
    assert "of the SUM of all peaks" in words
    assert "All figures are predicted." in words


def test_what_is_not_known_is_never_a_figure():
    stand_ins = Rig("here", tuple(RigDevice(f"RPC{index}", DeviceKind.STAND_IN) for index in range(2)))
    shown = drawn(foresee(rig=stand_ins))
    assert row(shown, "tok/s at most, devices")[-2:] == ["unknown", "unknown"]
    assert "how fast memory is read is not known of RPC0, RPC1" in shown
    assert "2× stand-in" in shown
    found = as_json((foresee(rig=stand_ins),))["placements"][0]
    assert [one["fits"] for one in found["devices"]] == [None, None, None]
    assert [one["tok_per_s_at_most"] for one in found["ceilings"]] == [None, None]


def test_unknown_caches_are_unknown():
    shown = drawn(foresee(model=tiny_models.dense("no-such-model")))
    assert "how much this architecture caches is not known" in shown
    assert row(shown, "CUDA0").count("unknown") >= 2


def test_rules_are_listed_with_what_they_match():
    shown = drawn(foresee(override_tensor="attn_q=CPU,attn=CUDA1"))
    assert row(shown, "attn_q=CPU") == ["attn_q=CPU", "CPU", "2", "2"]
    assert row(shown, "attn=CUDA1") == ["attn=CUDA1", "CUDA1", "10", "8"]


def test_warnings_come_with_their_remedies():
    shown = drawn(foresee(fit="on", n_gpu_layers=99))
    assert "fit-gives-up: --fit gives up because n-gpu-layers is set" in shown
    assert 'remedy: set fit = "off"' in shown


def test_a_placement_that_is_not_predicted_is_named():
    refused = Prediction("tensor", parse_rig("2xA40"), warnings=(Caveat("split-mode", "refused", "leave it out"),))
    shown = drawn(foresee(), refused)
    assert row(shown, "tensor") == ["tensor", "not", "predicted"]
    assert "split-mode: refused" in shown
    assert as_json((refused,))["placements"][0]["layout"] is None
    assert "not predicted" in as_markdown((refused,))


def test_notes_are_shown():
    assert "no build here" in drawn(foresee(), notes=("no build here",))
    assert "- no build here" in as_markdown((foresee(),), ("no build here",))
    assert as_json((foresee(),), ("no build here",))["notes"] == ["no build here"]


def test_json_holds_units_and_evidence():
    document = json.loads(json.dumps(as_json((foresee(n_cpu_ffn=1),))))
    assert document["evidence"] == "predicted"
    placement = document["placements"][0]
    assert placement["fits"] is True
    assert placement["compute_buffers"] == "a margin, not a prediction"
    first, *_ = placement["devices"]
    assert first["needed_bytes"] + first["headroom_bytes"] == first["usable_bytes"]
    assert placement["layout"]["rules"][0]["decides"] == [f"blk.0.ffn_{part}.weight" for part in ("gate", "up", "down")]
    assert {one["workload"] for one in placement["ceilings"]} == {"tg128", "tg128 x4"}
    device = document["rig"]["devices"][0]
    assert device["bandwidth"] == {"gb_per_s": 696, "origin": "datasheet"}


def test_markdown_has_a_table_of_every_placement():
    text = as_markdown((foresee(), million()))
    assert text.startswith("# Predicted: 2xA40: 2× A40\n")
    assert "| even | fits |" in text
    assert "## million" in text
    assert text.count("### Memory in MiB") == 2


def test_names_cannot_disturb_a_terminal_or_a_page():
    hostile = foresee("evil\x1b[31m|<b>\u202e")
    assert "\x1b" not in drawn(hostile)
    assert "\u202e" not in drawn(hostile)
    assert "evil\\|\\<b\\>" in as_markdown((hostile,))
