"""Hypotheses and their verdicts for a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.refutation.verdict import Ruling
from k3prof.reporters import refutation_words as words
from k3prof.reporters.refutation_input import Judged, RefutationReport
from k3prof.reporters.refutation_page import (
    Conclusion,
    conclusions,
    effort,
    lead,
    overview_row,
    replacements,
    stand_in_warning,
)
from k3prof.reporters.untrusted import one_line

_WIDE_COLUMNS = 110
_NARROW_COLUMNS = 70
_STYLES = {Ruling.SUPPORTED: "green", Ruling.REFUTED: "red", Ruling.INCONCLUSIVE: "yellow"}
_LEGEND = (
    "found: candidate / baseline, or the metric itself, with its 90 % interval over blocks. A block: both placements "
    "twice, in mirrored order, each time on a fresh server."
)


@dataclass(frozen=True)
class RefutationTable:
    """A set of verdicts as rich draws it: one line a row where there is room, two where there is not.

    Attributes:
        report: The hypotheses, judged.
    """

    report: RefutationReport

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table, then what was learnt and why, then what it took."""
        yield Padding(Text(lead(self.report.rows), style="bold"), (0, 1))
        if self.report.rows:
            yield _table(self.report.rows, options.max_width)
            yield Padding(Text(_LEGEND, style="dim"), (0, 1))
        for one in conclusions(self.report):
            yield Padding(Text(one.heading, style="bold cyan"), (1, 1, 0, 1))
            for item in one.items:
                yield from _conclusion(item)
        yield Padding(Text(one_line(effort(self.report))), (1, 1, 0, 1))
        if self.report.stand_ins:
            yield Padding(Text(stand_in_warning(self.report), style="yellow"), (0, 1))


def _table(rows: Sequence[Judged], width: int) -> Table:
    wide, whole = width >= _WIDE_COLUMNS, width >= _NARROW_COLUMNS
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("hypothesis", overflow="fold", min_width=9)
    if wide:
        table.add_column("claim", overflow="fold")
    table.add_column("verdict", no_wrap=whole, overflow="fold")
    table.add_column("found" if wide else "found\npredicted", no_wrap=whole, overflow="fold")
    if wide:
        table.add_column("predicted", no_wrap=True)
    table.add_column("blocks", overflow="fold", min_width=6)
    for row in rows:
        table.add_row(*_cells(row, wide=wide))
    return table


def _cells(row: Judged, *, wide: bool) -> Iterator[Text]:
    claim, verdict, found, predicted, blocks = map(one_line, overview_row(row))
    weak = words.is_weak(row.verdict)
    name = Text(one_line(row.verdict.hypothesis.id), style="" if weak else "bold")
    judged = Text(verdict.replace(", ", "\n"), style=_STYLES[row.verdict.ruling] + (" italic" if weak else " bold"))
    about, expected, counted = Text(claim, style="dim"), Text(predicted, style="dim"), Text(blocks.replace(", ", "\n"))
    if wide:
        yield from (name, about, judged, Text(found), expected, counted)
    else:
        yield from (_stack(name, about), judged, _stack(Text(found), expected), counted)


def _stack(above: Text, below: Text) -> Text:
    return Text("\n").join([above, below])


def _conclusion(item: Conclusion) -> Iterator[Padding]:
    """Yield a claim and why it stands as it does; what was found and predicted stands in the table."""
    yield Padding(Text(one_line(f"{item.sign} {item.claim}"), style="italic" if item.is_weak else "bold"), (0, 1, 0, 2))
    lines = [Text(one_line(remark)) for remark in item.remarks] if item.row is None else _why(item.row)
    yield from (Padding(line, (0, 1, 0, 4)) for line in lines)


def _why(row: Judged) -> Iterator[Text]:
    found = row.verdict
    reasons = [found.rule, words.magnitude(found), *found.reasons, words.grade(found) if words.is_weak(found) else ""]
    yield from (Text(one_line(reason)) for reason in reasons if reason)
    if words.needed(found):
        yield Text(one_line(f"to settle it: {words.needed(found)}"))
    yield from (Text(one_line(f"→ {what}"), style="bold") for what in words.consequences(found))
    for void in found.evidence.voided:
        yield Text(one_line(f"round {void.round} is void: {void.reason}"), style="magenta")
    for doubt in found.evidence.caveats:
        yield Text(one_line(words.caveat(doubt)), style="yellow")
    if row.note:
        yield Text(one_line(row.note), style="dim")
    for was, remark in replacements(row):
        yield Text.assemble(("earlier: ", "dim"), (one_line(was), "strike dim"), f", {one_line(remark)}")
