"""Hypotheses and their verdicts as one offline page: no network, no script; it prints well."""

from __future__ import annotations

import base64

from k3prof.reporters import pages, refutation_plot
from k3prof.reporters.refutation_input import RefutationReport
from k3prof.reporters.refutation_legend import READING
from k3prof.reporters.refutation_page import OVERVIEW_COLUMNS, refutation_page


def as_html(given: RefutationReport) -> str:
    """Return the report, with a picture of the evidence for each hypothesis that has some."""
    page = refutation_page(given)
    drawn = [(one.row, refutation_plot.as_svg(one.row)) for one in page.hypotheses]
    return pages.render(
        "refutation.html",
        title=page.title,
        page=page,
        columns=OVERVIEW_COLUMNS,
        reading=READING,
        pictures=[None if svg is None else _uri(svg) for _, svg in drawn],
        descriptions=[refutation_plot.describe(row) if svg is not None else "" for row, svg in drawn],
    )


def _uri(svg: bytes) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
