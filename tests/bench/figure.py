"""What the benchmark prints: figures, each beside what it should be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rich import box
from rich.table import Table


@dataclass(frozen=True)
class Figure:
    """One row.

    Attributes:
        name: What was measured.
        value: The figure with its unit, its interval where it has one.
        aim: What it should be; empty when nothing was promised.
        met: Whether it is; None when that is not known, or nothing was promised.
    """

    name: str
    value: str
    aim: str = ""
    met: bool | None = None

    @property
    def verdict(self) -> str:
        """Whether the aim was met, in one word."""
        if not self.aim:
            return ""
        return "unclear" if self.met is None else "yes" if self.met else "NO"


def as_table(figures: Iterable[Figure]) -> Table:
    """Lay the figures out for a terminal."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("figure", "value", "aim", "met"):
        table.add_column(heading, overflow="fold")
    for one in figures:
        table.add_row(one.name, one.value, one.aim, one.verdict)
    return table
