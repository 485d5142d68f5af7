"""Prints a sweep's ranking, as `sweep` and `report` do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from k3prof.cli.options import Format

if TYPE_CHECKING:
    from k3prof.core.summary import PlacementSummary


def print_ranking(summaries: Sequence[PlacementSummary], output: Format) -> None:
    """Print the ranking to stdout."""
    if output is Format.JSON:
        import json

        from k3prof.reporters.ranking_json import as_json

        typer.echo(json.dumps(as_json(summaries), indent=2))
    elif output is Format.MD:
        from k3prof.reporters.ranking_markdown import as_markdown

        typer.echo(as_markdown(summaries), nl=False)
    else:
        from rich.console import Console

        from k3prof.reporters.table import RankingTable

        Console().print(RankingTable(summaries))
