from __future__ import annotations

import html
import re
from dataclasses import replace

from markdown_it import MarkdownIt

from k3prof.core.trial import Caveat, Failure, Outcome, TrialStatus
from k3prof.reporters.ranking_markdown import as_markdown
from tests.doubles.summaries import failed, sweep

GFM = MarkdownIt("commonmark", {"html": True}).enable("table")


def cells(page: str) -> list[list[str]]:
    rows = re.findall("<tr>(.*?)</tr>", page, re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in rows]


def test_each_workload_is_a_table_with_every_placement():
    rows = [row for row in cells(GFM.render(as_markdown(sweep()))) if row]
    assert len(rows) == 2 * 5
    even = next(row for row in rows if row[0] == "even")
    assert even == [
        *("even", "33.31", "32.80–33.41", "3", "0.80×", "0.74", "[0.72, 0.76]"),
        *("0.28", "0.24", "0.22", "0.05", "2.1 s", ""),
    ]
    lost = next(row for row in rows if row[0] == "all-on-one")
    assert lost[-1] == "failed: out of memory"
    assert lost[1] == "unknown"


def test_builds_are_told_apart_where_there_are_several():
    even, *others = (replace(one, build="default") for one in sweep())
    page = as_markdown([replace(even, build="m|q"), *others])
    rows = {row[0]: row[-1] for row in cells(GFM.render(page)) if row}
    assert rows["even"] == "build m|q"
    assert rows["all-on-one"] == "build default, failed: out of memory"
    assert as_markdown([even, *others]) == as_markdown(sweep())


def test_names_and_log_lines_cannot_leave_their_place():
    outcome = Outcome(
        TrialStatus.FAILED, Failure.CRASHED, "<img src=x onerror=alert(1)>", "```\n<script>x</script>\n# no"
    )
    page = GFM.render(as_markdown([failed("a|b <script>`|", outcome), *sweep()]))
    assert "<script" not in page
    assert "<img" not in page
    assert page.count("<h1>") == 0
    assert all(len(row) == 13 for row in cells(page) if row)
    assert any(row and row[0] == "a|b <script>`|" for row in cells(page))


def test_what_makes_all_placements_doubtful_is_told_once():
    lacking = Caveat("counters-missing", "not offered by the driver: CUDA0: energy_j", "these stay unknown")
    page = GFM.render(as_markdown([replace(one, caveats=(*one.caveats, lacking)) for one in sweep()]))
    assert page.count("counters-missing") == 1
    assert page.index("<h3>all placements</h3>") < page.index("counters-missing")
    assert page.count("1 caveat") == GFM.render(as_markdown(sweep())).count("1 caveat")
