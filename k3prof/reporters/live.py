"""A sweep while it runs: the table that a terminal shows, and the lines that a log gets instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.trial import TrialStatus
from k3prof.reporters import formats
from k3prof.reporters.untrusted import one_line

_BARS = " ▁▂▃▄▅▆▇█"
_FRAME_LINES = 7
_FIXED_COLUMNS = 44
_NOTE_COLUMNS = 100
_STYLE = {
    None: "dim",
    TrialStatus.RUNNING: "bold",
    TrialStatus.OK: "green",
    TrialStatus.FAILED: "red",
    TrialStatus.VOID: "magenta",
    TrialStatus.INTERRUPTED: "yellow",
}


@dataclass(frozen=True)
class FinishedStep:
    """A part of a trial that is over: loading, or one workload with all its repetitions.

    Attributes:
        name: `load`, or the workload's name.
        took_s: How long it took.
        rate: Tokens per second, the median; None for loading and when it is not known.
    """

    name: str
    took_s: float
    rate: float | None = None


@dataclass(frozen=True)
class ProgressRow:
    """How far one placement is.

    Attributes:
        placement: Its name.
        status: How its trial stands; None while it waits for its turn.
        phase: What it is doing: `load 40 %`, `warm-up`, `tg128 2/3`; empty when it is not running.
        rate: Tokens per second so far in that phase, or of the last workload; None when not known.
        busy_frac: Latest busy share of each device; None where not observed.
        note: Why it failed, or that it was measured earlier.
        finished: The steps that are over.
    """

    placement: str
    status: TrialStatus | None = None
    phase: str = ""
    rate: float | None = None
    busy_frac: Mapping[str, float | None] = field(default_factory=dict)
    note: str = ""
    finished: tuple[FinishedStep, ...] = ()


@dataclass(frozen=True)
class SweepProgress:
    """How far a sweep is.

    Attributes:
        rows: One per placement, in the order of the plan.
        elapsed_s: Time since the sweep began.
        left_s: Estimated time to its end; None while nothing can be said.
        cost_usd: What the machine has cost so far; None when it has no price.
        noun: What a row stands for.
    """

    rows: Sequence[ProgressRow]
    elapsed_s: float
    left_s: float | None = None
    cost_usd: float | None = None
    noun: str = "placement"


def render(progress: SweepProgress) -> RenderableType:
    """Return the table for a terminal; it fits the terminal's width and height when it is drawn."""
    return _LiveTable(progress)


def new_lines(before: SweepProgress | None, now: SweepProgress) -> list[str]:
    """Return one plain line for each step and each trial that ended since `before`."""
    earlier = {} if before is None else {row.placement: row for row in before.rows}
    total = len(now.rows)
    lines = []
    for number, row in enumerate(now.rows, start=1):
        was = earlier.get(row.placement, ProgressRow(row.placement))
        where = f"[{number}/{total}] {one_line(row.placement)}"
        lines += [f"{where}: {_step(step)}" for step in row.finished[len(was.finished) :]]
        if row.status != was.status and row.status not in (None, TrialStatus.RUNNING):
            lines.append(f"{where}: {_ended(row)} ({summary_line(now)})")
    return lines


def summary_line(progress: SweepProgress) -> str:
    """Return how far the sweep is, how long it took, what is left, and what it cost so far."""
    over = sum(row.status not in (None, TrialStatus.RUNNING) for row in progress.rows)
    left = "time left unknown" if progress.left_s is None else f"about {formats.seconds(progress.left_s)} left"
    parts = [
        f"{over} of {formats.count(len(progress.rows), progress.noun)}",
        f"{formats.seconds(progress.elapsed_s)} elapsed",
        left if over < len(progress.rows) else "",
        "" if progress.cost_usd is None else f"{formats.usd(progress.cost_usd)} so far",
    ]
    return " · ".join(filter(None, parts))


@dataclass(frozen=True)
class _LiveTable:
    progress: SweepProgress

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        rows = self.progress.rows
        devices = tuple(dict.fromkeys(device for row in rows for device in row.busy_frac))
        named = _FIXED_COLUMNS + sum(max(len(device), 5) + 1 for device in devices) <= options.max_width
        notes = options.max_width >= _NOTE_COLUMNS
        first, last = _window(rows, max(options.size.height - _FRAME_LINES, 3))
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), header_style="dim", expand=False)
        table.add_column("placement", overflow="ellipsis", no_wrap=True, max_width=32 if notes else 18)
        table.add_column("phase", overflow="ellipsis", no_wrap=True, min_width=12, max_width=30 if notes else 22)
        table.add_column("tok/s", justify="right", no_wrap=True, min_width=7)
        for device in devices if named else ("busy",):
            table.add_column(one_line(device), justify="right" if named else "left", no_wrap=True)
        if notes:
            table.add_column("", overflow="ellipsis", no_wrap=True)
        for row in rows[first:last]:
            table.add_row(*_cells(row, devices, named, notes))
        yield table
        hidden = [f"{first} above" * bool(first), f"{len(rows) - last} below" * (last < len(rows))]
        if any(hidden):
            yield Padding(Text(f"… {', '.join(filter(None, hidden))}", style="dim"), (0, 1))
        yield Padding(Text(summary_line(self.progress), style="dim"), (0, 1))


def _cells(row: ProgressRow, devices: Sequence[str], named: bool, notes: bool) -> Iterator[Text]:
    style = _STYLE[row.status]
    yield Text(one_line(row.placement), style=style)
    ending = _ending(row) if notes else _ended(row)
    phase = row.phase if row.status is TrialStatus.RUNNING else ending
    yield Text(one_line(phase), style=style if row.status is not TrialStatus.RUNNING else "cyan")
    waiting = row.status is None or (row.rate is None and row.status is not TrialStatus.OK)
    yield Text("" if waiting else formats.rate(row.rate), style=style)
    bars = [_bar(row.busy_frac[device]) if device in row.busy_frac else "" for device in devices]
    if named:
        shares = [_percent(row.busy_frac.get(device)) for device in devices]
        yield from (Text.assemble((bar, "cyan"), share) for bar, share in zip(bars, shares, strict=True))
    else:
        yield Text("".join(bar or " " for bar in bars), style="cyan")
    if notes:
        yield Text(one_line(row.note), style=style)


def _window(rows: Sequence[ProgressRow], height: int) -> tuple[int, int]:
    """Return which rows to show when not all fit: those around the one that runs."""
    if len(rows) <= height:
        return 0, len(rows)
    running = next((i for i, row in enumerate(rows) if row.status is TrialStatus.RUNNING), None)
    if running is None:
        running = sum(row.status is not None for row in rows) - 1
    first = min(max(running - height // 2, 0), len(rows) - height)
    return first, first + height


def _bar(share: float | None) -> str:
    if share is None:
        return "?"
    return _BARS[round(min(max(share, 0.0), 1.0) * (len(_BARS) - 1))]


def _percent(share: float | None) -> str:
    return "" if share is None else f"{share:4.0%}"


def _step(step: FinishedStep) -> str:
    rate = "" if step.rate is None else f"{formats.rate(step.rate)} tok/s in "
    return f"{one_line(step.name)} {rate}{formats.seconds(step.took_s)}"


def _ended(row: ProgressRow) -> str:
    return ": ".join(filter(None, [_ending(row), one_line(row.note)]))


def _ending(row: ProgressRow) -> str:
    if row.status is None:
        return "waiting"
    return "done" if row.status is TrialStatus.OK else str(row.status)
