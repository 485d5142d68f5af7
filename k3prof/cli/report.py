"""`k3prof report`: what a trace says, as a page, as Markdown or as data."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import typer

_EXAMPLES = """Examples:

  k3prof report traces/placements.sqlite -o report.html

  k3prof report traces/placements.sqlite --format json | jq .
"""


class ReportFormat(StrEnum):
    """What a report can be."""

    TABLE = "table"
    HTML = "html"
    MD = "md"
    JSON = "json"


_SUFFIXES = {".html": ReportFormat.HTML, ".htm": ReportFormat.HTML, ".md": ReportFormat.MD, ".json": ReportFormat.JSON}

_EXPORTS: dict[ReportFormat, Literal["html", "md", "json"]] = {
    ReportFormat.HTML: "html",
    ReportFormat.MD: "md",
    ReportFormat.JSON: "json",
}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("report", epilog=_EXAMPLES)(report)


def report(
    trace: Annotated[Path, typer.Argument(help="What `k3prof sweep` wrote.")],
    *,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File; stdout by default.")
    ] = None,
    kind: Annotated[
        ReportFormat | None, typer.Option("--format", help="By default what the file's name says, else a table.")
    ] = None,
) -> None:
    """Report what the latest sweep of a trace found."""
    kind = kind or (_SUFFIXES.get(output.suffix.lower(), ReportFormat.TABLE) if output else ReportFormat.TABLE)
    if kind is ReportFormat.TABLE:
        if output is not None:
            from k3prof.errors import ConfigError

            raise ConfigError(f"{output}: no report is of this kind", "name it .html, .md or .json, or give --format")
        from k3prof.cli.options import Format
        from k3prof.cli.ranking import print_ranking
        from k3prof.workflows.export import summaries

        print_ranking(summaries(trace), Format.TABLE)
        return
    from k3prof.workflows.export import export_report, write

    text = export_report(trace, _EXPORTS[kind])
    if output is None:
        typer.echo(text, nl=False)
    else:
        write(output, text.encode())
        typer.echo(f"wrote {output}", err=True)
