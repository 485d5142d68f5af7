"""Published evidence, judged, as one offline page: no network, no script; it prints well."""

from __future__ import annotations

from k3prof.core.refutation.published import PublishedReport
from k3prof.reporters import pages
from k3prof.reporters.published_page import CHECK_COLUMNS, CORRECTED_COLUMNS, VERDICT_COLUMNS, published_page


def as_html(report: PublishedReport) -> str:
    """Return the report."""
    page = published_page(report)
    return pages.render(
        "published.html",
        title=page.title,
        page=page,
        check_columns=CHECK_COLUMNS,
        verdict_columns=VERDICT_COLUMNS,
        corrected_columns=CORRECTED_COLUMNS,
    )
