"""What a report says, apart from how it looks: the text and tables that HTML and Markdown share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from k3prof.core.build import Build
from k3prof.core.device import HOST, DeviceKind
from k3prof.core.evidence.proof import Proof
from k3prof.core.machine.topology import describe_paths
from k3prof.core.spans import NO_SPANS
from k3prof.core.summary import PlacementSummary, WorkloadSummary
from k3prof.core.timeline import ClockAnchor, Series
from k3prof.core.trial import Caveat, TrialRecord, TrialStatus
from k3prof.reporters import claim_tables, formats, gpu_tables, proof_tables, ranking, report_words
from k3prof.reporters.ladder_tables import LadderSection, ladder_sections
from k3prof.reporters.ledger_tables import LedgerSection, ledger_section
from k3prof.reporters.measurement import Facts, measurement
from k3prof.reporters.report_input import ReportInput
from k3prof.reporters.shell import shell_command
from k3prof.reporters.timeline_data import Timeline, describe_devices, timeline

FIGURE_COLUMNS = ("workload", "tok/s", "min–max", "n", "time to first token", "P", "90 % interval", "busy share")


@dataclass(frozen=True, eq=False)
class PlacementPage:
    """One placement's part of a report.

    Attributes:
        summary: What was found.
        standing: How it ended when not well, in a few words; empty otherwise.
        figures: One row of `FIGURE_COLUMNS` for each workload.
        caveats: Reasons to doubt it more than the others.
        gpus: One row of `GPU_COLUMNS` per workload and GPU; empty without GPUs.
        drawn: Its timeline; None when no samples were taken.
        command: The exact server command with the environment that the placement sets; empty when unknown.
        checks: One row of `CHECK_COLUMNS` per thing asked that the log can tell about.
        memory: A heading row, then one per device; empty when the log shows no memory.
        ledgers: Where the time of a token went, by workload; empty when splits were not traced.
        ladders: Its ladders by streams and by depth; empty where it was asked for none.
    """

    summary: PlacementSummary
    standing: str
    figures: tuple[tuple[str, ...], ...]
    caveats: tuple[Caveat, ...]
    gpus: tuple[tuple[str, ...], ...]
    drawn: Timeline | None
    command: str
    checks: tuple[proof_tables.Row, ...] = ()
    memory: tuple[proof_tables.Row, ...] = ()
    ledgers: tuple[LedgerSection, ...] = ()
    ladders: tuple[LadderSection, ...] = ()


@dataclass(frozen=True, eq=False)
class ReportPage:
    """A whole report.

    Attributes:
        title: The experiment's name.
        subtitle: The model, the devices, the date.
        lead: The answer in one sentence.
        setting: What was run, on what.
        rankings: The order of the placements under each workload.
        doubts: Reasons to doubt all placements.
        meaning: Paragraphs on P.
        claims: One row of `CLAIM_COLUMNS` per workload and placement.
        claims_legend: What they rest on.
        placements: Those that ran well, fastest first.
        unfinished: Those that failed, were void or interrupted.
        method: How it was measured.
        settings: The experiment's settings as given.
    """

    title: str
    subtitle: str
    lead: str
    setting: Facts
    rankings: tuple[ranking.Section, ...]
    doubts: tuple[Caveat, ...]
    meaning: tuple[str, ...]
    claims: tuple[tuple[str, ...], ...]
    claims_legend: str
    placements: tuple[PlacementPage, ...]
    unfinished: tuple[PlacementPage, ...]
    method: Facts
    settings: str


def report_page(given: ReportInput) -> ReportPage:
    """Return what a report on a sweep says."""
    found = ranking.sections(given.summaries)
    order = [row.summary for row in found[0].rows] if found else list(given.summaries)
    pages = [_placement(given, summary) for summary in order]
    series: list[Series] = [one for trial in given.trials for one in given.series.get(trial.id, ())]
    return ReportPage(
        title=given.title,
        subtitle=_subtitle(given),
        lead=report_words.lead(found, given.trials),
        setting=tuple(_setting(given)),
        rankings=found,
        doubts=ranking.shared_caveats(given.summaries),
        meaning=tuple(report_words.meaning(found, given.trials)),
        claims=claim_tables.claim_rows(found),
        claims_legend=claim_tables.legend(found),
        placements=tuple(page for page in pages if page.summary.outcome.status is TrialStatus.OK),
        unfinished=tuple(page for page in pages if page.summary.outcome.status is not TrialStatus.OK),
        method=measurement(given.trials, series),
        settings=given.settings,
    )


def _subtitle(given: ReportInput) -> str:
    models = dict.fromkeys(trial.spec.model_path.rpartition("/")[2] for trial in given.trials)
    devices = dict.fromkeys(describe_devices(trial.devices) for trial in given.trials)
    when = _when(given.trials[0].started_ns, given.anchor) if given.trials else "no trial yet"
    return " · ".join([" and ".join(models), " and ".join(devices), when])


def _placement(given: ReportInput, summary: PlacementSummary) -> PlacementPage:
    trials = [trial for trial in given.trials if trial.spec.placement == summary.placement]
    observed = [trial for trial in trials if given.series.get(trial.id)]
    latest = trials[-1] if trials else None
    generation_first = sorted(summary.ledgers, key=lambda one: one.workload.kind != "tg")
    return PlacementPage(
        summary=summary,
        standing=formats.standing(summary.outcome),
        figures=tuple(_figures(one) for one in summary.workloads),
        caveats=ranking.own_caveats(summary, given.summaries),
        gpus=gpu_tables.gpu_rows(summary.workloads),
        drawn=_timeline(given, observed[-1]) if observed else None,
        command=_command(given, latest),
        checks=proof_tables.check_rows(summary.proof) if summary.proof else (),
        memory=_memory(summary.proof),
        ledgers=tuple(map(ledger_section, generation_first)),
        ladders=ladder_sections(summary),
    )


def _timeline(given: ReportInput, trial: TrialRecord) -> Timeline:
    return timeline(trial, given.series[trial.id], given.spans.get(trial.id, NO_SPANS))


def _memory(proof: Proof | None) -> tuple[proof_tables.Row, ...]:
    if proof is None or not proof.memory:
        return ()
    return (proof_tables.memory_columns(proof), *proof_tables.memory_rows(proof))


def _figures(found: WorkloadSummary) -> tuple[str, ...]:
    devices = sorted(found.busy_frac, key=lambda name: name == HOST.name)
    busy = [f"{device} {formats.share(found.busy_frac[device])}" for device in devices]
    return (
        found.workload.name,
        formats.rate(found.rate.median if found.rate else None),
        formats.rate_range(found.rate),
        str(found.rate.n) if found.rate else "",
        f"{found.ttft_ms.median:,.0f} ms" if found.ttft_ms else formats.UNKNOWN,
        formats.degree(found.parallelism),
        formats.interval(found.parallelism),
        ", ".join(busy) or formats.UNKNOWN,
    )


def _command(given: ReportInput, trial: TrialRecord | None) -> str:
    command = given.commands.get(trial.id) if trial is not None else None
    return shell_command(command) if command is not None else ""


def _setting(given: ReportInput) -> Iterator[tuple[str, str]]:
    yield "when", _when(given.trials[0].started_ns, given.anchor) if given.trials else formats.UNKNOWN
    models = dict.fromkeys(f"{trial.spec.model_path} ({trial.spec.model})" for trial in given.trials)
    yield "model", ", ".join(models) or formats.UNKNOWN
    yield "devices", "; ".join(_devices(given)) or formats.UNKNOWN
    if paths := describe_paths(given.gpu_paths):
        yield "paths between GPUs", "; ".join(paths)
    yield "trials", _counted(given)
    for build in given.builds:
        yield f"build {build.name}", _build(build)
    yield from given.host.items()


def _build(build: Build) -> str:
    commit = "" if build.commit and build.commit in build.version else f"commit {build.commit or formats.UNKNOWN}"
    flags = " ".join(build.cmake_flags) or "CMake flags unknown"
    return ", ".join(filter(None, [build.version, commit, build.compiler, flags, f"sha256 {build.sha256}"]))


def _devices(given: ReportInput) -> list[str]:
    """Return the devices, those that differ in name alone taken together."""
    alike: dict[str, dict[str, None]] = {}
    for device in (device for trial in given.trials for device in trial.devices):
        what = "stand-in device" if device.kind is DeviceKind.STAND_IN else device.description
        alike.setdefault(" ".join(filter(None, [what, device.uuid])), {})[device.name] = None
    return [": ".join(filter(None, [", ".join(names), what])) for what, names in alike.items()]


def _counted(given: ReportInput) -> str:
    counts: dict[str, int] = {}
    for trial in given.trials:
        counts[trial.outcome.status] = counts.get(trial.outcome.status, 0) + 1
    return ", ".join(f"{count} {status}" for status, count in counts.items()) or "none"


def _when(time_ns: int, anchor: ClockAnchor | None) -> str:
    if anchor is None:
        return formats.UNKNOWN
    unix_s = (anchor.unix_ns + time_ns - anchor.monotonic_ns) / 1e9
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
