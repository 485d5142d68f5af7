"""Opens a report on hypotheses in a browser, as wide as a phone and as a desk's screen."""

from __future__ import annotations

import json
import re
from html import escape, unescape

import pytest

from k3prof.reporters.refutation_html import as_html
from tests.doubles.verdicts import everywhere, refutation_report
from tests.reporters.test_in_a_browser import EVIL, opened, pytestmark  # noqa: F401

LONG = "a-name-that-has-no-place-to-break-and-goes-on-" * 4
# The page forbids scripts, so one around it looks in.
AROUND = """<!DOCTYPE html><meta charset="utf-8"><body>
<iframe style="width: {width}px; height: 900px; border: 0" srcdoc="{page}"></iframe>
<script>
onload = () => {{
    const {{contentDocument: page, contentWindow: view}} = document.querySelector("iframe");
    const wide = [...page.querySelectorAll("body *")].filter((one) =>
        !one.closest(".scroll > *") && one.getBoundingClientRect().right > view.innerWidth + 0.5);
    const pictures = [...page.images], loaded = view.performance.getEntriesByType("resource").map((one) => one.name);
    document.body.dataset.seen = JSON.stringify({{
        title: page.title, inner: view.innerWidth, needed: page.documentElement.scrollWidth,
        wide: wide.map((one) => one.outerHTML.slice(0, 200)),
        loaded: loaded.filter((one) => !one.startsWith("data:")),
        drawn: pictures.filter((one) => one.complete && one.naturalWidth > 0).length, pictures: pictures.length,
    }});
}};
</script></body>"""


def looked_at(html: str, width: int, folder) -> dict:
    dom, complaints = opened(AROUND.format(width=width, page=escape(html)), folder)
    assert complaints == []
    return json.loads(unescape(re.search('data-seen="([^"]*)"', dom)[1]))


@pytest.mark.parametrize("width", [400, 780, 1200])
@pytest.mark.parametrize("text", ["", EVIL, LONG], ids=["plain", "hostile", "long"])
def test_a_report_fits_loads_nothing_and_draws_its_pictures(width, text, tmp_path):
    report = everywhere(refutation_report(), text) if text else refutation_report()
    seen = looked_at(as_html(report), width, tmp_path)
    assert seen["inner"] == width
    assert seen["wide"] == []
    assert seen["needed"] <= width
    assert seen["loaded"] == []
    assert seen["drawn"] == seen["pictures"] == 7
    assert seen["title"] == " ".join(["what is the ceiling?", text]).strip()


def test_a_report_opens_without_a_complaint_and_can_be_printed(tmp_path):
    paper = tmp_path / "report.pdf"
    _, complaints = opened(as_html(refutation_report()), tmp_path, f"--print-to-pdf={paper}")
    assert complaints == []
    assert paper.read_bytes().startswith(b"%PDF")
