"""`k3prof explain`: what any llama-server log proves."""

from __future__ import annotations

from typing import Annotated

import typer

from k3prof.cli.options import Format, FormatOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("explain")(explain)


def explain(
    log: Annotated[str, typer.Argument(help="A log of llama-server, whole or cut; - for the standard input.")],
    *,
    model: Annotated[
        str | None, typer.Option(help="A GGUF file, or demo:NAME, whose header to hold against the log.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """What went where and how big, splits, fit, fallbacks, context and speeds, read from a llama-server log.

    Text or JSON lines, of any version or fork, as they come from a file, journald, docker, a router or grep. What the
    log does not say is listed as unknown.
    """
    from k3prof.workflows.explain import explain as read

    explanation = read(log, model)
    if output is Format.JSON:
        import json

        from k3prof.reporters.log_json import as_json

        typer.echo(json.dumps(as_json(explanation), indent=2))
    elif output is Format.MD:
        from k3prof.reporters.log_text import as_markdown

        typer.echo(as_markdown(explanation), nl=False)
    else:
        from rich.console import Console

        from k3prof.reporters.log_text import LogText

        Console().print(LogText(explanation))
