"""Published evidence, judged, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.refutation.published import Finding, PublishedReport
from k3prof.core.refutation.verdict import Ruling
from k3prof.reporters import published_words as words
from k3prof.reporters.published_page import ClaimPage, NumberSection, PublishedPage, published_page
from k3prof.reporters.untrusted import one_line

_WIDE_COLUMNS = 110
_FINDING_STYLES = {Finding.WRONG: "red", Finding.UNKNOWN: "yellow"}
_RULING_STYLES = {
    str(Ruling.SUPPORTED): "green italic",
    str(Ruling.REFUTED): "red italic",
    str(Ruling.INCONCLUSIVE): "yellow",
}


@dataclass(frozen=True)
class PublishedTable:
    """Recomputed numbers and verdicts as rich draws them.

    Attributes:
        report: The evidence, judged.
    """

    report: PublishedReport

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the answer, the numbers with what is wrong first, then the claims, then how to read it all."""
        page = published_page(self.report)
        yield Padding(Text(one_line(page.title), style="bold"), (0, 1))
        yield Padding(Text(one_line(page.source), style="dim"), (0, 1))
        yield Padding(Text(one_line(page.lead), style="bold"), (1, 1, 0, 1))
        for section in page.doubtful:
            yield Padding(Text(section.heading, style="bold cyan"), (1, 1, 0, 1))
            yield from _numbers(section)
        if page.claims:
            yield Padding(Text("Hypotheses", style="bold cyan"), (1, 1, 0, 1))
            yield _claims(page, wide=options.max_width >= _WIDE_COLUMNS)
            for claim in page.claims:
                yield from _claim(claim)
        if page.confirmed is not None:
            yield Padding(Text(page.confirmed.heading, style="bold cyan"), (1, 1, 0, 1))
            yield _confirmed(page.confirmed)
        for paragraph in page.reading:
            yield Padding(Text(one_line(paragraph), style="dim"), (1, 1, 0, 1))


def _numbers(section: NumberSection) -> Iterator[Padding]:
    sign, style = words.SIGNS[section.finding], _FINDING_STYLES[section.finding]
    for number in section.numbers:
        name, stated, unit, recomputed, off = map(one_line, number.row)
        said = f"stated {' '.join(filter(None, [stated, unit]))}"
        told = f", recomputed {recomputed}: off by {off}" if off else ""
        line = Text.assemble((f"{sign} ", style), (name, "bold"), ": ", said, told)
        yield Padding(line, (0, 1, 0, 2))
        for fact, text in number.facts:
            yield Padding(Text.assemble((f"{fact}: ", "dim"), one_line(text)), (0, 1, 0, 4))


def _confirmed(section: NumberSection) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("number", overflow="fold", ratio=3)
    table.add_column("stated", overflow="fold", justify="right", ratio=2)
    table.add_column("recomputed", overflow="fold", justify="right", ratio=2)
    for number in section.numbers:
        name, stated, unit, recomputed, off = map(one_line, number.row)
        label = Text.assemble(name, (f", {unit}" if unit else "", "dim"))
        table.add_row(label, stated, Text("\n").join(Text(text) for text in (recomputed, off) if text))
    return table


def _claims(page: PublishedPage, *, wide: bool) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("hypothesis", overflow="fold", min_width=9)
    table.add_column("verdict", overflow="fold")
    table.add_column("found" if wide else "found\npredicted", overflow="fold")
    if wide:
        table.add_column("predicted", overflow="fold")
    table.add_column("figures", overflow="fold")
    for claim in page.claims:
        _, verdict, found, predicted, figures = map(one_line, claim.row)
        judged = Text(verdict.replace(", ", "\n"), style=_RULING_STYLES[claim.ruling])
        if wide:
            cells: Sequence[Text] = [judged, Text(found), Text(predicted, style="dim"), Text(figures)]
        else:
            cells = [judged, Text.assemble(found, "\n", (predicted, "dim")), Text(figures)]
        table.add_row(Text(one_line(claim.id)), *cells)
    return table


def _claim(claim: ClaimPage) -> Iterator[Padding]:
    sign = claim.row[1][0]
    yield Padding(
        Text.assemble((f"{sign} ", _RULING_STYLES[claim.ruling]), (one_line(claim.row[0]), "bold")), (1, 1, 0, 2)
    )
    for name, (first, *more) in claim.facts:
        yield Padding(Text.assemble((f"{name}: ", "dim"), one_line(first)), (0, 1, 0, 4))
        yield from (Padding(Text(one_line(text)), (0, 1, 0, 6)) for text in more)
    if claim.corrected:
        yield Padding(Text("put right:", style="dim"), (0, 1, 0, 4))
    for name, verdict, figure, _ in claim.corrected:
        yield Padding(Text(one_line(f"{verdict}: {figure}, {name}")), (0, 1, 0, 6))
