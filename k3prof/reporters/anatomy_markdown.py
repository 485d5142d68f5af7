"""A model's anatomy as Markdown."""

from __future__ import annotations

from collections.abc import Iterator

from k3prof.core.weights.anatomy import Anatomy
from k3prof.reporters.anatomy import Section, page
from k3prof.reporters.untrusted import markdown


def as_markdown(anatomy: Anatomy, heading: str = "#") -> str:
    """Return the title, the facts and the tables."""
    shown = page(anatomy)
    blocks = [f"{heading} {markdown(shown.title)}", "\n".join(f"- {markdown(fact)}" for fact in shown.facts)]
    blocks += [block for section in shown.sections for block in _section(section, heading + "#")]
    return "\n\n".join(blocks) + "\n"


def _section(section: Section, heading: str) -> Iterator[str]:
    yield f"{heading} {markdown(section.heading)}"
    rule = ("---", *("---:" for _ in section.columns[1:]))
    rows = [section.columns, rule, *section.rows]
    yield "\n".join("| " + " | ".join(cell if row is rule else markdown(cell) for cell in row) + " |" for row in rows)
    if section.note:
        yield markdown(section.note)
