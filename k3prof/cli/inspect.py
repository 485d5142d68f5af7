"""`k3prof inspect`: what a model's bytes are, what a token reads of them, and how fast that can be at best."""

from __future__ import annotations

from typing import Annotated

import typer

from k3prof.cli.options import Format, FormatOption


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("inspect")(inspect)


def inspect(
    model: Annotated[str, typer.Argument(help="A GGUF file, the first of its shards, or demo:NAME.")],
    *,
    depth: Annotated[int, typer.Option(min=0, help="Tokens already in the context.")] = 0,
    batch: Annotated[int, typer.Option(min=1, help="Sequences that decode one token each in the same pass.")] = 1,
    experts_used: Annotated[
        int | None, typer.Option(min=1, help="Routed experts per token instead of the model's own number.")
    ] = None,
    cache_type: Annotated[str, typer.Option(help="Type of the KV cache: f16, q8_0, …")] = "f16",
    bandwidth: Annotated[
        str | None, typer.Option(help="Memory bandwidth for the ceilings: GB/s, or a GPU such as A40.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Tensors by role, bytes per token, KV and state, and ceilings, read from the model's header alone."""
    from k3prof.core.weights.traffic import ForwardPass
    from k3prof.workflows.inspect import inspect as take_apart

    anatomy = take_apart(model, ForwardPass(batch, batch, depth, experts_used, cache_type, cache_type), bandwidth)
    if output is Format.JSON:
        import json

        from k3prof.reporters.anatomy_json import as_json

        typer.echo(json.dumps(as_json(anatomy), indent=2))
    elif output is Format.MD:
        from k3prof.reporters.anatomy_markdown import as_markdown

        typer.echo(as_markdown(anatomy), nl=False)
    else:
        from rich.console import Console

        from k3prof.reporters.anatomy_table import AnatomyTable

        Console().print(AnatomyTable(anatomy))
