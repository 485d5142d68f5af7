from __future__ import annotations

import json

import pytest
from rich.console import Console

from k3prof.core.layout.hardware import DATASHEETS, parse_bandwidth
from k3prof.core.weights.anatomy import Anatomy, dissect
from k3prof.core.weights.traffic import ForwardPass
from k3prof.llama.gguf import read_model
from k3prof.reporters.anatomy import page, parameters, size
from k3prof.reporters.anatomy_json import as_json
from k3prof.reporters.anatomy_markdown import as_markdown
from k3prof.reporters.anatomy_table import AnatomyTable
from tests.doubles import tiny_models
from tests.doubles.full_size_k3 import K3, write_full_size_k3


@pytest.fixture(scope="module")
def k3(tmp_path_factory):
    return read_model(write_full_size_k3(tmp_path_factory.mktemp("k3") / "k3.gguf", K3(tokens=100)))


def drawn(anatomy: Anatomy, width: int = 100) -> str:
    console = Console(width=width, color_system=None, force_terminal=False)
    with console.capture() as capture:
        console.print(AnatomyTable(anatomy))
    return capture.get()


def line_with(text: str, start: str) -> list[str]:
    return next(line for line in text.splitlines() if line.strip().startswith(start)).split()


@pytest.mark.parametrize(
    ("n_bytes", "text"),
    [(None, "unknown"), (0, "0 B"), (999, "999 B"), (27_648, "27.65 kB"), (6.93e9, "6.93 GB"), (388.3e9, "388.3 GB")],
)
def test_sizes_have_a_unit_that_fits(n_bytes, text):
    assert size(n_bytes) == text


def test_parameters_are_in_billions_or_millions():
    assert (parameters(2779.48e9), parameters(494e6)) == ("2,779.5 B", "494.0 M")


@pytest.mark.parametrize("width", [80, 100, 160])
def test_the_table_of_k3_shows_that_seven_gigabytes_are_only_the_routed_experts(k3, width):
    shown = drawn(dissect(k3, ForwardPass(), DATASHEETS), width)
    words = " ".join(shown.split())
    assert "2,779.5 B parameters, 104.2 B active per token (16 of 896 experts)" in words
    assert "93 layers: 69 KDA, 24 MLA; 92 with experts" in words
    assert "Routed experts are 6.93 GB of 67.75 GB of weights: 60.82 GB are read for every token" in words
    assert "Routed experts alone would promise 100.4 on A40: that is no ceiling." in words
    assert line_with(shown, "A40")[-4:] == ["10.1", "10.1", "12.6", "16.9"]
    assert line_with(shown, "at 1,048,576 tokens")[-2:] == ["27.0", "GiB"]
    assert line_with(shown, "recurrent state")[-4:] == ["464.6", "MB", "(443.1", "MiB)"]
    assert "27,648 B" in shown
    assert all(len(line) <= width for line in shown.splitlines())
    assert "…" not in shown


def test_the_whole_of_k3_is_read_within_a_screen(k3):
    assert len(drawn(dissect(k3, ForwardPass(), [DATASHEETS[0]])).splitlines()) <= 45


def test_the_rows_add_up_to_the_total(k3):
    figures = as_json(dissect(k3, ForwardPass(depth=1000), DATASHEETS))
    moved = sum(role["read_bytes"] for role in figures["roles"])
    moved += figures["pass"]["kv_read_and_written_bytes"] + figures["pass"]["state_read_and_written_bytes"]
    assert moved == pytest.approx(figures["pass"]["total_bytes"])
    assert sum(role["file_bytes"] for role in figures["roles"]) == figures["model"]["weight_bytes"]


def test_json_holds_exact_figures(k3):
    figures = json.loads(json.dumps(as_json(dissect(k3, ForwardPass(), [parse_bandwidth("696")]))))
    assert figures["model"]["kv_bytes_per_token"] == 27_648
    assert figures["model"]["state_bytes_per_sequence"] == 464_633_856
    assert figures["model"]["layers_by_attention"] == {"KDA": 69, "MLA": 24}
    in_file = figures["ceilings"][0]
    assert in_file["trunk_format"] is None
    (device,) = in_file["devices"]
    assert device["origin"] == "given"
    assert device["ceiling_tok_per_s"] == pytest.approx(696e9 / in_file["read_bytes"])


def test_what_is_unknown_is_said_and_never_a_zero():
    anatomy = dissect(tiny_models.dense("gemma3"), ForwardPass(depth=10), DATASHEETS)
    shown = drawn(anatomy)
    assert line_with(shown, "KV read+written")[-1] == "unknown"
    assert line_with(shown, "state read+written")[-1] == "unknown"
    assert line_with(shown, "total")[-1] == "unknown"
    assert "How much gemma3 caches is not known to k3prof" in " ".join(shown.split())
    assert "Caches are not counted: the true ceilings are lower." in " ".join(shown.split())
    figures = as_json(anatomy)
    assert figures["pass"]["total_bytes"] is None
    assert figures["model"]["kv_bytes_per_token"] is None
    assert figures["ceilings"][0]["caches_counted"] is False


def test_a_dense_model_is_shown_without_a_word_of_experts():
    shown = drawn(dissect(tiny_models.dense(), ForwardPass(), DATASHEETS))
    assert "experts" not in shown.replace("trunk: all but routed experts", "")


def test_several_tokens_are_said_to_be_an_upper_bound():
    shown = drawn(dissect(tiny_models.experts(), ForwardPass(4, 4), DATASHEETS))
    assert "an upper bound" in shown
    assert "4 tokens of 4 sequences" in shown


def test_mtp_layers_are_shown_as_not_read():
    shown = drawn(dissect(tiny_models.dense("glm4moe", nextn_predict_layers=1), ForwardPass(), DATASHEETS))
    assert "1 layer: 1 GQA, and 1 MTP" in shown
    assert "not read" in next(line for line in shown.splitlines() if line.strip().startswith("MTP"))


def test_a_vocabulary_is_shown_as_having_no_weights():
    shown = drawn(dissect(tiny_models.model("llama", {"block_count": 2}, {}), ForwardPass(), DATASHEETS))
    assert "no weights: a vocabulary only" in shown


def test_markdown_has_the_same_figures_as_the_table(k3):
    anatomy = dissect(k3, ForwardPass(), DATASHEETS)
    text = as_markdown(anatomy)
    assert text.startswith("# Kimi K3 (kimi-k3)\n")
    assert "| A40, 696 GB/s | 10.1 | 10.1 | 12.6 | 16.9 |" in text
    tables = [line for line in text.splitlines() if line.startswith("|")]
    assert len(tables) == sum(len(section.rows) + 2 for section in page(anatomy).sections)


@pytest.mark.parametrize("hostile", ["\x1b[31mred\x1b[0m", "a\nb", "[bold]x[/bold]", "a|b", "\u202egpj", "<script>"])
def test_a_hostile_name_is_shown_as_text(hostile):
    model = tiny_models.model("llama", {"block_count": 1}, {"blk.0.ffn_up.weight": (64, 64)})
    model = type(model)(model.architecture, hostile, model.metadata, model.geometry, model.tensors, model.shards)
    anatomy = dissect(model, ForwardPass(), DATASHEETS)
    shown, text = drawn(anatomy), as_markdown(anatomy)
    assert not any(character in shown + text for character in ("\x1b", "\u202e"))
    assert shown.splitlines()[0].endswith("(llama)")
    assert text.splitlines()[0].endswith("(llama)")
    assert "<script>" not in text
