"""The ledgers after a sweep, for a terminal: one table per workload, one row per placement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich import box
from rich.console import RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.ledger import Ledger, LedgerLine, LineKind
from k3prof.core.summary import PlacementSummary
from k3prof.reporters.ledger_tables import closes_by, milliseconds, path
from k3prof.reporters.untrusted import one_line

_LEGEND = (
    "Milliseconds of a token by the client's clock, each moment counted once. other: sampling, HTTP, all else between "
    "two passes. ?: unexplained, by which the ledger does not close. The report says what would help."
)
_LIGHT = (
    "unknown: a light trace does not wait for devices, so that theirs is among the unexplained; try --splits exact."
)
_HEADINGS = {
    LineKind.AT_ONCE: "at once",
    LineKind.COPIES: "copies",
    LineKind.SCHEDULER: "sched",
    LineKind.BETWEEN: "other",
    LineKind.UNEXPLAINED: "?",
}
_CLOSES_FRAC = 0.05


def ledger_tables(summaries: Sequence[PlacementSummary]) -> Iterator[RenderableType]:
    """Yield a table per workload whose splits were traced, generation first; nothing where none was."""
    traced = [(summary.placement, one) for summary in summaries for one in summary.ledgers]
    workloads = dict.fromkeys(one.workload for _, one in traced)
    for workload in sorted(workloads, key=lambda one: one.kind != "tg"):
        yield _table([(name, one) for name, one in traced if one.workload == workload], workload.name)
    if traced:
        yield Padding(Text(_LEGEND, style="dim"), (0, 1))
        if not all(one.device_times_known for _, one in traced):
            yield Padding(Text(_LIGHT, style="dim"), (0, 1))
        yield from _paths(traced)


def _table(rows: Sequence[tuple[str, Ledger]], workload: str) -> Table:
    order = list(LineKind)
    keys = dict.fromkeys((line.kind, line.name) for _, found in rows for line in found.lines)
    columns = sorted(keys, key=lambda key: order.index(key[0]))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column(f"{workload}\nms/token", overflow="fold", min_width=9)
    for kind, name in columns:
        table.add_column(one_line(_HEADINGS.get(kind, name)), justify="right", vertical="bottom", overflow="fold")
    table.add_column("token", justify="right", no_wrap=True)
    table.add_column("closes\nby", justify="right", no_wrap=True)
    for placement, found in rows:
        lines = {(line.kind, line.name): line for line in found.lines}
        doubtful = "yellow" if abs(found.closes_by_frac) > _CLOSES_FRAC else ""
        table.add_row(
            one_line(placement),
            *(_cell(lines.get(key)) for key in columns),
            Text(milliseconds(found.token_ms), style="bold"),
            Text(closes_by(found), style=doubtful),
        )
    return table


def _cell(line: LedgerLine | None) -> Text:
    if line is None:
        return Text("")
    return Text("unknown", style="dim") if line.ms_per_token is None else Text(milliseconds(line.ms_per_token))


def _paths(traced: Sequence[tuple[str, Ledger]]) -> Iterator[Padding]:
    """Say once how passes go from device to device, for all placements in which they go so."""
    alike: dict[str, dict[str, None]] = {}
    for placement, found in traced:
        if found.crossings.returns and found.workload.kind == "tg":
            alike.setdefault(path(found.crossings), {})[one_line(placement)] = None
    for words, placements in alike.items():
        yield Padding(Text.assemble((", ".join(placements), "bold"), f": {words}"), (0, 1))
