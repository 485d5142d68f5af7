"""What a Python program spent its time on, as a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from k3prof.core.python_profile import FunctionShare, PythonProfile
from k3prof.reporters.untrusted import markdown, one_line

_MOST_ROWS = 20


def as_table(profile: PythonProfile) -> Table:
    """Return the functions with the largest shares of their own first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for heading in ("own", "with what it calls"):
        table.add_column(heading, justify="right")
    table.add_column("function", overflow="fold")
    table.add_column("file", overflow="fold")
    for one in _largest(profile):
        table.add_row(
            f"{one.own_frac:.1%}", f"{one.frac:.1%}", Text(one_line(one.name)), Text(one_line(one.file or ""))
        )
    return table


def as_markdown(profile: PythonProfile) -> str:
    """Return the same as Markdown."""
    rows = [("own", "with what it calls", "function", "file"), ("---:", "---:", "---", "---")]
    rows += [
        (f"{one.own_frac:.1%}", f"{one.frac:.1%}", markdown(one.name), markdown(one.file or ""))
        for one in _largest(profile)
    ]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows) + "\n"


def _largest(profile: PythonProfile) -> list[FunctionShare]:
    return sorted(profile.functions(), key=lambda share: -share.own_frac)[:_MOST_ROWS]


def as_json(profile: PythonProfile) -> dict[str, Any]:
    """Return every function as `json.dumps` takes it."""
    return {
        "samples": profile.samples,
        "busy_s": profile.busy_s,
        "failed_samples": profile.failed_samples,
        "functions": [asdict(one) for one in profile.functions()],
    }
