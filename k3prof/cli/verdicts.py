"""Prints verdicts, and writes reports on them, as the three ways of `refute` do."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from k3prof.cli.options import Format

if TYPE_CHECKING:
    from k3prof.core.refutation.published import PublishedReport
    from k3prof.reporters.refutation_input import RefutationReport

_KINDS: dict[str, Literal["html", "md", "json"]] = {".html": "html", ".md": "md", ".json": "json"}


def print_verdicts(report: RefutationReport, output: Format) -> None:
    """Print the verdicts on what was measured to stdout."""
    from k3prof.workflows.refutation_report import refutation_text

    if output is Format.TABLE:
        from rich.console import Console

        from k3prof.reporters.refutation_table import RefutationTable

        Console().print(RefutationTable(report))
    else:
        typer.echo(refutation_text(report, "json" if output is Format.JSON else "md"), nl=False)


def write_report(report: RefutationReport, path: Path) -> None:
    """Write a report on what was measured; the file's name says of which kind."""
    from k3prof.workflows.export import write
    from k3prof.workflows.refutation_report import refutation_text

    write(path, refutation_text(report, _KINDS[path.suffix.lower()]).encode())


def print_published(report: PublishedReport, output: Format) -> None:
    """Print the verdicts on published figures to stdout."""
    from k3prof.workflows.published import published_text

    if output is Format.TABLE:
        from rich.console import Console

        from k3prof.reporters.published_table import PublishedTable

        Console().print(PublishedTable(report))
    else:
        typer.echo(published_text(report, "json" if output is Format.JSON else "md"), nl=False)


def write_published(report: PublishedReport, path: Path) -> None:
    """Write a report on published figures; the file's name says of which kind."""
    from k3prof.workflows.export import write
    from k3prof.workflows.published import published_text

    write(path, published_text(report, _KINDS[path.suffix.lower()]).encode())
