"""A sweep's report as one offline page: no network, no script, under 3 MB."""

from __future__ import annotations

import base64
from collections.abc import Sequence

from k3prof.reporters import (
    claim_tables,
    formats,
    gpu_tables,
    ladder_plot,
    ladder_tables,
    ledger_tables,
    pages,
    proof_tables,
)
from k3prof.reporters.ladder_tables import LadderSection
from k3prof.reporters.report_input import ReportInput
from k3prof.reporters.report_page import FIGURE_COLUMNS, PlacementPage, report_page
from k3prof.reporters.timeline_png import as_png

_PICTURES_BYTES = 2_400_000


def as_html(given: ReportInput) -> str:
    """Return the report of a sweep; pictures are left out, and said to be, once they would make it too big."""
    page = report_page(given)
    placements = [*page.placements, *page.unfinished]
    return pages.render(
        "report.html",
        title=page.title,
        page=page,
        formats=formats,
        figure_columns=FIGURE_COLUMNS,
        claim_columns=claim_tables.CLAIM_COLUMNS,
        gpu_columns=gpu_tables.GPU_COLUMNS,
        gpu_legend=gpu_tables.LEGEND,
        check_columns=proof_tables.CHECK_COLUMNS,
        memory_legend=proof_tables.MEMORY_LEGEND,
        line_columns=ledger_tables.LINE_COLUMNS,
        what_if_columns=ledger_tables.WHAT_IF_COLUMNS,
        ledger_legend=ledger_tables.LEGEND,
        pictures=_pictures(placements),
        plots={one.summary.placement: [_plot(section) for section in one.ladders] for one in placements},
        ladder_legends=ladder_tables.legends,
        anchors={one.summary.placement: f"placement-{number}" for number, one in enumerate(placements, start=1)},
    )


def _plot(section: LadderSection) -> str | None:
    svg = ladder_plot.as_svg(section)
    return None if svg is None else f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"


def _pictures(placements: Sequence[PlacementPage]) -> dict[str, str]:
    """Return the placements' timelines as data URIs, as many as there is room for, best placements first."""
    pictures: dict[str, str] = {}
    left_bytes = _PICTURES_BYTES
    for one in placements:
        if one.drawn is None:
            continue
        uri = f"data:image/png;base64,{base64.b64encode(as_png(one.drawn)).decode()}"
        left_bytes -= len(uri)
        if left_bytes < 0:
            break
        pictures[one.summary.placement] = uri
    return pictures
