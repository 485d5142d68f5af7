"""An examination of a model as a Markdown page, every raw answer in it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.core.probes.report import Comparison, ProbeReport
from k3prof.reporters import probe_page as page
from k3prof.reporters.untrusted import markdown, markdown_code


def as_markdown(report: ProbeReport) -> str:
    """Return the page."""
    blocks = [
        f"# Is {markdown(report.model)} broken?",
        f"**{markdown(page.conclusion(report))}**",
        f"{page.speed(report)} {page.advice(report)}",
        *(f"**{markdown(note)}**" for note in report.notes),
        f"{markdown(page.title(report))}. {page.method(report)}",
        _table(page.GROUP_COLUMNS, [[one.name, one.right, one.interval, one.signs] for one in page.group_rows(report)]),
    ]
    if report.comparison is not None:
        blocks += _comparison(report.comparison, report.set_version)
    blocks.append("## Answers")
    for result in report.results:
        signs = f" ({', '.join(result.signs)})" if result.signs else ""
        blocks += [
            f"### {page.MARKS[result.outcome]} {markdown(result.probe.id)}{signs}",
            f"Asked: {markdown(result.probe.question)} Wanted: {markdown(result.probe.expected)}",
            markdown_code(page.answer_text(result)),
        ]
    return "\n\n".join(blocks) + "\n"


def _comparison(comparison: Comparison, set_version: int) -> Iterator[str]:
    yield "## Changes"
    yield " ".join(markdown(line) for line in page.comparison_lines(comparison, set_version))
    if comparison.changes:
        yield _table(
            ("probe", "before", "now", "answer before", "answer now"),
            [
                [one.id, one.before.outcome, one.after.outcome, one.before.answer or "", one.after.answer or ""]
                for one in comparison.changes
            ],
        )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *([markdown(cell) for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
