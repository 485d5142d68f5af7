"""`k3prof import`: what others recorded, as a trace that `timeline` and `report` show."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3prof.cli.options import Format, FormatOption

if TYPE_CHECKING:
    from k3prof.workflows.import_recording import Import

_NSYS_EXAMPLES = """Examples:

  nsys profile --trace=cuda --cuda-graph-trace=node -o run llama-server …

  nsys export --type sqlite run.nsys-rep

  k3prof import nsys run.sqlite
"""
_DMON_EXAMPLES = """Examples:

  nvidia-smi dmon -s pumct -o DT > gpus.txt

  k3prof import dmon gpus.txt --timings reply.json

  k3prof import dmon gpus.csv --from 14:03:10 --to 14:04:00
"""

_OutputOption = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="TRACE", help="Where the trace goes; traces/FILE.KIND.sqlite by default."),
]
_FromOption = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="TIME", help="Begin of the request: as the recording writes times, or seconds from its begin."
    ),
]
_ToOption = Annotated[str | None, typer.Option("--to", metavar="TIME", help="Its end, likewise.")]
_TimingsOption = Annotated[
    Path | None,
    typer.Option(metavar="JSON", help="llama-server's reply with its timings, which tells prefill from decode."),
]


def register(app: typer.Typer) -> None:
    """Add the command with its kinds."""
    kinds = typer.Typer(
        help="What others recorded, as a trace that `timeline` and `report` show.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    kinds.command("nsys", epilog=_NSYS_EXAMPLES)(nsys)
    kinds.command("dmon", epilog=_DMON_EXAMPLES)(dmon)
    app.add_typer(kinds, name="import")


def nsys(
    file: Annotated[Path, typer.Argument(help="What `nsys export --type sqlite` wrote.")],
    *,
    output: _OutputOption = None,
    timings: _TimingsOption = None,
    begin: _FromOption = None,
    end: _ToOption = None,
    shown: FormatOption = Format.TABLE,
) -> None:
    """Import every kernel, copy and CUDA graph that Nsight Systems recorded, to the nanosecond."""
    from k3prof.workflows.import_recording import Selection, import_nsys

    _show(import_nsys(file, output, Selection(begin, end, timings)), shown)


def dmon(
    file: Annotated[Path, typer.Argument(help="What `nvidia-smi dmon` or `--query-gpu=… --format=csv` wrote.")],
    *,
    output: _OutputOption = None,
    timings: _TimingsOption = None,
    begin: _FromOption = None,
    end: _ToOption = None,
    columns: Annotated[
        str | None,
        typer.Option(metavar="NAMES", help="What was given to --query-gpu, for a file without a header."),
    ] = None,
    every: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", min=0.01, max=3600, help="Time between readings, for a file without times."),
    ] = None,
    shown: FormatOption = Format.TABLE,
) -> None:
    """Import readings of utilisation, memory, power, PCIe and clocks that nvidia-smi wrote.

    Cut, mixed and foreign lines are counted and left out.
    """
    from k3prof.workflows.import_recording import Selection, import_dmon

    names = tuple(columns.split(",")) if columns else ()
    _show(import_dmon(file, output, Selection(begin, end, timings), names, every), shown)


def _show(done: Import, shown: Format) -> None:
    from k3prof.reporters import imported

    if shown is Format.JSON:
        import json

        typer.echo(json.dumps(imported.as_json(done.run, done.figures), indent=2))
    elif shown is Format.MD:
        typer.echo(imported.as_markdown(done.run, done.figures), nl=False)
    else:
        from rich.console import Console

        Console().print(imported.ImportedTable(done.run, done.figures))
    typer.echo(f"wrote {done.trace}", err=True)
