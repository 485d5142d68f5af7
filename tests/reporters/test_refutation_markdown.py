from __future__ import annotations

import html
import re

from markdown_it import MarkdownIt

from k3prof.reporters.refutation_markdown import as_markdown
from tests.doubles.verdicts import eight, everywhere, refutation_report

GFM = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])


def rendered(report) -> str:
    return GFM.render(as_markdown(report))


def rows(page: str) -> list[list[str]]:
    found = re.findall("<tr>(.*?)</tr>", page, re.DOTALL)
    return [[html.unescape(cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", row)] for row in found]


def test_the_overview_has_every_hypothesis():
    overview = [row for row in rows(rendered(refutation_report())) if len(row) == 5][:8]
    assert [row[0] for row in overview] == [row.verdict.hypothesis.claim for row in eight()]
    assert overview[1][1:] == ["✗ refuted", "1.281 [1.270, 1.292]", "1.6 to 2.0", "3"]
    assert overview[7][1:] == ["? inconclusive", "0.965 [0.947, 0.983]", "0.95 to 1.05", "5, 1 void"]


def test_the_same_parts_stand_in_the_same_order_as_on_the_page():
    assert re.findall("<h2>(.*?)</h2>", rendered(refutation_report())) == [
        *("How to read this", "What the ceiling is not", "What holds", "What remains", "The noise of this rig"),
        *("The hypotheses, one by one", "What was run"),
    ]


def test_an_earlier_verdict_is_struck_through_and_says_what_replaced_it():
    page = rendered(refutation_report())
    assert "<s>? inconclusive: 1.000 [0.987, 1.013], predicted 0.900 to 0.995</s> given 2026-09-20" in page


def test_single_figures_are_not_bold():
    page = rendered(refutation_report())
    assert "<em>✗ refuted, unreplicated</em>" in page
    assert "<strong>✗ refuted</strong>" in page


def test_hostile_text_cannot_leave_its_place():
    evil = "<script>x</script>|**~~`[a](http://evil)\n# no\n```\x1b[31m"
    page = rendered(everywhere(refutation_report(), evil))
    assert "<script" not in page and "<a " not in page and "\x1b" not in page
    assert page.count("<h1>") == 1
    plain = rendered(refutation_report())
    assert [len(row) for row in rows(page)] == [len(row) for row in rows(plain)]
    assert page.count("<li>") == plain.count("<li>")
    assert page.count("<s>") == plain.count("<s>")


def test_nothing_judged_has_a_page():
    assert "No hypothesis was judged." in as_markdown(refutation_report((), noise=()))
