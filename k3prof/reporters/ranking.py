"""The order in which placements are shown: workload by workload, fastest first, none left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k3prof.core.device import HOST
from k3prof.core.summary import PlacementSummary, WorkloadSummary, rank
from k3prof.core.trial import Caveat, TrialStatus, Workload


@dataclass(frozen=True)
class Row:
    """One placement under one workload.

    Attributes:
        summary: All that is known of the placement.
        found: What it did with the workload; None when it was not asked for it.
        place: 1 for the fastest; None when it may not be compared.
        relative: Its median rate over the fastest one's; None when it may not be compared.
        caveats: Reasons to doubt it more than the others.
        build: `build mmq` where the placements ran on different builds; empty otherwise.
    """

    summary: PlacementSummary
    found: WorkloadSummary | None
    place: int | None
    relative: float | None
    caveats: tuple[Caveat, ...]
    build: str


@dataclass(frozen=True)
class Section:
    """One workload's ranking.

    Attributes:
        workload: What was asked.
        rows: The compared placements, fastest first, then those that cannot be compared.
        devices: Every device with a busy share, in the order of first mention, the host last.
    """

    workload: Workload
    rows: tuple[Row, ...]
    devices: tuple[str, ...]


def sections(summaries: Sequence[PlacementSummary]) -> tuple[Section, ...]:
    """Return the ranking under each workload; generation comes first, for it is what the user waits for."""
    workloads = dict.fromkeys(one.workload for summary in summaries for one in summary.workloads)
    return tuple(_section(summaries, one) for one in sorted(workloads, key=lambda one: one.kind != "tg"))


def best(section: Section) -> Row | None:
    """Return the fastest placement's row, or None when none may be compared."""
    return next((row for row in section.rows if row.place == 1), None)


def shared_caveats(summaries: Sequence[PlacementSummary]) -> tuple[Caveat, ...]:
    """Return the caveats that all placements that ran have, word for word: they are the machine's, to be told once."""
    ran = [summary for summary in summaries if summary.outcome.status is TrialStatus.OK]
    if len(ran) < 2:
        return ()
    return tuple(caveat for caveat in ran[0].caveats if all(caveat in other.caveats for other in ran[1:]))


def own_caveats(summary: PlacementSummary, summaries: Sequence[PlacementSummary]) -> tuple[Caveat, ...]:
    """Return the other caveats of one of some placements."""
    shared = shared_caveats(summaries)
    return tuple(caveat for caveat in summary.caveats if caveat not in shared)


def build_note(summary: PlacementSummary, summaries: Sequence[PlacementSummary]) -> str:
    """Return `build mmq` for one of some placements that ran on different builds; empty where one build ran all."""
    builds = {one.build for one in summaries if one.build}
    return f"build {summary.build}" if summary.build and len(builds) > 1 else ""


def _section(summaries: Sequence[PlacementSummary], workload: Workload) -> Section:
    ranked = rank(summaries, workload)
    rates = {one.placement: found.rate.median for one in ranked if (found := one.of(workload)) and found.rate}
    fastest = max(rates.values(), default=0.0)

    def row(one: PlacementSummary, place: int | None) -> Row:
        return Row(
            summary=one,
            found=one.of(workload),
            place=place,
            relative=rates[one.placement] / fastest if place is not None and fastest else None,
            caveats=own_caveats(one, summaries),
            build=build_note(one, summaries),
        )

    rows = [row(one, place) for place, one in enumerate(ranked, start=1)]
    rows += [row(one, None) for one in summaries if one not in ranked]
    devices = dict.fromkeys(device for row in rows if row.found is not None for device in row.found.busy_frac)
    return Section(workload, tuple(rows), tuple(sorted(devices, key=lambda name: name == HOST.name)))
