"""An op profile for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.ops.op_profile import OpReport
from k3prof.reporters.op_page import LAYER_COLUMNS, Chapter, Section, chapters, title
from k3prof.reporters.untrusted import markdown, one_line

_FIGURES_WIDTH = 63
_BAR_CHARACTERS = 24
_LAYER_WIDTH = 42
"""Of one layer's cells in a terminal; as many stand beside each other as there is room for."""
_LEAST_LINES = 8


@dataclass(frozen=True)
class OpTables:
    """An op profile as rich draws it: what to look at first comes last, next to the prompt.

    Attributes:
        report: The profile.
    """

    report: OpReport

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        yield Text(one_line(title(self.report)), style="bold")
        for chapter in chapters(self.report):
            yield Text()
            yield Text(one_line(chapter.heading), style="bold cyan")
            yield _layers(chapter.layers, max(options.max_width // _LAYER_WIDTH, 1))
            for section in chapter.sections[1:]:
                yield _table(section, min(_BAR_CHARACTERS, options.max_width - _FIGURES_WIDTH))
            yield from _sentences(chapter)


def as_markdown(report: OpReport) -> str:
    """Return the profile as a Markdown page."""
    blocks = [f"# {markdown(title(report))}"]
    for chapter in chapters(report):
        blocks += [f"## {markdown(chapter.heading)}", "\n".join(f"- {markdown(fact)}" for fact in chapter.facts)]
        blocks += [f"**{markdown(warning)}**" for warning in chapter.warnings]
        blocks += [block for section in reversed(chapter.sections) for block in _markdown_section(section)]
    return "\n\n".join(blocks) + "\n"


def _markdown_section(section: Section) -> Iterator[str]:
    yield f"### {markdown(section.heading)}"
    figures = [column in ("share", "90 % interval", "if free") for column in section.columns]
    lines = [section.columns, tuple("---:" if figure else "---" for figure in figures)]
    cells = [*lines, *(row.cells for row in section.rows)]
    yield "\n".join(
        "| " + " | ".join(cell if row is lines[1] else markdown(cell) for cell in row) + " |" for row in cells
    )
    if section.note:
        yield markdown(section.note)


def _sentences(chapter: Chapter) -> Iterator[Padding]:
    if chapter.parts.note:
        yield Padding(Text(chapter.parts.note, style="bold"), (1, 1, 0, 1))
    for fact in chapter.facts:
        yield Padding(Text(fact, style="dim"), (0, 1))
    for warning in chapter.warnings:
        yield Padding(Text(warning, style="yellow"), (0, 1))


def _table(section: Section, bar_characters: int) -> Table:
    table = _empty()
    for index, column in enumerate(section.columns):
        head = section.heading if index == 0 else column
        table.add_column(head, justify="right" if index else "left", no_wrap=True, min_width=0 if index else 22)
    if bar_characters > 0:
        table.add_column("")
    largest = max(row.frac for row in section.rows)
    for row in section.rows:
        bar = Text("█" * round(bar_characters * row.frac / largest), style="cyan")
        table.add_row(*(Text(one_line(cell)) for cell in row.cells), *([bar] if bar_characters > 0 else []))
    return table


def _layers(section: Section, beside: int) -> Table:
    """Lay the layers out in columns, read downwards."""
    rows = len(section.rows)
    height = max(-(-rows // beside), min(_LEAST_LINES, rows))
    table = _empty()
    for _ in range(-(-rows // height)):
        for index, column in enumerate(LAYER_COLUMNS):
            table.add_column(column, justify="left" if index == 1 else "right", no_wrap=True)
    for line in range(height):
        cells = [cell for row in section.rows[line::height] for cell in row.cells]
        table.add_row(*(Text(one_line(cell)) for cell in cells))
    return table


def _empty() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1), header_style="dim", show_edge=False)
