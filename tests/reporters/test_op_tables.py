from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from k3prof.core.ops.op_profile import OpReport
from k3prof.core.ops.op_record import Timing
from k3prof.reporters.op_json import as_json
from k3prof.reporters.op_tables import OpTables, as_markdown
from tests.doubles.op_reports import op_report

PART_ROWS = (
    ("MoE", "75.0 %", "75.0–75.0", "≤ 4.00×"),
    ("attention (GQA)", "25.0 %", "25.0–25.0", "≤ 1.33×"),
)


def drawn(report: OpReport, width: int) -> list[str]:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(OpTables(report))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_every_share_stands_whole_in_a_terminal_of_any_width(width):
    lines = drawn(op_report(), width)
    assert max(map(len, lines)) <= width
    text = " ".join(" ".join(lines).split())
    assert "…" not in text
    for row in PART_ROWS:
        assert " ".join(row) in text
    assert "Small (qwen3moe), qwen3moe.expert_used_count = 2; build default: 1.2.3 (commit abc)" in text
    assert "decode: 6 tokens one by one, 4 in the context before, on CUDA0 with 2 threads" in text


def test_what_to_look_at_first_stands_last_in_a_terminal_and_first_on_a_page():
    headings = ["by part", "by role of the weights", "by op", "layer"]
    for text, order in (("\n".join(drawn(op_report(), 120)), -1), (as_markdown(op_report()), 1)):
        found = [text.find(f" {heading}") for heading in headings]
        assert -1 not in found
        assert found == sorted(found)[::order]


def test_bars_are_as_long_as_shares_and_left_out_where_there_is_no_room():
    lines = drawn(op_report(), 120)
    bars = {name: {line.count("█") for line in lines if line.startswith(f" {name} ")} for name, *_ in PART_ROWS}
    assert bars == {"MoE": {24}, "attention (GQA)": {24 // 3}}
    assert not any("█" in line for line in drawn(op_report(), 60))


@pytest.mark.parametrize(("width", "lines"), [(60, 93), (90, 47), (120, 47), (200, 24)])
def test_many_layers_stand_beside_each_other(width, lines):
    shown = [line for line in drawn(op_report(93), width) if "GQA + MoE" in line]
    assert len(shown) == lines
    assert sum(line.count("GQA + MoE") for line in shown) == 93


def test_it_says_what_the_largest_part_could_gain():
    assert "If MoE were free, tokens would come at most 4.00 times as fast." in "\n".join(drawn(op_report(), 120))


def test_the_distortion_is_printed_with_its_measure():
    text = " ".join(" ".join(drawn(op_report(plain_us=80), 120)).split())
    assert "A token takes 0.08 ms. Timing 4 stretches of the graph makes that 1.10×, timing all 8 nodes 2.00×" in text
    assert "The stretches add up to 100 % of an untimed token, the nodes to 120 %" in text
    assert "do not add up" not in text


@pytest.mark.parametrize(("plain_us", "doubted"), [(60, True), (73, False), (80, False), (88, False), (100, True)])
def test_stretches_that_are_no_token_are_a_warning(plain_us, doubted):
    said = "The stretches do not add up to what is computed untimed"
    for text in (" ".join(drawn(op_report(plain_us=plain_us), 200)), as_markdown(op_report(plain_us=plain_us))):
        assert (said in text) is doubted


def test_nodes_that_take_longer_than_their_stretches_are_a_warning():
    report = op_report(plain_us=80)
    said = "what consists of many small ops looks larger than it is"
    assert said not in as_markdown(report)
    (found,) = report.profiles
    worse = replace(found, distortion=replace(found.distortion, nodes_frac=1.4))
    assert f"140 % of the stretches that they form: by op and by role, {said}" in as_markdown(
        replace(report, profiles=(worse,))
    ).replace("\\", "")


def test_small_ops_are_summed_up_on_a_page_but_not_in_data():
    (row,) = (line for line in as_markdown(op_report()).splitlines() if "others" in line)
    assert row == "| 2 others | 0.5 % |  | ≤ 1.01× |"
    (ops,) = (one["shares"]["by_op"] for one in as_json(op_report())["passes"])
    assert {one["name"] for one in ops} == {"MUL_MAT", "MUL_MAT_ID", "CLAMP", "DIV"}


def test_without_timed_nodes_there_is_neither_role_nor_op():
    report = op_report(timing=Timing.LAYER)
    for text in ("\n".join(drawn(report, 120)), as_markdown(report)):
        assert "by op" not in text
        assert "by role" not in text
    (found,) = as_json(report)["passes"]
    assert found["shares"]["by_op"] is None
    assert found["distortion"]["by_node"] is None


def test_an_interval_that_nobody_knows_is_unknown():
    assert "unknown" in as_markdown(op_report(passes=1))
    (found,) = as_json(op_report(passes=1))["passes"]
    assert found["shares"]["by_part"][0]["low_frac"] is None


def test_a_models_name_cannot_reach_the_terminal_or_the_page():
    report = op_report(name="\x1b[31mred\n# heading | cell")
    assert not any("\x1b" in line for line in drawn(report, 120))
    page = as_markdown(report)
    assert "\x1b" not in page
    assert page.startswith("# red \\# heading \\| cell (qwen3moe)")


def test_data_names_units_and_rounds_nothing():
    found = json.loads(json.dumps(as_json(op_report(3)), allow_nan=False))
    assert found["format_version"] == 1
    assert found["mode"] == "node"
    assert found["model"]["overrides"] == {"qwen3moe.expert_used_count": 2}
    (decode,) = found["passes"]
    assert (decode["kind"], decode["passes"], decode["devices"]) == ("tg", 6, ["CUDA0"])
    assert [one["name"] for one in decode["shares"]["by_layer"]] == ["0", "1", "2"]
    for shares in decode["shares"].values():
        assert sum(one["share_frac"] for one in shares) == pytest.approx(1)
    assert decode["shares"]["by_part"][0] == {
        "name": "MoE",
        "share_frac": pytest.approx(0.75),
        "low_frac": pytest.approx(0.75),
        "high_frac": pytest.approx(0.75),
        "most_gain": pytest.approx(4),
    }
