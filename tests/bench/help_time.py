"""What asking for help costs: how long `k3prof --help` takes, beside Python alone."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from tests.bench.effort import Effort
from tests.bench.figure import Figure

MOST_SECONDS = 0.3

_REPOSITORY = Path(__file__).resolve().parents[2]
_HELP = ("-m", "k3prof", "--help")
_NOTHING = ("-c", "pass")


@dataclass(frozen=True)
class HelpTime:
    """How long the command takes to answer.

    Attributes:
        help_s: Median wall time of `k3prof --help`, in seconds.
        python_s: Median wall time of a Python that does nothing.
        starts: How often each was started.
    """

    help_s: float
    python_s: float
    starts: int

    @property
    def about(self) -> str:
        """Say how it was measured."""
        return f"Help: median of {self.starts} starts, in turn with a Python that does nothing: {self.python_s:.3f} s."

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        return [
            Figure(
                "k3prof --help",
                f"{self.help_s:.3f} s: {self.help_s / self.python_s:.1f} × Python",
                f"under {MOST_SECONDS:g} s",
                self.help_s < MOST_SECONDS,
            )
        ]


def measure(effort: Effort) -> HelpTime:
    """Start both in turn, after once each, so that their files are in memory."""
    pairs = [(_wall_s(_HELP), _wall_s(_NOTHING)) for _ in range(effort.starts + 1)][1:]
    return HelpTime(median(helped for helped, _ in pairs), median(bare for _, bare in pairs), len(pairs))


def _wall_s(arguments: tuple[str, ...]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], cwd=_REPOSITORY, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - began
