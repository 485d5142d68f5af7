"""The ladders after a sweep, for a terminal: one table per workload, a group of rows per placement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.summary import PlacementSummary
from k3prof.reporters.ladder_tables import LadderSection, ladder_sections, legends
from k3prof.reporters.untrusted import one_line

_LEFT_OUT = frozenset({"min–max", "n", "mean context"})
"""Of these the report tells; a terminal of 80 columns has no room."""


def ladder_tables(summaries: Sequence[PlacementSummary]) -> Iterator[RenderableType]:
    """Yield a table per workload with a ladder and what it shows; nothing where there is none."""
    found = [(summary.placement, section) for summary in summaries for section in ladder_sections(summary)]
    for title in dict.fromkeys(section.title for _, section in found):
        alike = [(placement, section) for placement, section in found if section.title == title]
        yield _table(title, alike)
        for placement, section in alike:
            yield Padding(Text.assemble((one_line(placement), "bold"), f": {section.finding}"), (0, 1))
    for legend in legends([section for _, section in found]):
        yield Padding(Text(legend, style="dim"), (1, 1, 0, 1))


def _table(title: str, found: Sequence[tuple[str, LadderSection]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(title, overflow="fold", min_width=9)
    columns = [number for number, name in enumerate(found[0][1].columns) if name not in _LEFT_OUT]
    for number in columns:
        table.add_column(found[0][1].columns[number].replace("time to first token", "TTFT"), justify="right")
    for placement, section in found:
        table.add_section()
        for position, row in enumerate(section.rows):
            name = Text(one_line(placement) if position == 0 else "", style="bold")
            table.add_row(name, *(Text(row[number]) for number in columns))
    return table
