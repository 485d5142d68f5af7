"""What drawing costs: the timeline of ten minutes of decode with a million spans."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from k3prof.reporters import timeline_html, timeline_png
from k3prof.reporters.timeline_data import Timeline, timeline
from tests.bench.effort import Effort
from tests.bench.figure import Figure
from tests.doubles.traced_trials import ten_minutes

_DRAWERS: Mapping[str, Callable[[Timeline], str | bytes]] = {
    "HTML of split spans": lambda drawn: timeline_html.as_html([drawn], "bench"),
    "PNG of split spans": timeline_png.as_png,
}


@dataclass(frozen=True)
class DrawTime:
    """How long the drawings take.

    Attributes:
        spans: How many spans there were.
        seconds: Drawing to its time, the preparation that all share included.
        sizes_bytes: Drawing to its size.
    """

    spans: int
    seconds: Mapping[str, float]
    sizes_bytes: Mapping[str, int]

    @property
    def about(self) -> str:
        """Say how it was measured."""
        return f"Drawings: {self.spans:,} spans over ten minutes of decode on 3 stand-ins."

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        return [
            Figure(name, f"{seconds:.2f} s, {self.sizes_bytes[name] / 1e6:.2f} MB")
            for name, seconds in self.seconds.items()
        ]


def measure(effort: Effort) -> DrawTime:
    """Draw each once."""
    trial, series, spans = ten_minutes(effort.samples)
    seconds, sizes_bytes = {}, {}
    for name, draw in _DRAWERS.items():
        began = time.perf_counter()
        drawing = draw(timeline(trial, series, spans))
        seconds[name] = time.perf_counter() - began
        sizes_bytes[name] = len(drawing)
    return DrawTime(len(spans), seconds, sizes_bytes)
