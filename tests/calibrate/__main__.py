"""Prints how often verdicts are wrong on simulated truth; fails when that is more often than it may be."""

from __future__ import annotations

import argparse
import sys

from rich import box
from rich.console import Console
from rich.table import Table

from tests.calibrate.rates import ALL, CONFIDENCE, Rate
from tests.calibrate.simulated import NOISES


def main() -> int:
    """Print the table and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tries", type=int, default=1000, help="sessions simulated for each row")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    rates = [rate for noise in NOISES for measure in ALL for rate in measure(noise, asked.tries, asked.seed)]
    Console().print(_table(rates))
    return int(any(rate.is_broken for rate in rates))


def _table(rates: list[Rate]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for name, justify in (("noise", "left"), ("what", "left"), ("rate", "right"), ("interval", "right"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=name not in ("what", ""))
    shown = ""
    for rate in rates:
        low, high = rate.interval
        bound = f"{'at most' if rate.at_most else 'at least'} {rate.nominal * 100:g} %"
        table.add_row(
            rate.noise if rate.noise != shown else "",
            rate.what,
            f"{rate.hits / rate.tries * 100:.1f} %",
            f"[{low * 100:.1f}, {high * 100:.1f}]",
            f"{bound} ✗" if rate.is_broken else f"not promised: {rate.limit}" if rate.limit else bound,
            end_section=False,
        )
        shown = rate.noise
    table.caption = f"{rates[0].tries} simulated sessions a row; {CONFIDENCE:.0%} intervals by Clopper and Pearson"
    return table


if __name__ == "__main__":
    sys.exit(main())
