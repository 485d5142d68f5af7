"""`k3prof ops`: where the computing of a token goes, by part, layer, op and weights, and what each could gain."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from k3prof.cli.options import Format, FormatOption

if TYPE_CHECKING:
    from k3prof.llama.ops import Progress

_EXAMPLES = """Examples:

  k3prof ops demo:k3

  k3prof ops kimi-k3.gguf --mode layer --prefill 512

  k3prof ops demo:k3 --override-kv kimi-k3.expert_used_count=int:8 --format json
"""


class Mode(StrEnum):
    """How closely passes are timed."""

    LAYER = "layer"
    NODE = "node"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ops", epilog=_EXAMPLES)(ops)


def ops(
    model: Annotated[str, typer.Argument(help="A GGUF file, the first of its shards, or demo:NAME.")],
    *,
    mode: Annotated[
        Mode, typer.Option(help="layer: the parts of each layer, hardly distorted; node: ops and roles as well.")
    ] = Mode.NODE,
    tokens: Annotated[int, typer.Option(min=1, max=4096, help="Tokens to generate for each way of timing.")] = 64,
    prefill: Annotated[
        int, typer.Option(min=0, max=65536, help="Begin with a prompt of so many tokens, and profile it as well.")
    ] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, max=512, help="Threads of the host; one per physical core by default.")
    ] = None,
    build: Annotated[str, typer.Option(metavar="NAME", help="Name or folder of the llama.cpp build.")] = "default",
    override_kv: Annotated[
        list[str] | None, typer.Option(metavar="KEY=TYPE:VALUE", help="As llama-server takes it; may be repeated.")
    ] = None,
    output: FormatOption = Format.TABLE,
) -> None:
    """Say where the computing of a token goes, and what making a part of it free could gain at most.

    The build's own libllama runs in a process of its own and is stopped at every node. That distorts: it is measured
    against undisturbed tokens and printed. Shares are what counts, not times.
    """
    from k3prof.core.ops.op_record import Timing
    from k3prof.workflows.ops import profile_ops

    with _progress() as on_progress:
        report = profile_ops(
            model,
            build=build,
            timing=Timing(mode),
            tokens=tokens,
            prompt=prefill,
            threads=threads,
            overrides=override_kv or (),
            on_progress=on_progress,
        )
    if output is Format.JSON:
        import json

        from k3prof.reporters.op_json import as_json

        typer.echo(json.dumps(as_json(report), indent=2, allow_nan=False))
    elif output is Format.MD:
        from k3prof.reporters.op_tables import as_markdown

        typer.echo(as_markdown(report), nl=False)
    else:
        from rich.console import Console

        from k3prof.reporters.op_tables import OpTables

        Console().print(OpTables(report))


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[Progress], None]]:
    """Show on a terminal how far it is."""
    from rich.console import Console

    with Console(stderr=True).status("looking for the model and the build") as status:

        def show(progress: Progress) -> None:
            far = f": {progress.done} of {progress.total}" if progress.total else ""
            status.update(f"{progress.stage}{far}")

        yield show
