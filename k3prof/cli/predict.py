"""`k3prof predict`: what placements will take and how fast they can be, before anything is loaded."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Format(StrEnum):
    """How predictions are printed."""

    TABLE = "table"
    JSON = "json"
    MD = "md"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("predict")(predict)


def predict(
    placements: Annotated[Path, typer.Argument(help="A folder of placements, or one placement's file.")],
    *,
    model: Annotated[
        str | None, typer.Option(help="A GGUF file, the first of its shards, or demo:NAME; its header is enough.")
    ] = None,
    rig: Annotated[
        str | None,
        typer.Option(help="The machine: GPUs such as 5xA40, or a file such as rig.toml. This machine by default."),
    ] = None,
    only: Annotated[str | None, typer.Option(help="Placements of this name; * and ? stand for anything.")] = None,
    devices: Annotated[
        str | None, typer.Option(help="Without --rig: auto, rpc:N or cpu, instead of what sweep.toml says.")
    ] = None,
    build: Annotated[str | None, typer.Option(help="The llama.cpp build that checks the flags.")] = None,
    output: Annotated[Format, typer.Option("--format", help="How to print it.")] = Format.TABLE,
) -> None:
    """Bytes per device, whether they fit, and the tokens per second that are possible at most.

    Nothing is loaded. Example: k3prof predict placements/ --model kimi-k3.gguf --rig 5xA40
    """
    from k3prof.store.config import Overrides
    from k3prof.workflows.predict import predict as foresee

    found = foresee(placements, Overrides(only=only, model=model, build=build, devices=devices), rig)
    if output is Format.JSON:
        import json

        from k3prof.reporters.prediction_json import as_json

        typer.echo(json.dumps(as_json(found.placements, found.notes), indent=2))
    elif output is Format.MD:
        from k3prof.reporters.prediction_markdown import as_markdown

        typer.echo(as_markdown(found.placements, found.notes), nl=False)
    else:
        from rich.console import Console

        from k3prof.reporters.prediction_table import PredictionTable

        Console().print(PredictionTable(found.placements, found.notes))
