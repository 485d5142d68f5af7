from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from k3prof.reporters import published_words as words
from k3prof.reporters.published_html import as_html
from k3prof.reporters.published_json import as_json
from k3prof.reporters.published_markdown import as_markdown
from k3prof.reporters.published_table import PublishedTable
from tests.doubles.published import published_report
from tests.reporters.pages import Page, refers_outside

EVIL = "<script>alert(1)</script>\x1b[31m\u202e"


def table(width: int, report=None) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(PublishedTable(report or published_report()))
    return console.export_text()


def flat(text: str) -> str:
    return " ".join(text.split())


LEAD = (
    "5 published numbers recomputed in 4 checks: 2 confirmed, 1 shown wrong, 1 cannot be recomputed. 5 hypotheses, "
    "judged by unreplicated figures: 1 supported, 1 refuted, 3 inconclusive."
)


def everywhere() -> dict[str, str]:
    report = published_report()
    return {
        "table": flat(table(120)),
        "narrow": flat(table(60)),
        "html": flat(Page(as_html(report)).text),
        "markdown": flat(as_markdown(report).replace("\\", "")),
    }


@pytest.mark.parametrize(
    "said",
    [
        LEAD,
        "+7.4 %",
        "24 * 1152 * 1048576 / 2 ** 30 = 27.0 GiB",
        "GiB and GB mixed up",
        "the two rates",
        "by rounding",
        "rests on “KV cache”, which is wrong",
        "0.69 of the ceiling [0.66, 0.73]",
        "Q8_0",
        "no drafts were reported",
        "if refuted: look elsewhere",
        "is assumed, not measured (n = 1)",
        "by Welch's t on logarithms, n = 3 and 3",
        "off by up to 5 % either way: six runs",
        "1.77 stands for 1.765 to 1.775",
    ],
)
def test_every_form_says_it(said):
    missing = [form for form, text in everywhere().items() if said not in text]
    assert missing == []


def test_what_is_wrong_stands_first_and_what_is_confirmed_last():
    for text in everywhere().values():
        places = [text.index(heading) for heading in ("Shown wrong", "Cannot be recomputed", "Hypotheses", "Confirmed")]
        assert places == sorted(places)


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
def test_a_table_stays_within_its_width(width):
    assert max(len(line) for line in table(width).splitlines()) <= width


def test_a_page_loads_nothing_and_runs_nothing():
    page = Page(as_html(published_report()))
    assert refers_outside(page) == []
    assert "script" not in page.tags


def test_hostile_text_is_shown_and_not_obeyed():
    report = published_report(title=EVIL, note=EVIL)
    html = as_html(report)
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)" in html
    markdown = as_markdown(report)
    assert "<script>" not in markdown.replace("\\<", "")
    for text in (html, markdown, table(100, report)):
        assert "\x1b" not in text
        assert "\u202e" not in text


def test_the_data_are_json_with_nothing_rounded():
    found = json.loads(json.dumps(as_json(published_report()), allow_nan=False))
    price, kv, _, gain = found["checks"]
    assert (price["finding"], kv["finding"], gain["finding"]) == ("confirmed", "shown wrong", "cannot be recomputed")
    assert kv["numbers"] == [
        {"stated": 29.0, "recomputed": 27.0, "low": 27.0, "high": 27.0, "agrees": False, "excess_frac": 2 / 27}
    ]
    assert gain["numbers"] == []
    assert gain["stated"] == [28.0]
    bound = found["hypotheses"][4]
    assert bound["ruling"] == "inconclusive"
    assert bound["predicted"] == {"low": 0.6, "high": None, "smallest": None, "unit": "of the ceiling"}
    assert [one["ruling"] for one in bound["corrected"]] == ["refuted", "supported"]
    assert found["hypotheses"][3]["as_published"]["estimate"] is None


def test_a_stated_number_shows_its_digits_and_the_value_one_more():
    price, kv, about, _ = published_report().checks
    assert words.check_row(price) == ("price", "1.814, 0.592", "", "1.8134, 0.5916", "by rounding")
    assert words.check_row(kv) == ("KV cache", "29", "GiB", "27.0", "+7.4 %")
    assert words.check_row(about) == ("about", "85", "USD", "83.7", "")
