"""Ladders as Markdown: a table for each, what it shows, and what the columns mean."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.reporters.ladder_tables import LadderSection, legends
from k3prof.reporters.untrusted import markdown


def ladder_blocks(sections: Sequence[LadderSection], heading: str) -> Iterator[str]:
    """Yield the blocks that tell of a placement's ladders; nothing where there are none."""
    for section in sections:
        yield f"{heading} {markdown(section.title)}"
        rows = [
            section.columns,
            ("---:",) * len(section.columns),
            *([markdown(one) for one in row] for row in section.rows),
        ]
        yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
        yield markdown(section.finding)
    yield from map(markdown, legends(sections))
