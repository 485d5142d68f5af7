"""`k3prof sweep`: run every placement of a folder, one after another, and rank them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3prof.cli.options import Format, FormatOption

if TYPE_CHECKING:
    from k3prof.workflows.rig import PreparedSweep
    from k3prof.workflows.sweep import SweepOptions

_EXAMPLES = """Examples:

  k3prof sweep placements/

  k3prof sweep placements/ --dry-run

  k3prof sweep placements/ --model Kimi-K3-00001-of-00012.gguf --only 'experts*'
"""

_INTERRUPTED = 130


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("sweep", epilog=_EXAMPLES)(sweep)


def sweep(
    placements: Annotated[Path, typer.Argument(help="A folder of placements, or one placement's TOML file.")],
    *,
    only: Annotated[str | None, typer.Option(metavar="GLOB", help="Run just the placements of such a name.")] = None,
    model: Annotated[str | None, typer.Option(help="A GGUF, the first of its shards, or demo:NAME.")] = None,
    build: Annotated[
        str | None, typer.Option(help="Name or folder of the llama.cpp build of placements that name none.")
    ] = None,
    devices: Annotated[str | None, typer.Option(help="auto, rpc:N or cpu.")] = None,
    repeat: Annotated[int | None, typer.Option(help="Measured repetitions of each workload.")] = None,
    workload: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="pp512, tg128@d4096, 'tg128 x1,2,4'; may be repeated.")
    ] = None,
    splits: Annotated[
        str | None, typer.Option(metavar="MODE", help="Trace each split of the graph: exact, light or off.")
    ] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where results go; traces/FOLDER.sqlite by default.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run placements again that failed.")] = False,
    stall_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Give up on a server that loads and shows no progress.")
    ] = 600.0,
    profile_client: Annotated[
        bool, typer.Option("--pyspy", help="Also record k3prof's own load generator, for speedscope, beside the trace.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the commands and the order; start nothing.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Run every placement, one after another, and rank them.

    Each finished one is kept in the trace at once; the same command again goes on where it stopped.
    """
    from k3prof.store.config import Overrides
    from k3prof.workflows.rig import prepare
    from k3prof.workflows.run_trial import Patience
    from k3prof.workflows.sweep import SweepOptions, default_trace

    overrides = Overrides(
        only=only,
        model=model,
        build=build,
        devices=devices,
        repeat=repeat,
        workloads=tuple(workload) if workload else None,
        splits=splits,
    )
    prepared = prepare(placements, overrides)
    for untraced in prepared.tracing_caveats:
        typer.echo(f"note: {untraced.message}\nhint: {untraced.remedy}", err=True)
    path = trace or default_trace(placements)
    if dry_run:
        _print_plan(prepared, path, retry_failed, output)
    else:
        options = SweepOptions(retry_failed, Patience(load_s=stall_timeout), profile_client)
        _run(prepared, path, options, output)


def _print_plan(prepared: PreparedSweep, trace: Path, retry_failed: bool, output: Format) -> None:
    from k3prof.reporters import sweep_plan
    from k3prof.workflows.sweep import planned

    plan = planned(prepared, trace, retry_failed=retry_failed)
    if output is Format.JSON:
        import json

        typer.echo(json.dumps(sweep_plan.as_json(plan), indent=2))
    else:
        typer.echo(sweep_plan.as_text(plan), nl=False)


def _run(prepared: PreparedSweep, path: Path, options: SweepOptions, output: Format) -> None:
    from rich.console import Console

    from k3prof.cli.ranking import print_ranking
    from k3prof.core.trial import TrialStatus
    from k3prof.workflows.sweep import sweep_and_export

    errors = Console(stderr=True)
    for notice in prepared.notices:
        errors.print(f"note: {notice}", markup=False, highlight=False)
    finished = sweep_and_export(prepared, path, options, errors)
    print_ranking(finished.summaries, output)
    for name, file in (("trace", path), ("timeline", finished.files.timeline), ("report", finished.files.report)):
        if file is not None:
            errors.print(f"{name:<9}{file}", markup=False, highlight=False, soft_wrap=True)
    if not finished.is_complete:
        errors.print("interrupted: the same command again goes on from here", markup=False, highlight=False)
        raise typer.Exit(_INTERRUPTED)
    if not any(one.outcome.status is TrialStatus.OK for one in finished.summaries):
        raise typer.Exit(1)
