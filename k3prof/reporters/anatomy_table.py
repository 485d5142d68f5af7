"""A model's anatomy for a terminal."""

from __future__ import annotations

from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.weights.anatomy import Anatomy
from k3prof.reporters.anatomy import Section, page
from k3prof.reporters.untrusted import one_line

_INDENT = (0, 0, 0, 2)


@dataclass(frozen=True)
class AnatomyTable:
    """A model's anatomy as rich draws it.

    Attributes:
        anatomy: The model, taken apart.
    """

    anatomy: Anatomy

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the title, the facts and the tables."""
        shown = page(self.anatomy)
        yield Text(one_line(shown.title), style="bold")
        for fact in shown.facts:
            yield Padding(Text(fact), _INDENT, expand=False)
        for section in shown.sections:
            yield Text()
            yield Text(one_line(section.heading), style="bold")
            yield _table(section)
            if section.note:
                yield Padding(Text(one_line(section.note)), _INDENT, expand=False)


def _table(section: Section) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1), header_style="dim", show_edge=False)
    for index, column in enumerate(section.columns):
        text = index == 0 or column == "formats"
        table.add_column(one_line(column), justify="left" if text else "right", no_wrap=not text)
    last = len(section.rows) - 1
    for number, row in enumerate(section.rows):
        if section.total and number == last:
            table.add_section()
        table.add_row(*(Text(one_line(cell)) for cell in row))
    return table
