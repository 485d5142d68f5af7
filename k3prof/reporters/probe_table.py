"""An examination of a model for a terminal: every answer, the scores, and the verdict last, next to the prompt."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.probes.probe import Outcome, Sign
from k3prof.core.probes.report import Comparison, ProbeReport
from k3prof.core.probes.verdict import Verdict
from k3prof.reporters import probe_page as page
from k3prof.reporters.untrusted import one_line

_ANSWER_CHARACTERS = 70
_STYLES = {Outcome.PASS: "green", Outcome.FAIL: "red", Outcome.UNANSWERED: "yellow"}
_VERDICT_STYLES = {
    Verdict.BROKEN: "bold red",
    Verdict.PARTLY_BROKEN: "bold red",
    Verdict.SOUND: "bold green",
    Verdict.SMALL: "bold green",
}


@dataclass(frozen=True)
class ProbeTable:
    """An examination as rich draws it.

    Attributes:
        report: The examination.
    """

    report: ProbeReport

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        yield Text(one_line(page.title(self.report)), style="bold")
        yield Text(page.method(self.report), style="dim")
        yield Text()
        yield self._answers()
        yield Text()
        yield self._groups()
        yield from _comparison(self.report.comparison, self.report.set_version)
        yield Text()
        for note in self.report.notes:
            yield Padding(Text(one_line(note), style="yellow"), (0, 1))
        style = _VERDICT_STYLES.get(self.report.judgement.verdict, "bold yellow")
        yield Padding(Text(one_line(page.conclusion(self.report)), style=style), (0, 1))
        yield Padding(Text(f"{page.speed(self.report)} {page.advice(self.report)}"), (0, 1))

    def _answers(self) -> Table:
        table = _empty()
        table.add_column("")
        table.add_column("probe", no_wrap=True)
        table.add_column("wanted", max_width=28)
        table.add_column("answer", ratio=1)
        for result in self.report.results:
            answer = Text(_shortened(one_line(page.answer_text(result))))
            if signs := [sign for sign in result.signs if sign is not Sign.EMPTY or not answer.plain]:
                answer.append(f" [{', '.join(signs)}]" if answer.plain else f"[{', '.join(signs)}]", style="yellow")
            table.add_row(
                Text(page.MARKS[result.outcome], style=_STYLES[result.outcome]),
                Text(result.probe.id),
                Text(_shortened(result.probe.expected), style="dim"),
                answer,
            )
        return table

    def _groups(self) -> Table:
        table = _empty()
        for index, column in enumerate(page.GROUP_COLUMNS):
            table.add_column(column, justify="right" if index else "left", no_wrap=True)
        for row in page.group_rows(self.report):
            cells = (row.name, row.right, row.interval, row.signs)
            table.add_row(*map(Text, cells), style="red" if row.is_broken else "")
        return table


def _comparison(comparison: Comparison | None, set_version: int) -> Iterator[RenderableType]:
    if comparison is None:
        return
    yield Text()
    for line in page.comparison_lines(comparison, set_version):
        yield Padding(Text(one_line(line)), (0, 1))
    for change in comparison.changes:
        before, after = (one_line(one.answer or "(no answer)") for one in (change.before, change.after))
        outcome = f"{change.before.outcome} → {change.after.outcome}"
        yield Padding(Text(f"{change.id}: {outcome}: {_shortened(before)} → {_shortened(after)}"), (0, 3))


def _shortened(text: str) -> str:
    return text if len(text) <= _ANSWER_CHARACTERS else f"{text[: _ANSWER_CHARACTERS - 1]}…"


def _empty() -> Table:
    return Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1), header_style="dim", show_edge=False)
