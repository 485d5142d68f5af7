from __future__ import annotations

import json
from dataclasses import replace

import pytest

from k3prof.core.idle import Parallelism
from k3prof.core.summary import WorkloadSummary
from k3prof.reporters import claim_tables, ranking
from k3prof.reporters.ranking_json import as_json
from k3prof.reporters.report_html import as_html
from k3prof.reporters.report_markdown import as_markdown
from tests.doubles.reports import report_input
from tests.doubles.summaries import TG128, failed, placement, sweep
from tests.reporters.pages import Page


def answers(degree: float, low: float | None, high: float | None, devices: int = 3) -> tuple[str, ...]:
    """Return what a placement's row says after its P and interval."""
    found = Parallelism(degree, low, high, 6, tuple(f"RPC{n}" for n in range(devices)), 1)
    summary = placement("even", WorkloadSummary(TG128, None, None, found, {}))
    (row,) = claim_tables.claim_rows(ranking.sections([summary]))
    assert row[:3] == ("tg128", "even", f"{degree:.2f}")
    return row[4:]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        # 1.5 = 1 + (3 - 1) x at least a quarter of the time; at most 1.6 / 2; a mean of 1.5 leaves at most half idle.
        ((1.55, 1.5, 1.6), ("proven, 25 to 80 %", "open, at most 50 %", "refuted, 20 to 75 %")),
        ((0.74, 0.72, 0.76), ("open, at most 38 %", "proven, 24 to 76 %", "open, at least 62 %")),
        ((1.27, None, None), ("open", "open", "open")),
        ((0.5, 0.4, 0.6, 1), ("refuted", "proven, 40 to 60 %", "proven")),
    ],
)
def test_each_question_has_its_answer_and_the_share_of_the_time_it_can_hold_for(given, said):
    assert answers(*given) == said


def test_placements_that_failed_or_whose_p_is_unknown_claim_nothing():
    rows = claim_tables.claim_rows(ranking.sections(sweep()))
    assert {row[1] for row in rows} == {"even", "experts-8", "n-cpu-moe-4"}
    assert claim_tables.claim_rows(ranking.sections([failed("all-on-one")])) == ()


def test_what_would_decide_an_open_question_is_said_once():
    text = claim_tables.legend(ranking.sections(sweep()))
    assert text.count("the time of each device per token") == 1
    assert text.count("more time: one block alone has no interval") == 1


def test_page_and_markdown_show_them_where_they_say_what_p_means():
    given = report_input()
    rows = claim_tables.claim_rows(ranking.sections(given.summaries))
    assert len(rows) == 6
    page, text = Page(as_html(given)).text, as_markdown(given)
    for said in (page, text):
        begin, end = said.index("What P says here"), said.index("proven, ")
        assert begin < end < said.index("How it was measured")
    for row in rows:
        assert row[-1] in page
        assert f"| {row[0]} | {row[1]} |" in text


def test_json_gives_the_bounds_unrounded():
    even = next(one for one in as_json(sweep())["placements"] if one["placement"] == "even")
    claims = {one["claim"]: one for one in json.loads(json.dumps(even["workloads"][1]["parallelism"]["claims"]))}
    turns = claims["the devices took turns: never two at once"]
    assert (turns["answer"], turns["at_least_frac"], turns["at_most_frac"]) == ("open", 1 - 0.76 / 2, 1.0)
    assert "bandwidth" in turns["decided_by"]
    assert claims["none of the devices was busy"]["decided_by"] is None


def test_a_report_without_any_p_has_no_table_of_claims():
    given = report_input()
    silent = [
        replace(one, workloads=tuple(replace(workload, parallelism=None) for workload in one.workloads))
        for one in given.summaries
    ]
    assert "turns taken" not in as_html(replace(given, summaries=silent))
