"""Predictions as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.core.layout.prediction import Prediction
from k3prof.reporters.anatomy import Section
from k3prof.reporters.prediction import devices, page, summary
from k3prof.reporters.untrusted import markdown


def as_markdown(predictions: tuple[Prediction, ...], notes: Sequence[str] = ()) -> str:
    """Return the summary of at least one placement, and each in turn."""
    blocks = [f"# Predicted: {markdown(devices(predictions))}", *_list(notes), *_section(summary(predictions), "##")]
    for prediction in predictions:
        shown = page(prediction)
        blocks += [f"## {markdown(shown.title)}", *_list(shown.facts)]
        blocks += [block for section in shown.sections for block in _section(section, "###")]
        blocks += _list([f"{one.code}: {one.message}. Remedy: {one.remedy}." for one in prediction.warnings])
    return "\n\n".join(blocks) + "\n"


def _list(items: Sequence[str]) -> Iterator[str]:
    if items:
        yield "\n".join(f"- {markdown(item)}" for item in items)


def _section(section: Section, heading: str) -> Iterator[str]:
    yield f"{heading} {markdown(section.heading)}"
    rule = ("---", *("---:" for _ in section.columns[1:]))
    rows = [section.columns, rule, *section.rows]
    yield "\n".join("| " + " | ".join(cell if row is rule else markdown(cell) for cell in row) + " |" for row in rows)
    if section.note:
        yield markdown(section.note)
