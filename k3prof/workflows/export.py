"""Pictures, pages and tables out of a trace: everything here can be made again from the file alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from k3prof.core.flags import nearest
from k3prof.core.imported import is_imported
from k3prof.core.machine.topology import told_paths
from k3prof.core.spans import NO_SPANS
from k3prof.core.summary import PlacementSummary, rank
from k3prof.core.timeline import ClockAnchor, Series
from k3prof.core.trial import TrialStatus
from k3prof.errors import ConfigError, K3profError
from k3prof.reporters import ranking_json, report_html, report_markdown, timeline_html, timeline_perfetto, timeline_png
from k3prof.reporters.report_input import ReportInput
from k3prof.reporters.timeline_data import Timeline, timeline
from k3prof.store.trace import Trace
from k3prof.workflows.legs import BANDWIDTHS
from k3prof.workflows.results import PlacementResult, SweepResult, read_results


@dataclass(frozen=True)
class SweepFiles:
    """What a sweep leaves beside its trace.

    Attributes:
        timeline: A picture of the fastest placement's run; None when none ran.
        report: The offline HTML report.
    """

    timeline: Path | None
    report: Path


def summaries(trace_path: Path) -> list[PlacementSummary]:
    """Return the figures of the latest sweep in a trace."""
    with Trace.readable(trace_path) as trace:
        return read_results(trace).summaries


def export_sweep(trace: Trace) -> SweepFiles:
    """Write the report and the timeline of a finished or interrupted sweep beside its trace."""
    result = read_results(trace)
    report = trace.path.with_suffix(".html")
    write(report, report_html.as_html(_report_input(trace, result)).encode())
    drawn = _drawings(trace, result, None)
    if not drawn:
        return SweepFiles(None, report)
    picture = trace.path.with_suffix(".png")
    write(picture, timeline_png.as_png(drawn[0]))
    return SweepFiles(picture, report)


def export_timeline(trace_path: Path, output: Path, placement: str | None) -> list[str]:
    """Draw the timeline of a trace.

    Args:
        trace_path: The trace.
        output: Where to write it; `.html`, `.png`, `.svg` or `.pftrace` says what.
        placement: Which placement; None for the fastest, and for all of them in HTML and for Perfetto.

    Returns:
        The placements that were drawn.

    Raises:
        ConfigError: No such kind of file, or no such placement.
        TraceError: The trace cannot be read.
    """
    suffix = output.suffix.lower()
    draw = _DRAWERS.get(suffix)
    if draw is None:
        kinds = ", ".join(_DRAWERS)
        raise ConfigError(f"{output}: a timeline is no {output.suffix or 'file without a suffix'}", f"one of {kinds}")
    with Trace.readable(trace_path) as trace:
        drawn = _drawings(trace, read_results(trace), placement, kernels=suffix == ".pftrace")
        anchors = trace.anchors()
    if not drawn:
        raise K3profError(f"{trace_path}: no trial in it got as far as answering a request")
    chosen = drawn if suffix in _SEVERAL else drawn[:1]
    write(output, draw(chosen, trace_path.stem, anchors))
    return [one.summary.placement for one in chosen]


def export_report(trace_path: Path, kind: Literal["html", "md", "json"]) -> str:
    """Return the report of a trace."""
    with Trace.readable(trace_path) as trace:
        result = read_results(trace)
        if kind == "json":
            return json.dumps(ranking_json.as_json(result.summaries), indent=2) + "\n"
        given = _report_input(trace, result)
        return report_html.as_html(given) if kind == "html" else report_markdown.as_markdown(given)


def write(path: Path, content: bytes) -> None:
    """Write a file whole, with its folder.

    Raises:
        K3profError: It cannot be written.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    except OSError as error:
        raise K3profError(f"{path}: cannot be written: {error.strerror}", "name another file with -o") from error


_SEVERAL = frozenset({".html", ".pftrace"})
_DRAWERS: Mapping[str, Callable[[Sequence[Timeline], str, Mapping[int, ClockAnchor]], bytes]] = {
    ".html": lambda drawn, title, _: timeline_html.as_html(drawn, title).encode(),
    ".png": lambda drawn, _, __: timeline_png.as_png(drawn[0]),
    ".svg": lambda drawn, _, __: timeline_png.as_svg(drawn[0]),
    ".pftrace": lambda drawn, _, anchors: timeline_perfetto.as_pftrace(drawn, anchors),
}


def _drawings(trace: Trace, result: SweepResult, placement: str | None, *, kernels: bool = False) -> list[Timeline]:
    """Return the timelines of a sweep, fastest placement first, one for the latest useful trial of each.

    The single kernels of imported recordings are left out unless asked for: pictures would show none of the millions.
    """
    names = [one.summary.placement for one in result.placements]
    if placement is not None and placement not in names:
        similar = nearest(placement, names)
        hint = f"did you mean {similar}?" if similar else f"it holds {', '.join(names)}"
        raise ConfigError(f"--placement: the trace holds no {placement!r}", hint)
    by_name = {one.summary.placement: one for one in result.placements}
    ordered = [by_name[name] for name in _fastest_first(result.summaries) if placement in (None, name)]
    latest = [found for one in ordered if (found := _latest_with_requests(one)) is not None]
    return [
        timeline(trial, series, trace.spans(trial.id) if kernels or not is_imported(trial.spec) else NO_SPANS)
        for trial, series in latest
    ]


def _fastest_first(summaries: Sequence[PlacementSummary]) -> list[str]:
    workloads = dict.fromkeys(one.workload for summary in summaries for one in summary.workloads)
    generation = [one for one in workloads if one.kind == "tg"] or list(workloads)
    ranked = [one.placement for one in rank(summaries, generation[0])] if generation else []
    return list(dict.fromkeys([*ranked, *(one.placement for one in summaries)]))


def _latest_with_requests(placement: PlacementResult) -> tuple | None:  # type: ignore[type-arg]
    useful = [(trial, series) for trial, series in placement.trials if trial.requests or is_imported(trial.spec)]
    finished = [one for one in useful if one[0].outcome.status is TrialStatus.OK]
    return next(reversed(finished or useful), None)


def _report_input(trace: Trace, result: SweepResult) -> ReportInput:
    trials = [(trial, series) for one in result.placements for trial, series in one.trials]
    trials.sort(key=lambda pair: pair[0].id)
    series_of: dict[int, Sequence[Series]] = {trial.id: series for trial, series in trials}
    return ReportInput(
        title=trace.path.stem,
        summaries=result.summaries,
        trials=[trial for trial, _ in trials],
        series=series_of,
        spans={trial.id: trace.spans(trial.id) for trial, _ in trials if not is_imported(trial.spec)},
        commands={trial.id: trace.command(trial.id) for trial, _ in trials},
        builds=trace.builds(),
        host={name: shown(value) for name, value in result.sweep.host.items()},
        settings="\n".join(
            f"{name} = {shown(value)}" for name, value in result.sweep.settings.items() if name != BANDWIDTHS
        ),
        anchor=result.sweep.anchor,
        gpu_paths=told_paths(event for trial, _ in trials for event in trace.events(trial.id)),
    )


def shown(value: object) -> str:
    """Return a setting or a fact of the host for people."""
    if value is None:
        return "unknown"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value)) or "none"
    return str(value)
