"""The order in which placements are shown: workload by workload, fastest first, none left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k3prof.core.device import HOST
from k3prof.core.summary import PlacementSummary, WorkloadSummary, rank
from k3prof.core.trial import Workload


@dataclass(frozen=True)
class Row:
    """One placement under one workload.

    Attributes:
        summary: All that is known of the placement.
        found: What it did with the workload; None when it was not asked for it.
        place: 1 for the fastest; None when it may not be compared.
        relative: Its median rate over the fastest one's; None when it may not be compared.
    """

    summary: PlacementSummary
    found: WorkloadSummary | None
    place: int | None
    relative: float | None


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


def _section(summaries: Sequence[PlacementSummary], workload: Workload) -> Section:
    ranked = rank(summaries, workload)
    rates = {one.placement: found.rate.median for one in ranked if (found := one.of(workload)) and found.rate}
    fastest = max(rates.values(), default=0.0)
    rows = [
        Row(one, one.of(workload), place, rates[one.placement] / fastest if fastest else None)
        for place, one in enumerate(ranked, start=1)
    ]
    rows += [Row(one, one.of(workload), None, None) for one in summaries if one not in ranked]
    devices = dict.fromkeys(device for row in rows if row.found is not None for device in row.found.busy_frac)
    return Section(workload, tuple(rows), tuple(sorted(devices, key=lambda name: name == HOST.name)))
