"""Measure what k3prof itself costs, and print it beside what it should."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from typing import Protocol

from rich.console import Console

from k3prof.errors import K3profError
from k3prof.llama.build import find_build
from tests.bench import (
    client_share,
    draw_time,
    experts_halved,
    header_time,
    help_time,
    report_time,
    sampler_cost,
    tracer_cost,
)
from tests.bench.effort import FULL, QUICK
from tests.bench.figure import Figure, as_table


class Measured(Protocol):
    """What a measurement returns."""

    @property
    def about(self) -> str:
        """Say how it was measured."""

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""


def main(arguments: Sequence[str]) -> int:
    """Run every measurement; a missed aim is information, never a failure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="measure little: shows that it works, not how well")
    effort = QUICK if parser.parse_args(arguments).quick else FULL
    build = find_build(os.environ.get("K3PROF_TEST_BUILD", "default"))
    measurements: dict[str, Callable[[], Measured]] = {
        "the sampler's cost": lambda: sampler_cost.measure(build, effort),
        "the split tracer's cost": lambda: tracer_cost.measure(build, effort),
        "the client's share": lambda: client_share.measure(build, effort),
        "the report's time": lambda: report_time.measure(effort),
        "the time of drawings": lambda: draw_time.measure(effort),
        "what half the experts give": lambda: experts_halved.measure(build, effort.model, effort.blocks, 64),
        "the time of a header": lambda: header_time.measure(effort),
        "the time to help": lambda: help_time.measure(effort),
    }
    print(f"What k3prof costs: {os.cpu_count()} processors, load {os.getloadavg()[0]:.1f} before; [90 % interval]")
    progress = Console(stderr=True)
    measured: list[Measured] = []
    try:
        for what, measure in measurements.items():
            with progress.status(f"measuring {what}"):
                measured.append(measure())
    finally:
        page = Console(highlight=False, markup=False)
        page.print(as_table(figure for one in measured for figure in one.figures()))
        page.print(*(one.about for one in measured), sep="\n")
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except K3profError as error:
        print(f"error: {error.message}", f"hint: {error.hint}" if error.hint else "", sep="\n", file=sys.stderr)
        sys.exit(error.exit_code)
