"""`k3prof probe`: is a model broken, or only slow?"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3prof.cli.options import Format

if TYPE_CHECKING:
    from k3prof.core.probes.report import ProbeReport
    from k3prof.core.trial import FlagValue

_EXAMPLES = """Examples:

  k3prof probe kimi-k3.gguf --placement placements/even.toml

  k3prof probe model.gguf --flag n-gpu-layers=99 -o before.json

  k3prof probe model.gguf --build patched --compare before.json
"""
_SUFFIXES = {".json": Format.JSON, ".md": Format.MD}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("probe", epilog=_EXAMPLES)(probe)


def probe(
    model: Annotated[str, typer.Argument(help="A GGUF file, the first of its shards, or demo:NAME.")],
    *,
    build: Annotated[str | None, typer.Option(metavar="NAME", help="Name or folder of the llama.cpp build.")] = None,
    devices: Annotated[str | None, typer.Option(help="auto, rpc:N or cpu.")] = None,
    placement: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A placement whose flags the server gets.")
    ] = None,
    flag: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="A flag of llama-server by its long name; may be repeated."),
    ] = None,
    compare: Annotated[
        Path | None, typer.Option(metavar="FILE", help="What `--format json` wrote before: which probes changed.")
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="File (.json or .md); stdout by default.")
    ] = None,
    kind: Annotated[
        Format | None, typer.Option("--format", help="By default what the file's name says, else a table.")
    ] = None,
) -> None:
    """Ask a model easy questions and say whether it is broken, or only slow.

    Facts, arithmetic, recursion in code, a tool call, JSON, copying, and six languages; greedy, on a real llama-server.
    Every raw answer is kept.
    """
    from k3prof.errors import ConfigError
    from k3prof.store.probe_file import read_probe_file
    from k3prof.workflows.probe import ProbeRequest
    from k3prof.workflows.probe import probe as examine

    kind = kind or (_SUFFIXES.get(output.suffix.lower(), Format.TABLE) if output else Format.TABLE)
    if output is not None and kind is Format.TABLE:
        raise ConfigError(f"{output}: no result is of this kind", "name it .json or .md, or give --format")
    if flag and placement is not None:
        raise ConfigError("--flag: goes with no --placement", "write the flag into the placement")
    flags = dict(_flag(one) for one in flag or ())
    earlier = None if compare is None else read_probe_file(compare)
    with _progress() as on_progress:
        report = examine(ProbeRequest(model, build, devices, placement, flags), earlier, on_progress=on_progress)
    _show(report, kind, output)


def _show(report: ProbeReport, kind: Format, output: Path | None) -> None:
    if kind is Format.TABLE:
        from rich.console import Console

        from k3prof.reporters.probe_table import ProbeTable

        Console().print(ProbeTable(report))
        return
    if kind is Format.JSON:
        import json

        from k3prof.reporters.probe_json import as_json

        text = json.dumps(as_json(report), indent=2, allow_nan=False) + "\n"
    else:
        from k3prof.reporters.probe_markdown import as_markdown

        text = as_markdown(report)
    if output is None:
        typer.echo(text, nl=False)
        return
    from k3prof.workflows.export import write

    write(output, text.encode())
    typer.echo(f"{report.judgement.verdict}; wrote {output}", err=True)


def _flag(text: str) -> tuple[str, FlagValue]:
    """Return a flag's name and value: true, false, a number or a text."""
    name, equals, value = text.removeprefix("--").partition("=")
    if not name or (equals and not value):
        from k3prof.errors import ConfigError

        raise ConfigError(f"--flag: {text!r} is no NAME=VALUE", "for instance --flag n-gpu-layers=99")
    if not equals or value in ("true", "false"):
        return name, value != "false"
    for number in (int, float):
        with contextlib.suppress(ValueError):
            return name, number(value)
    return name, value


@contextlib.contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Show on a terminal how far it is."""
    from rich.console import Console

    with Console(stderr=True).status("looking for the model and the build") as status:
        yield status.update
