"""The `k3prof` command: its subcommands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from k3prof import __version__
from k3prof.cli import (
    build,
    doctor,
    explain,
    import_,
    inspect,
    ops,
    predict,
    probe,
    pyspy,
    refute,
    report,
    sweep,
    timeline,
)
from k3prof.errors import ConfigErrors, K3profError

INTERRUPTED = 130

_ABOUT = """Profiles llama.cpp across placements of a model on several GPUs.

Starts real llama-server builds, one placement after another, watches every device while they work, and says which
device works when, how fast each placement is, and how many devices are busy at once.
"""


def make_app() -> typer.Typer:
    """Return the command with all its subcommands."""
    app = typer.Typer(
        name="k3prof",
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(help=_ABOUT)(_root)
    measuring = (sweep, refute, timeline, report, probe, ops)
    for command in (doctor, build, inspect, predict, *measuring, explain, import_, pyspy):
        command.register(app)
    return app


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"k3prof {__version__}")
        raise typer.Exit


def _root(
    _version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True, callback=_print_version)
    ] = False,
) -> None:
    """Take the options that stand before any command."""


def main() -> None:
    """Run the command line and exit: 0 done, 1 failed, 2 usage or configuration, 130 interrupted."""
    try:
        make_app()()
    except K3profError as error:
        _print_error(error)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        typer.echo("interrupted", err=True)
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output has gone (`k3prof … | head`): nothing is left to say to it.
        sys.stderr.close()
        sys.exit(1)


def _print_error(error: K3profError) -> None:
    for problem in error.problems if isinstance(error, ConfigErrors) else (error,):
        typer.echo(f"error: {_one_line(problem.message)}", err=True)
        if problem.hint:
            typer.echo(f"hint: {_one_line(problem.hint)}", err=True)


def _one_line(text: str) -> str:
    """File names and log lines may hold control characters; a terminal must not obey them."""
    return "".join(character if character.isprintable() else " " for character in text)
