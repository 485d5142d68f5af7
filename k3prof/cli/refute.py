"""`k3prof refute`: test hypotheses against predictions that were written down before."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k3prof.cli.options import Format, FormatOption

if TYPE_CHECKING:
    from k3prof.workflows.hypotheses import PreparedRefutation
    from k3prof.workflows.refute import RefutationOptions

_EXAMPLES = """Examples:

  k3prof refute placements/ --dry-run

  k3prof refute placements/a40 --model Kimi-K3-00001-of-00012.gguf --max-cost 20

  k3prof refute --judge-only traces/placements-refute.sqlite -o report.html

  k3prof refute --evidence traces/first-user.toml
"""

_INTERRUPTED = 130
_DURATION = re.compile(r"(?:(\d+(?:\.\d+)?)h)?(?:(\d+(?:\.\d+)?)m(?:in)?)?(?:(\d+(?:\.\d+)?)s)?")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("refute", epilog=_EXAMPLES)(refute)


def refute(
    placements: Annotated[
        Path | None, typer.Argument(help="A folder of placements that holds a hypotheses.toml.", show_default=False)
    ] = None,
    *,
    only: Annotated[str | None, typer.Option(metavar="GLOB", help="Test just the hypotheses of such an id.")] = None,
    model: Annotated[str | None, typer.Option(help="A GGUF, the first of its shards, or demo:NAME.")] = None,
    build: Annotated[
        str | None, typer.Option(help="Name or folder of the llama.cpp build of placements that name none.")
    ] = None,
    devices: Annotated[str | None, typer.Option(help="auto, rpc:N or cpu.")] = None,
    repeat: Annotated[int | None, typer.Option(help="Measured repetitions of each workload in each leg.")] = None,
    trace: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where results go; traces/FOLDER-refute.sqlite by default.")
    ] = None,
    max_time: Annotated[
        str | None, typer.Option("--max-time", metavar="TIME", help="Start no round that would end later: 90m, 1h30m.")
    ] = None,
    max_cost: Annotated[
        float | None,
        typer.Option("--max-cost", metavar="USD", min=0, help="Likewise, by price_per_hour of sweep.toml."),
    ] = None,
    max_blocks: Annotated[
        int | None, typer.Option("--max-blocks", metavar="N", min=1, help="Measure no hypothesis in more blocks.")
    ] = None,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Start placements again that failed.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="What the order of the legs is drawn with.")] = 0,
    stall_timeout: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="Give up on a server that loads and shows no progress.")
    ] = 600.0,
    judge_only: Annotated[
        Path | None, typer.Option("--judge-only", metavar="TRACE", help="Judge again what was measured; run nothing.")
    ] = None,
    evidence: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Judge figures that others published, from a TOML file.")
    ] = None,
    report: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Also write a report: .html, .md or .json.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be run, how long and at what cost; start nothing.")
    ] = False,
    output: FormatOption = Format.TABLE,
) -> None:
    """Test hypotheses one by one: run what evidence is missing, and judge each by the prediction written beforehand.

    Each verdict is supported, refuted or inconclusive. The same command again goes on where it stopped.
    """
    from k3prof.errors import ConfigError

    given = [one for one in (placements, judge_only, evidence) if one is not None]
    if len(given) != 1:
        raise ConfigError(
            "refute takes one of: a folder of placements, --judge-only TRACE, --evidence FILE",
            "`k3prof refute placements/` tests the shipped hypotheses",
        )
    if report is not None and report.suffix.lower() not in _REPORTS:
        raise ConfigError(f"{report}: no report is of this kind", "name it .html, .md or .json")
    if evidence is not None:
        _judge_published(evidence, report, output)
        return
    if judge_only is not None:
        _judge_again(judge_only, report, output)
        return
    assert placements is not None  # noqa: S101 - one of the three was given
    from k3prof.store.config import Overrides
    from k3prof.workflows.hypotheses import prepare_refutation
    from k3prof.workflows.refute import Budget, RefutationOptions, default_trace
    from k3prof.workflows.run_trial import Patience

    overrides = Overrides(model=model, build=build, devices=devices, repeat=repeat)
    budget = Budget(None if max_time is None else _seconds(max_time), max_cost, max_blocks)
    prepared = prepare_refutation(placements, overrides, only)
    for untraced in dict.fromkeys(one for sweep in prepared.sweeps.values() for one in sweep.tracing_caveats):
        typer.echo(f"note: {untraced.message}\nhint: {untraced.remedy}", err=True)
    if max_cost is not None and prepared.first.experiment.settings.price_per_hour is None:
        raise ConfigError("--max-cost: the machine has no price", "write price_per_hour into sweep.toml")
    options = RefutationOptions(budget, retry_failed, seed, Patience(load_s=stall_timeout))
    path = trace or default_trace(placements)
    if dry_run:
        _print_plan(prepared, path, options, output)
    else:
        _run(prepared, path, options, report, output)


_REPORTS = (".html", ".md", ".json")


def _seconds(text: str) -> float:
    """Read `90m`, `1h30m`, `45s`."""
    from k3prof.errors import ConfigError

    match = _DURATION.fullmatch(text.replace(" ", "").lower())
    hours, minutes, seconds = (float(part or 0) for part in match.groups()) if match else (0.0, 0.0, 0.0)
    total = hours * 3600 + minutes * 60 + seconds
    if not total:
        raise ConfigError(f"--max-time {text}: no time", "write 90m, 1h30m or 45s")
    return total


def _print_plan(prepared: PreparedRefutation, trace: Path, options: RefutationOptions, output: Format) -> None:
    from k3prof.reporters import refutation_plan
    from k3prof.workflows.plan_refutation import planned

    plan = planned(prepared, trace, options)
    if output is Format.JSON:
        import json

        typer.echo(json.dumps(refutation_plan.as_json(plan), indent=2))
    else:
        typer.echo(refutation_plan.as_text(plan), nl=False)


def _run(
    prepared: PreparedRefutation, path: Path, options: RefutationOptions, report: Path | None, output: Format
) -> None:
    from rich.console import Console

    from k3prof.cli.verdicts import print_verdicts, write_report
    from k3prof.workflows.refute import INTERRUPTED, refute_and_report

    errors = Console(stderr=True)
    for notice in prepared.first.notices:
        errors.print(f"note: {notice}", markup=False, highlight=False)
    found = refute_and_report(prepared, path, options, errors)
    print_verdicts(found, output)
    page = path.with_suffix(".html")
    write_report(found, page)
    for name, file in (("trace", path), ("report", page)):
        errors.print(f"{name:<9}{file}", markup=False, highlight=False, soft_wrap=True)
    if report is not None:
        write_report(found, report)
    if found.effort.stopped_by == INTERRUPTED:
        errors.print("interrupted: the same command again goes on from here", markup=False, highlight=False)
        raise typer.Exit(_INTERRUPTED)


def _judge_again(trace: Path, report: Path | None, output: Format) -> None:
    from k3prof.cli.verdicts import print_verdicts, write_report
    from k3prof.workflows.refutation_report import judge_again

    found = judge_again(trace)
    print_verdicts(found, output)
    if report is not None:
        write_report(found, report)


def _judge_published(evidence: Path, report: Path | None, output: Format) -> None:
    from k3prof.cli.verdicts import print_published, write_published
    from k3prof.workflows.published import judge_published

    found = judge_published(evidence)
    print_published(found, output)
    if report is not None:
        write_published(found, report)
