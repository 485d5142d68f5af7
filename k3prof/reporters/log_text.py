"""What a log tells, for a terminal and as Markdown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich import box
from rich import table as rich_table
from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.text import Text

from k3prof.core.evidence.explanation import Explanation
from k3prof.core.trial import Caveat
from k3prof.reporters.log_page import page
from k3prof.reporters.log_tables import Table
from k3prof.reporters.untrusted import markdown, one_line

_INDENT = (0, 0, 0, 2)
_UNKNOWN = "not in this log"


@dataclass(frozen=True)
class LogText:
    """A log's explanation as rich draws it."""

    explanation: Explanation

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the failure if there is one, the facts, the tables, and the reasons to doubt."""
        shown = page(self.explanation)
        yield Text(one_line(shown.title), style="bold")
        if (failure := self.explanation.failure) is not None:
            yield Padding(
                Text(f"{failure.failure}: {one_line(failure.message)}", style="bold red"), _INDENT, expand=False
            )
            yield Padding(Text.assemble(("log: ", "dim"), one_line(failure.evidence)), _INDENT, expand=False)
        facts = rich_table.Table.grid(padding=(0, 2, 0, 0))
        facts.add_column(style="dim", no_wrap=True)
        facts.add_column(overflow="fold")
        for fact in shown.facts:
            facts.add_row(Text(one_line(fact.name)), Text(one_line(fact.text)))
        if shown.unknown:
            facts.add_row(Text(_UNKNOWN), Text(", ".join(shown.unknown), style="dim"))
        yield Padding(facts, _INDENT, expand=False)
        for table in shown.tables:
            yield Text()
            yield Text(one_line(table.heading), style="bold")
            yield _drawn(table)
            if table.note:
                yield Padding(Text(one_line(table.note), style="dim"), _INDENT, expand=False)
        yield from _doubts(self.explanation.done.caveats)


def _drawn(table: Table) -> rich_table.Table:
    drawn = rich_table.Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1), header_style="dim", show_edge=False)
    for index, column in enumerate(table.columns):
        words = index in table.words
        drawn.add_column(one_line(column), justify="left" if words else "right", overflow="fold", no_wrap=not words)
    for row in table.rows:
        drawn.add_row(*(Text(one_line(cell)) for cell in row))
    return drawn


def _doubts(caveats: tuple[Caveat, ...]) -> Iterator[Text | Padding]:
    if caveats:
        yield Text("\nFallbacks and doubts", style="bold")
    for caveat in caveats:
        said = Text.assemble((one_line(caveat.code), "yellow"), ": ", one_line(caveat.message))
        yield Padding(said, _INDENT, expand=False)
        if caveat.remedy:
            remedy = Text.assemble(("remedy: ", "dim"), one_line(caveat.remedy))
            yield Padding(remedy, (0, 0, 0, 4), expand=False)


def as_markdown(explanation: Explanation) -> str:
    """Return the same as a Markdown page."""
    return "\n\n".join(_blocks(explanation)) + "\n"


def _blocks(explanation: Explanation) -> Iterator[str]:
    shown = page(explanation)
    yield f"# {markdown(shown.title)}"
    if (failure := explanation.failure) is not None:
        yield f"**{failure.failure}: {markdown(failure.message)}**"
        yield f"> {markdown(failure.evidence)}"
    facts = [f"- **{markdown(fact.name)}**: {markdown(fact.text)}" for fact in shown.facts]
    if shown.unknown:
        facts.append(f"- **{_UNKNOWN}**: {', '.join(shown.unknown)}")
    yield "\n".join(facts)
    for table in shown.tables:
        yield f"## {markdown(table.heading)}"
        rule = tuple("---" if index in table.words else "---:" for index in range(len(table.columns)))
        rows = [map(markdown, table.columns), rule, *(map(markdown, row) for row in table.rows)]
        yield "\n".join(f"| {' | '.join(row)} |" for row in rows)
        if table.note:
            yield markdown(table.note)
    if explanation.done.caveats:
        yield "## Fallbacks and doubts"
        yield "\n".join(map(_doubt, explanation.done.caveats))


def _doubt(caveat: Caveat) -> str:
    remedy = f" Remedy: {markdown(caveat.remedy)}." if caveat.remedy else ""
    return f"- `{caveat.code}`: {markdown(caveat.message)}.{remedy}"
