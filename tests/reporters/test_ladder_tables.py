from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from k3prof.core.layout.context_cost import ContextCost
from k3prof.core.trial import Outcome, TrialStatus
from k3prof.reporters.ladder_markdown import ladder_blocks
from k3prof.reporters.ladder_plot import as_svg
from k3prof.reporters.ladder_tables import as_json, ladder_sections
from k3prof.reporters.ranking_json import as_json as ranking_as_json
from k3prof.reporters.ranking_markdown import as_markdown
from k3prof.reporters.report_html import as_html
from k3prof.reporters.report_input import ReportInput
from tests.doubles.ladders import placement, workload
from tests.reporters.test_table import drawn

COST = ContextCost({"CUDA0": 1000, "CUDA1": 500}, {"CUDA0": 500.0, "CUDA1": 500.0})


def measured(**given):
    return placement(
        workload("tg8", [10.0, 9.9, 10.1], [50.0]),
        workload("tg8 x2", [18.0, 17.0, 18.5], [80.0]),
        workload("tg8 x4", [19.0, 18.8, 19.5], [150.0]),
        workload("tg8@d1024", [9.5, 9.4, 9.6]),
        workload("tg8@d2048", [9.0, 9.0, 9.1]),
        **given,
    )


def texts(svg):
    return "".join(ET.fromstring(svg).itertext())


def test_a_streams_ladder_tells_where_it_saturates_and_by_how_much():
    streams, _ = ladder_sections(measured())
    assert streams.title == "tg8 by streams"
    assert streams.rows[1] == ("x2", "18.00", "17.00–18.50", "3", "9.00", "1.80×", "90 %", "80 ms")
    assert streams.finding == (
        "It saturates after x2: from there on a level gains less than 10 % over the one before "
        "(x4 5.6 %, by medians over repetitions)."
    )


def test_a_depth_ladder_sets_the_measured_slope_beside_the_predicted_one():
    _, depth = ladder_sections(measured(cost=COST))
    assert depth.rows[1] == ("1,024", "1,028", "105.3", "104.2–106.4", "3")
    assert depth.finding.startswith("1,000 tokens of context add to each token: measured 5.43 ms [")
    assert depth.finding.endswith("predicted at least 0.003 ms (1,500 bytes of KV cache per token on CUDA0, CUDA1).")


def test_what_is_not_known_is_said_to_be_unknown():
    few = placement(workload("tg8", [9.0]), workload("tg8@d9", []), workload("tg8 x2", []))
    streams, depth = ladder_sections(few)
    assert streams.rows[1] == ("x2", "unknown", "", "", "unknown", "unknown", "unknown", "unknown")
    assert streams.finding == "Where it saturates is not known: fewer than two levels were measured."
    assert "measured unknown, since fewer than two levels were measured" in depth.finding
    assert "predicted unknown, since the model's caches, or where they lie, are not known" in depth.finding
    assert as_svg(streams) is None
    assert as_svg(depth) is None


def test_a_slope_whose_interval_holds_0_says_so():
    levels = [workload(f"tg8@d{depth}", [rate]) for depth, rate in ((0, 10.0), (999, 9.0), (1999, 10.5))]
    assert "], which holds 0; predicted" in ladder_sections(placement(*levels))[0].finding


def test_pictures_are_told_in_words_and_are_equal_for_equal_ladders():
    for section in ladder_sections(measured(cost=COST)):
        svg = as_svg(section)
        assert svg == as_svg(section)
        assert section.finding in texts(svg)
        assert svg.count(b'role="img"') == 1


def test_all_formats_tell_of_the_same_ladders():
    summary = measured(cost=COST, name="<b>even</b>")
    findings = [section.finding for section in ladder_sections(summary)]
    terminal = " ".join(drawn([summary], 120).split())
    markdown = as_markdown([summary])
    for finding in findings:
        assert finding in terminal
        assert finding.replace("[", r"\[").replace("]", r"\]") in markdown
    assert "| x4 | 19.00 | 18.80–19.50 | 3 | 4.75 | 1.90× | 48 % | 150 ms |" in markdown
    (found,) = json.loads(json.dumps(ranking_as_json([summary])))["placements"]
    assert found["ladders"] == as_json(summary)
    assert found["ladders"]["by_streams"][0]["saturated_after"] == "tg8 x2"
    assert found["ladders"]["by_depth"][0]["predicted_ms_per_1000_tokens"] == pytest.approx(0.003)
    page = as_html(ReportInput("t", [summary], [], {}, {}, {}, [], {}, "", None))
    assert page.count("data:image/svg+xml") == 2
    assert "<b>even</b>" not in page
    assert findings[0] in page


def test_the_terminals_tables_fit_eighty_columns():
    lines = drawn([measured(cost=COST)], 80).splitlines()
    assert max(map(len, lines)) <= 80
    assert any("efficiency" in line and "TTFT" in line for line in lines)


def test_a_void_placement_has_no_ladder():
    void = replace(measured(), outcome=Outcome(TrialStatus.VOID, message="it ran elsewhere"))
    assert ladder_sections(void) == ()


def test_a_sweep_without_ladders_says_nothing_of_them():
    alone = placement(workload("tg8", [9.0]), workload("pp8", [9.0]))
    assert list(ladder_blocks(ladder_sections(alone), "##")) == []
    assert "by streams" not in drawn([alone], 120)
