"""`k3prof doctor`: what this machine can run and measure, and what spoils a measurement here."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from k3prof.cli.options import Format, FormatOption

_EXAMPLES = """Examples:

  k3prof doctor --model /models/Kimi-K3-00001-of-00005.gguf

  k3prof doctor --bandwidth

  k3prof doctor --format json | jq .findings
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", epilog=_EXAMPLES)(doctor)


def doctor(
    *,
    model: Annotated[
        str | None, typer.Option(metavar="MODEL", help="A GGUF or demo:NAME to hold against the memory that is free.")
    ] = None,
    build: Annotated[str, typer.Option(metavar="NAME", help="The build that a sweep would run.")] = "default",
    bandwidth: Annotated[
        bool,
        typer.Option("--bandwidth", help="Measure how fast the host's memory is read, and keep it for predictions."),
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Say what this machine can run and measure, and what would spoil a measurement here.

    Exits with 0 when a sweep can run, with 1 when something stands in its way.
    """
    from k3prof.workflows.doctor import diagnose

    with _progress() as progress:
        diagnosis = diagnose(build, model, progress if bandwidth else None)
    from k3prof.reporters.findings import Findings, as_json, as_markdown

    if output is Format.JSON:
        typer.echo(as_json(diagnosis))
    elif output is Format.MD:
        typer.echo(as_markdown(diagnosis), nl=False)
    else:
        from rich.console import Console

        Console().print(Findings(diagnosis, measured=bandwidth))
    if bandwidth:
        from k3prof.workflows.bandwidth import bandwidth_path

        typer.echo(f"the bandwidth is kept in {bandwidth_path()}", err=True)
    if not diagnosis.can_sweep:
        raise typer.Exit(1)


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[int, int], None]]:
    """Show on a terminal that something goes on."""
    from rich.console import Console

    with Console(stderr=True).status("looking at this machine") as status:
        yield lambda done, total: status.update(f"measuring the memory's bandwidth: {done} of {total}")
