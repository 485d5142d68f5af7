"""`k3prof pyspy`: what a Python engine does, seen from outside."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from k3prof.cli.options import Format, FormatOption

_EXAMPLES = """Examples:

  k3prof pyspy 4711 -o engine.speedscope.json

  k3prof pyspy "$(pgrep -f llama_cpp.server)" --seconds 30 -o engine.speedscope.json
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("pyspy", epilog=_EXAMPLES)(pyspy)


def pyspy(
    pid: Annotated[int, typer.Argument(min=1, help="A running Python program: llama-cpp-python's server, vLLM, …")],
    *,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Gets the profile, for speedscope.")],
    seconds: Annotated[float, typer.Option(min=1, help="How long to look.")] = 10.0,
    form: FormatOption = Format.TABLE,
) -> None:
    """Record which Python functions an engine spends its time in, without stopping it."""
    from rich.console import Console

    from k3prof.reporters import python_functions
    from k3prof.workflows.python_profile import profile_program

    profile = profile_program(pid, seconds, output)
    if form is Format.JSON:
        import json

        typer.echo(json.dumps(python_functions.as_json(profile), indent=2))
    elif form is Format.MD:
        typer.echo(python_functions.as_markdown(profile), nl=False)
    else:
        Console().print(python_functions.as_table(profile))
    typer.echo(f"wrote {output}: {profile.samples} samples", err=True)
