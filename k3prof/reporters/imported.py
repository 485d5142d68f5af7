"""What a recording of another program shows: for the terminal, as Markdown, as JSON, and as facts for a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from k3prof.core.imported import ImportedRun
from k3prof.core.imported_figures import LEVELS, DeviceFigures, StretchFigures
from k3prof.core.timeline import BUSY_COUNTERS, Counter
from k3prof.reporters import formats
from k3prof.reporters.ranking_markdown import caveat_list
from k3prof.reporters.untrusted import markdown, one_line

_GIB = 2.0**30
_LEVELS = {
    Counter.POWER_W: ("power", 1.0, "{:,.0f} W"),
    Counter.POWER_INSTANT_W: ("power, instant", 1.0, "{:,.0f} W"),
    Counter.MEMORY_BYTES: ("memory", _GIB, "{:,.1f} GiB"),
    Counter.PCIE_RX_BYTES_PER_S: ("PCIe in", 1e6, "{:,.0f} MB/s"),
    Counter.PCIE_TX_BYTES_PER_S: ("PCIe out", 1e6, "{:,.0f} MB/s"),
    Counter.SM_MHZ: ("SM clock", 1.0, "{:,.0f} MHz"),
    Counter.MEMORY_MHZ: ("memory clock", 1.0, "{:,.0f} MHz"),
}


@dataclass(frozen=True)
class ImportedTable:
    """A recording as rich draws it."""

    run: ImportedRun
    figures: Sequence[StretchFigures]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw what was read, then each stretch."""
        for line in _head(self.run):
            yield Text(one_line(line))
        for found in self.figures:
            yield Text("")
            yield Text(one_line(_title(self.run, found)), style="bold")
            yield Text(sentence(self.run, found))
            columns, rows = _table(found)
            table = Table(box=None, padding=(0, 2, 0, 0))
            for number, column in enumerate(columns):
                table.add_column(column, justify="right" if number else "left")
            for row in rows:
                table.add_row(*(Text(one_line(cell)) for cell in row))
            yield table
        for caveat in self.run.caveats:
            yield Text("")
            yield Text(one_line(f"caveat {caveat.code}: {caveat.message}"), style="yellow")
            yield Text(one_line(caveat.remedy), style="dim")


def as_markdown(run: ImportedRun, figures: Sequence[StretchFigures]) -> str:
    """Return the same as Markdown."""
    blocks = ["\n".join(f"- {markdown(line)}" for line in _head(run))]
    for found in figures:
        columns, rows = _table(found)
        lines = [columns, ["---", *["---:"] * (len(columns) - 1)], *rows]
        table = "\n".join("| " + " | ".join(map(markdown, row)) + " |" for row in lines[:1])
        table += "\n| " + " | ".join(lines[1]) + " |\n"
        table += "\n".join("| " + " | ".join(map(markdown, row)) + " |" for row in lines[2:])
        blocks += [f"## {markdown(_title(run, found))}", markdown(sentence(run, found)), table]
    if run.caveats:
        blocks.append(caveat_list(run.caveats))
    return "\n\n".join(blocks) + "\n"


def as_json(run: ImportedRun, figures: Sequence[StretchFigures]) -> dict[str, object]:
    """Return all figures as JSON's objects; null is what is not known."""
    return {
        "kind": run.kind,
        "source": run.source,
        "exact": run.exact,
        "resolution_ns": _period_ns(run),
        "begin": run.clock.shown(run.begin_ns),
        "end": run.clock.shown(run.end_ns),
        "counts": dict(run.counts),
        "devices": [asdict(device) for device in run.devices],
        "stretches": [
            {
                "name": found.name,
                "begin_ns": found.begin_ns,
                "end_ns": found.end_ns,
                "parallelism": None
                if found.parallelism is None
                else {
                    "degree": found.parallelism.degree,
                    "low": found.parallelism.low,
                    "high": found.parallelism.high,
                    "blocks": found.parallelism.blocks,
                },
                "overlap_ns": None if found.overlap_ns is None else list(found.overlap_ns),
                "devices": {name: _device_json(one) for name, one in found.devices.items()},
            }
            for found in figures
        ],
        "caveats": [asdict(caveat) for caveat in run.caveats],
    }


def facts(run: ImportedRun, figures: Sequence[StretchFigures]) -> Iterator[tuple[str, str]]:
    """Yield names and values for the report of a trace that was imported."""
    yield "recorded by", run.source
    yield "recorded", f"{run.clock.shown(run.begin_ns)} to {run.clock.shown(run.end_ns)}"
    yield "read", _counts(run)
    yield "resolution", _resolution(run)
    for found in figures:
        busy = ", ".join(f"{name} {formats.share(one.busy_frac)}" for name, one in found.devices.items())
        yield f"{found.name}, {_length(found.end_ns - found.begin_ns)}", f"{sentence(run, found)} Busy: {busy}."


def sentence(run: ImportedRun, found: StretchFigures) -> str:
    """Return P with its interval, and for how long devices computed at once, in words."""
    if found.parallelism is None:
        return "P unknown: utilisation was not recorded of every GPU, or not for long enough."
    degree = f"P = {formats.degree(found.parallelism)}"
    if run.exact:
        degree += ", exact"
    else:
        degree += f" {formats.interval(found.parallelism)}" if found.parallelism.low is not None else ", no interval"
    return f"{degree}. Two or more GPUs computed at once {_overlap(found)}."


def _overlap(found: StretchFigures) -> str:
    if found.overlap_ns is None:
        return "for an unknown time"
    least_ns, most_ns = found.overlap_ns
    length_ns = found.end_ns - found.begin_ns
    if least_ns == most_ns:
        return f"for {_length(least_ns)} ({100 * least_ns / length_ns:.1f} %)"
    least = f"at least {_length(least_ns)} and " if least_ns else ""
    return f"for {least}at most {_length(most_ns)}; P alone does not tell more"


def _head(run: ImportedRun) -> Iterator[str]:
    yield f"{run.source}: {_counts(run)}"
    yield _resolution(run)
    for device in run.devices:
        parts = (device.description, device.uuid, device.pci_bus_id)
        if any(parts):
            yield f"{device.name}: {', '.join(filter(None, parts))}"


def _title(run: ImportedRun, found: StretchFigures) -> str:
    begin, end = run.clock.shown(found.begin_ns), run.clock.shown(found.end_ns)
    return f"{found.name}: {begin} to {end}, {_length(found.end_ns - found.begin_ns)}"


def _length(length_ns: int) -> str:
    return formats.seconds(length_ns / 1e9) if length_ns >= 59_950_000_000 else formats.resolution(length_ns)


def _counts(run: ImportedRun) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in run.counts.items() if number) or "nothing"


def _resolution(run: ImportedRun) -> str:
    period = formats.resolution(_period_ns(run))
    return f"every begin and end known to {period}" if run.exact else f"each GPU read every {period}"


def _period_ns(run: ImportedRun) -> float:
    if run.exact:
        return 1
    periods = [one.period_ns for one in run.series if one.counter in BUSY_COUNTERS] or [
        one.period_ns for one in run.series
    ]
    return median(periods)


def _table(found: StretchFigures) -> tuple[list[str], list[list[str]]]:
    devices = found.devices.values()
    copying = any(one.copying_frac is not None for one in devices)
    levels = [counter for counter in LEVELS if any(counter in one.levels for one in devices)]
    columns = ["device", "busy", *["copying"] * copying, *(_LEVELS[counter][0] for counter in levels)]
    return columns, [[name, *_cells(one, levels, copying=copying)] for name, one in found.devices.items()]


def _cells(one: DeviceFigures, levels: Sequence[Counter], *, copying: bool) -> Iterator[str]:
    yield formats.share(one.busy_frac)
    if copying:
        yield formats.share(one.copying_frac)
    for counter in levels:
        _, scale, shown = _LEVELS[counter]
        yield shown.format(one.levels[counter] / scale) if counter in one.levels else formats.UNKNOWN


def _device_json(one: DeviceFigures) -> dict[str, object]:
    return {
        "busy_frac": one.busy_frac,
        "copying_frac": one.copying_frac,
        **{str(counter): one.levels.get(counter) for counter in LEVELS},
    }
