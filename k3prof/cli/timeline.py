"""`k3prof timeline`: which device was busy when, as a picture or a page to zoom in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_EXAMPLES = """Examples:

  k3prof timeline traces/placements.sqlite -o timeline.html

  k3prof timeline traces/placements.sqlite --placement even -o even.png

  k3prof timeline traces/placements.sqlite -o timeline.pftrace    # opens in ui.perfetto.dev
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("timeline", epilog=_EXAMPLES)(timeline)


def timeline(
    trace: Annotated[Path, typer.Argument(help="What `k3prof sweep` wrote.")],
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="A .html, .png, .svg or .pftrace file.")
    ],
    placement: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Which placement; the fastest by default, in HTML and for Perfetto all."),
    ] = None,
) -> None:
    """Draw which device was busy when: one lane per device, the phases, and single tokens close up."""
    from k3prof.workflows.export import export_timeline

    drawn = export_timeline(trace, output, placement)
    typer.echo(f"wrote {output}: {', '.join(drawn)}", err=True)
