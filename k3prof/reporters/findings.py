"""What was found out about a machine: for the terminal, as Markdown and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from rich.console import Console, ConsoleOptions, RenderResult
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from k3prof.core.machine.diagnosis import Diagnosis, Finding, Level
from k3prof.core.machine.host_bandwidth import CONVENTION, HostBandwidth
from k3prof.reporters.untrusted import markdown, one_line

_STYLES = {Level.PROBLEM: "bold red", Level.WARNING: "bold yellow", Level.NOTE: "cyan", Level.OK: "green"}
_BANDWIDTH_COLUMNS = ("threads", "GB/s", "of best", "rounds", "")


@dataclass(frozen=True)
class Findings:
    """A diagnosis as rich draws it: the worst first, what is fine after it, and a verdict at the end.

    Attributes:
        diagnosis: What was found out.
        measured: Whether the bandwidth was measured now, so that its readings are shown.
    """

    diagnosis: Diagnosis
    measured: bool = False

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it."""
        wrong = [finding for finding in self.diagnosis.findings if finding.level is not Level.OK]
        fine = self.diagnosis.of(Level.OK)
        # One width of the second column for both tables.
        width = max((len(one_line(finding.subject)) for finding in self.diagnosis.findings), default=0)
        for group in filter(None, [wrong, fine]):
            yield Padding(_table(group, width), (0, 0, 1, 0), expand=False)
        if self.measured and self.diagnosis.bandwidth is not None:
            yield from _bandwidth(self.diagnosis.bandwidth)
        yield Text(verdict(self.diagnosis), style=_verdict_style(self.diagnosis))


def verdict(diagnosis: Diagnosis) -> str:
    """Return in a line or two whether a sweep can run, and what to do first."""
    problems, warnings = diagnosis.of(Level.PROBLEM), diagnosis.of(Level.WARNING)
    if problems:
        return f"A sweep cannot run here. {_first(problems)}"
    if warnings:
        return f"A sweep can run here, but its figures would be doubtful. {_first(warnings)}"
    return "A sweep can run here."


def as_markdown(diagnosis: Diagnosis) -> str:
    """Return the findings as a Markdown page."""
    lines = [
        "# Doctor",
        "",
        markdown(verdict(diagnosis)),
        "",
        "| | about | found | remedy |",
        "| --- | --- | --- | --- |",
        *(f"| {finding.level} | {' | '.join(map(markdown, _texts(finding)))} |" for finding in diagnosis.findings),
    ]
    if diagnosis.bandwidth is not None:
        lines += ["", *_bandwidth_markdown(diagnosis.bandwidth)]
    return "\n".join(lines) + "\n"


def as_json(diagnosis: Diagnosis) -> str:
    """Return all that was found out as a JSON object."""
    measured = diagnosis.bandwidth
    return json.dumps(
        {
            "can_sweep": diagnosis.can_sweep,
            "findings": [asdict(finding) for finding in diagnosis.findings],
            "host": asdict(diagnosis.host),
            "gpus": [asdict(gpu) for gpu in diagnosis.gpus],
            "gpu_paths": [asdict(path) for path in diagnosis.gpu_paths],
            "bandwidth": None if measured is None else _bandwidth_json(measured),
        },
        indent=2,
        allow_nan=False,
    )


def _first(findings: list[Finding]) -> str:
    first = findings[0]
    return f"Fix first: {one_line(first.subject)}: {one_line(first.remedy or first.message)}"


def _verdict_style(diagnosis: Diagnosis) -> str:
    worst = next((level for level in (Level.PROBLEM, Level.WARNING) if diagnosis.of(level)), Level.OK)
    return _STYLES[worst]


def _table(findings: list[Finding], subject_width: int) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True, min_width=max(len(level) for level in Level))
    table.add_column(no_wrap=True, min_width=subject_width)
    table.add_column(overflow="fold")
    for finding in findings:
        subject, message, remedy = map(one_line, _texts(finding))
        said = Text(message)
        if remedy:
            said.append("\n→ ", style="dim").append(remedy, style="bold" if finding.level is not Level.NOTE else "")
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), Text(subject), said)
    return table


def _texts(finding: Finding) -> tuple[str, str, str]:
    return finding.subject, finding.message, finding.remedy


def _bandwidth(measured: HostBandwidth) -> Iterator[Padding | Text]:
    yield Text(f"host memory, measured: {_about(measured)}", style="bold")
    table = Table.grid(padding=(0, 2, 0, 0))
    for place, heading in enumerate(_BANDWIDTH_COLUMNS):
        table.add_column(heading, justify="right" if place < 3 else "left", no_wrap=True)
    table.add_row(*(Text(heading, style="dim") for heading in _BANDWIDTH_COLUMNS))
    for row in _bandwidth_rows(measured):
        table.add_row(*(Text(cell, style="bold" if row[-1] else "") for cell in row))
    yield Padding(table, (0, 0, 1, 1), expand=False)


def _bandwidth_rows(measured: HostBandwidth) -> Iterator[tuple[str, ...]]:
    best = measured.best.gb_per_s
    for reading in measured.readings:
        mark = "plateau: more threads gain less than 5 %" if reading is measured.plateau else ""
        rounds = f"{min(reading.rounds_gb_per_s):.1f}–{reading.gb_per_s:.1f}"
        yield (str(reading.threads), f"{reading.gb_per_s:.1f}", f"{reading.gb_per_s / best:.0%}", rounds, mark)


def _bandwidth_markdown(measured: HostBandwidth) -> Iterator[str]:
    yield f"Host memory, measured: {_about(measured)}"
    yield ""
    for row in (_BANDWIDTH_COLUMNS, ["---"] * len(_BANDWIDTH_COLUMNS), *_bandwidth_rows(measured)):
        yield f"| {' | '.join(row)} |"


def _bandwidth_json(measured: HostBandwidth) -> dict[str, object]:
    return {
        "origin": measured.bandwidth.origin,
        "convention": CONVENTION,
        "gb_per_s": measured.best.gb_per_s,
        "plateau_threads": measured.plateau.threads,
        **asdict(measured),
    }


def _about(measured: HostBandwidth) -> str:
    rounds = len(measured.best.rounds_gb_per_s)
    return f"{CONVENTION}; best of {rounds} rounds over {measured.buffer_bytes / 2**20:,.0f} MiB"
