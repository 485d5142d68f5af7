"""Published evidence, judged, as Markdown: the same words and figures as the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.core.refutation.published import PublishedReport
from k3prof.reporters.published_page import (
    CHECK_COLUMNS,
    CORRECTED_COLUMNS,
    VERDICT_COLUMNS,
    ClaimPage,
    NumberPage,
    PublishedPage,
    published_page,
)
from k3prof.reporters.untrusted import markdown


def as_markdown(report: PublishedReport) -> str:
    """Return the report."""
    return "\n\n".join(_blocks(published_page(report))) + "\n"


def _blocks(page: PublishedPage) -> Iterator[str]:
    yield f"# {markdown(page.title)}"
    yield markdown(page.source)
    yield f"**{markdown(page.lead)}**"
    for section in page.doubtful:
        yield f"## {section.heading}"
        yield _table(CHECK_COLUMNS, [number.row for number in section.numbers])
        yield from map(_number, section.numbers)
    if page.claims:
        yield "## Hypotheses"
        yield _table(VERDICT_COLUMNS, [claim.row for claim in page.claims])
        for claim in page.claims:
            yield from _claim(claim)
    if page.confirmed is not None:
        yield f"## {page.confirmed.heading}"
        yield _table(CHECK_COLUMNS, [number.row for number in page.confirmed.numbers])
    yield "## How to read this"
    yield from map(markdown, page.reading)


def _number(number: NumberPage) -> str:
    facts = (f"  - {name}: {markdown(text)}" for name, text in number.facts)
    return "\n".join([f"- **{markdown(number.row[0])}**", *facts])


def _claim(claim: ClaimPage) -> Iterator[str]:
    yield f"### {markdown(claim.row[0])}"
    facts = [f"- {name}: {markdown(text)}" for name, texts in claim.facts for text in texts]
    yield "\n".join([f"- {markdown(claim.row[1])}", *facts])
    if claim.corrected:
        yield _table(CORRECTED_COLUMNS, claim.corrected)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ("---",) * len(columns), *([markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
