"""What looking costs: reports and pictures out of a trace of a million samples."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from k3prof.workflows.export import export_report, export_timeline
from tests.bench.effort import Effort
from tests.bench.figure import Figure
from tests.bench.long_trace import long_trials, write_trace

MOST_SECONDS = 10.0

_MB = 1e6


@dataclass(frozen=True)
class Output:
    """One file made out of the trace.

    Attributes:
        name: What it is.
        seconds: How long it took to make, the trace read anew.
        size_bytes: Its size.
    """

    name: str
    seconds: float
    size_bytes: int


@dataclass(frozen=True)
class ReportTime:
    """What reports cost.

    Attributes:
        samples: How many samples the trace holds.
        requests: How many requests.
        trials: From how many trials.
        trace_bytes: Its size.
        outputs: What was made of it.
    """

    samples: int
    requests: int
    trials: int
    trace_bytes: int
    outputs: tuple[Output, ...]

    @property
    def about(self) -> str:
        """Say how it was measured."""
        return (
            f"Reports: {self.samples} samples and {self.requests} requests on 3 stand-ins in {self.trials} trials, "
            f"a trace of {self.trace_bytes / _MB:.0f} MB."
        )

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        return [
            Figure(
                one.name,
                f"{one.seconds:.2f} s, {one.size_bytes / _MB:.2f} MB",
                f"under {MOST_SECONDS:g} s",
                one.seconds < MOST_SECONDS,
            )
            for one in self.outputs
        ]


def measure(effort: Effort) -> ReportTime:
    """Write a sweep over stand-ins as long as it takes, then report it."""
    observed = long_trials(effort.samples)
    with tempfile.TemporaryDirectory(prefix="k3prof-bench-") as name:
        folder = Path(name)
        path = folder / "placements.sqlite"
        write_trace(path, observed)
        report, page, picture = folder / "report.html", folder / "timeline.html", folder / "timeline.png"
        outputs = (
            _timed("HTML report", report, lambda: report.write_text(export_report(path, "html"))),
            _timed("HTML timeline", page, lambda: export_timeline(path, page, None)),
            _timed("PNG timeline", picture, lambda: export_timeline(path, picture, None)),
        )
        return ReportTime(
            samples=sum(one.time_ns.size for _, series in observed for one in series),
            requests=sum(len(trial.requests) for trial, _ in observed),
            trials=len(observed),
            trace_bytes=path.stat().st_size,
            outputs=outputs,
        )


def _timed(name: str, output: Path, export: Callable[[], object]) -> Output:
    began = time.perf_counter()
    export()
    return Output(name, time.perf_counter() - began, output.stat().st_size)
