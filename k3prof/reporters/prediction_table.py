"""Predictions for a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.layout.prediction import Prediction
from k3prof.core.trial import Caveat
from k3prof.reporters.anatomy import Section
from k3prof.reporters.prediction import FITS, devices, page, summary
from k3prof.reporters.untrusted import one_line

_STYLES = {FITS[True]: "green", FITS[False]: "red", FITS[None]: "dim"}


@dataclass(frozen=True)
class PredictionTable:
    """Predictions as rich draws them: all placements in one table, then each in turn.

    Attributes:
        predictions: At least one.
        notes: How they were made.
    """

    predictions: tuple[Prediction, ...]
    notes: Sequence[str] = ()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the summary and the placements."""
        yield Text(one_line(devices(self.predictions)), style="bold")
        for note in self.notes:
            yield Padding(Text(one_line(note), style="yellow"), (0, 2))
        yield from _section(summary(self.predictions))
        for prediction in self.predictions:
            yield Text()
            shown = page(prediction)
            yield Text(one_line(shown.title), style="bold cyan")
            for fact in shown.facts:
                yield Padding(Text(one_line(fact)), (0, 2))
            for section in shown.sections:
                yield from _section(section)
            for warning in prediction.warnings:
                yield from _warning(warning)


def _section(section: Section) -> RenderResult:
    yield Padding(Text(one_line(section.heading), style="bold"), (1, 0, 0, 0))
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    for index, column in enumerate(section.columns):
        table.add_column(one_line(column), justify="right" if index else "left", overflow="fold")
    for number, row in enumerate(section.rows, start=1):
        if section.total and number == len(section.rows):
            table.add_section()
        table.add_row(*(Text(one_line(cell), style=_STYLES.get(cell, "")) for cell in row))
    yield table
    if section.note:
        yield Padding(Text(one_line(section.note), style="dim"), (0, 2))


def _warning(warning: Caveat) -> RenderResult:
    text = Text.assemble((one_line(warning.code), "yellow"), ": ", one_line(warning.message))
    yield Padding(text, (0, 2))
    if warning.remedy:
        yield Padding(Text.assemble(("remedy: ", "dim"), one_line(warning.remedy)), (0, 4))
