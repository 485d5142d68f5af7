"""The ranking after a sweep, for a terminal of any width."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.evidence.proof import Proof
from k3prof.core.idle import Parallelism
from k3prof.core.summary import PlacementSummary
from k3prof.core.trial import Caveat, TrialStatus
from k3prof.reporters import formats, proof_tables, ranking
from k3prof.reporters.ladder_table import ladder_tables
from k3prof.reporters.ledger_table import ledger_tables
from k3prof.reporters.untrusted import one_line

_WIDE_COLUMNS = 120
_ANY_COLUMNS = 10_000
_DEVICE_CHARACTERS = {True: 48, False: 20}
_MEMORY_LEGEND = (
    "What the servers allocated. ✓: weights, KV cache and recurrent state each as predicted before the start, to 0.01 "
    "MiB; the report has every term."
)
_STATUS_STYLE = {
    TrialStatus.OK: "yellow",
    TrialStatus.FAILED: "red",
    TrialStatus.VOID: "magenta",
    TrialStatus.INTERRUPTED: "yellow",
    TrialStatus.RUNNING: "cyan",
}


@dataclass(frozen=True)
class RankingTable:
    """A sweep's ranking as rich draws it: one line a row where there is room, two where there is not.

    Attributes:
        summaries: One per placement.
    """

    summaries: Sequence[PlacementSummary]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table, what its columns mean, and the notes that its rows only count."""
        wide = options.max_width >= _WIDE_COLUMNS
        found = ranking.sections(self.summaries)
        yield _table(found, wide)
        yield Padding(_legend(found), (0, 1))
        yield from _memory(self.summaries, console, options.max_width)
        yield from ladder_tables(self.summaries)
        yield from ledger_tables(self.summaries)
        yield from _notes(self.summaries)


def _table(found: Sequence[ranking.Section], wide: bool) -> Table:
    devices = tuple(dict.fromkeys(device for section in found for device in section.devices))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 1 if wide else 0), header_style="bold")
    table.add_column("placement", overflow="fold", min_width=9)
    table.add_column("tok/s", justify="right", no_wrap=True)
    if wide:
        table.add_column("min–max", justify="right", no_wrap=True)
    table.add_column("of best" if wide else "of best\nload", justify="right", no_wrap=True)
    table.add_column("P", justify="right", no_wrap=True)
    if wide:
        table.add_column("90 % interval", justify="right", no_wrap=True)
    table.add_column(_device_lines(devices, devices, wide), no_wrap=True)
    if wide:
        table.add_column("load", justify="right", no_wrap=True)
        table.add_column("notes", overflow="fold")
    for section in found:
        table.add_section()
        table.add_row(Text(section.workload.name, style="bold cyan"))
        for row in section.rows:
            table.add_row(*_cells(row, devices, wide))
    return table


def _cells(row: ranking.Row, devices: Sequence[str], wide: bool) -> Iterator[Text]:
    summary, found = row.summary, row.found
    parallelism = None if found is None else found.parallelism
    rate = None if found is None else found.rate
    dim = "" if row.place is not None else "dim"
    name = Text(one_line(summary.placement), style="bold green" if row.place == 1 else dim)
    ending = formats.standing(summary.outcome) if rate is not None else summary.outcome.failure
    reasons = filter(None, [ending, formats.note_of_caveats(row.caveats)])
    words = [Text(one_line(row.build), style="dim"), Text(", ".join(reasons), _STATUS_STYLE[summary.outcome.status])]
    note = Text(", ", style="dim").join(word for word in words if word)
    extent = Text(" ".join(filter(None, [formats.rate_range(rate), formats.repetitions(rate)])), style="dim")
    measured = Text(_rate(row), style=dim)
    interval = Text(formats.interval(parallelism), style="dim")
    degree = Text(formats.degree(parallelism), style=_degree_style(parallelism))
    shares = [formats.share(found.busy_frac.get(device) if found else None) for device in devices]
    busy = Text(_device_lines(shares, devices, wide), style=dim)
    relative, load = Text(formats.times_best(row.relative)), Text(formats.seconds(summary.load_s), style=dim)
    if wide:
        yield from (name, measured, extent, relative, degree, interval, busy, load, note)
    else:
        yield from (
            _stack(name, note),
            _stack(measured, extent),
            _stack(relative, load),
            _stack(degree, interval),
            busy,
        )


def _rate(row: ranking.Row) -> str:
    if row.found is not None and row.found.rate is not None:
        return formats.rate(row.found.rate.median)
    status = row.summary.outcome.status
    return formats.UNKNOWN if status is TrialStatus.OK else str(status)


def _degree_style(parallelism: Parallelism | None) -> str:
    if parallelism is None:
        return "dim"
    return "bold" if parallelism.proves_overlap else ""


def _device_lines(words: Sequence[str], devices: Sequence[str], wide: bool) -> str:
    """Lay one word per device under the devices' names, over as many lines as it takes."""
    if set(words) <= {formats.UNKNOWN}:
        return formats.UNKNOWN
    width = max(4, *(len(one_line(word)) for word in (*words, *devices)))
    padded = [one_line(word).rjust(width) for word in words]
    per_line = max(_DEVICE_CHARACTERS[wide] // (width + 1), 1)
    return "\n".join(" ".join(padded[start : start + per_line]) for start in range(0, len(padded), per_line))


def _stack(above: Text, below: Text) -> Text:
    return Text("\n").join([above, below])


def _legend(found: Sequence[ranking.Section]) -> Text:
    if not found:
        return Text("no workload was asked for", style="dim")
    return Text(
        "tok/s: median over n repetitions. P: how many devices were busy at a time, on average. Under the devices' "
        "names: the share of the time in which each was busy.",
        style="dim",
    )


def _memory(summaries: Sequence[PlacementSummary], console: Console, width: int) -> Iterator[RenderableType]:
    proven = [(summary.placement, summary.proof) for summary in summaries if summary.proof and summary.proof.memory]
    if not proven:
        return
    table = _memory_by_device(proven)
    unlimited = console.options.update(max_width=_ANY_COLUMNS)
    yield table if console.measure(table, options=unlimited).maximum <= width else _memory_in_words(proven)
    yield Padding(Text(_MEMORY_LEGEND, style="dim"), (0, 1))


def _memory_by_device(proven: Sequence[tuple[str, Proof]]) -> Table:
    devices = tuple(dict.fromkeys(term.device for _, proof in proven for term in proof.memory))
    table = _memory_table()
    for device in devices:
        table.add_column(one_line(device), justify="right", no_wrap=True)
    for placement, proof in proven:
        table.add_row(one_line(placement), *(_memory_text(proof, device) for device in devices))
    return table


def _memory_in_words(proven: Sequence[tuple[str, Proof]]) -> Table:
    """Return the same where more devices than fit side by side: a text per placement, folded between devices."""
    table = _memory_table()
    table.add_column("", overflow="fold")
    for placement, proof in proven:
        devices = dict.fromkeys(term.device for term in proof.memory)
        # Without spaces, at which rich would fold them apart.
        words = [Text(f"{one_line(device)}=") + _memory_text(proof, device, joined=True) for device in devices]
        table.add_row(one_line(placement), Text("  ").join(words))
    return table


def _memory_table() -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=True, padding=(0, 1, 0, 0), header_style="bold")
    table.add_column("MiB", overflow="fold", min_width=9)
    return table


def _memory_text(proof: Proof, device: str, *, joined: bool = False) -> Text:
    word = proof_tables.memory_word(proof, device)
    style = "" if word.endswith(proof_tables.AGREES) else "yellow"
    return Text(word.replace(f" {proof_tables.AGREES}", proof_tables.AGREES) if joined else word, style=style)


def _notes(summaries: Sequence[PlacementSummary]) -> Iterator[Padding]:
    for summary in summaries:
        texts = list(_outcome_lines(summary))
        if texts:
            yield Padding(Text(one_line(summary.placement), style="bold"), (1, 1, 0, 1))
            yield from (Padding(text, (0, 1, 0, 3)) for text in texts)
    doubted: dict[Caveat, list[str]] = {}
    for summary in summaries:
        for caveat in summary.caveats:
            doubted.setdefault(caveat, []).append(one_line(summary.placement))
    shared = ranking.shared_caveats(summaries)
    for caveat, placements in doubted.items():
        whom = "all placements" if caveat in shared else ", ".join(placements)
        yield Padding(Text(whom, style="bold"), (1, 1, 0, 1))
        yield from (Padding(text, (0, 1, 0, 3)) for text in _caveat_lines(caveat))


def _outcome_lines(summary: PlacementSummary) -> Iterator[Text]:
    outcome = summary.outcome
    standing = formats.standing(outcome)
    if standing or outcome.message:
        said = ". ".join(part for part in (standing, one_line(outcome.message)) if part)
        yield Text(said, style=_STATUS_STYLE[outcome.status])
    if outcome.evidence:
        yield Text.assemble(("log: ", "dim"), one_line(outcome.evidence))


def _caveat_lines(caveat: Caveat) -> Iterator[Text]:
    yield Text.assemble((one_line(caveat.code), "yellow"), ": ", one_line(caveat.message))
    if caveat.remedy:
        yield Text.assemble(("  remedy: ", "dim"), one_line(caveat.remedy))
