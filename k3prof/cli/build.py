"""`k3prof build`: make, register and list llama.cpp builds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3prof.cli.options import Format, FormatOption

if TYPE_CHECKING:
    from k3prof.core.build import Build


def register(app: typer.Typer) -> None:
    """Add the command and its subcommand."""
    group = typer.Typer(invoke_without_command=True, rich_markup_mode=None)
    group.callback()(build)
    group.command("list")(list_builds)
    app.add_typer(group, name="build")


def build(
    context: typer.Context,
    *,
    source: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="llama.cpp checkout to compile instead of the pinned version."),
    ] = None,
    cmake: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Definition for CMake; may be given repeatedly."),
    ] = None,
    cuda: Annotated[bool, typer.Option("--cuda", help="Compile for the NVIDIA GPUs of this machine.")] = False,
    use: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Folder of an existing build: register it, compile nothing."),
    ] = None,
    name: Annotated[str, typer.Option(help="What sweep.toml is to call it.")] = "default",
    output: FormatOption = Format.TABLE,
) -> None:
    """Compile llama.cpp for k3prof, or register a build that exists.

    An interrupted build goes on where it stopped. The environment variable CMAKE_BUILD_PARALLEL_LEVEL limits how many
    files are compiled at once.
    """
    if context.invoked_subcommand is not None:
        return
    from k3prof.cli.build_display import BuildDisplay
    from k3prof.workflows.build import BuildFailedError
    from k3prof.workflows.build import build as workflow

    try:
        with BuildDisplay() as display:
            made = workflow(name, use=use, source=source, cmake=cmake or (), cuda=cuda, progress=display)
    except BuildFailedError as error:
        for line in error.output:
            typer.echo(f"  {line}", err=True)
        raise
    _print([made], output)


def list_builds(output: FormatOption = Format.TABLE) -> None:
    """List the builds that are here."""
    from k3prof.workflows.build import list_builds as workflow

    _print(workflow(), output)


def _print(builds: list[Build], output: Format) -> None:
    from rich.console import Console

    from k3prof.reporters.builds import BuildsTable, as_json, as_markdown
    from k3prof.workflows.build import with_missing

    shown = with_missing(builds)
    if output is Format.JSON:
        typer.echo(as_json(shown))
    elif output is Format.MD:
        typer.echo(as_markdown(shown), nl=False)
    else:
        Console().print(BuildsTable(shown))
