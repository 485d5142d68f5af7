"""What a recording shows over a stretch of time: how many devices computed at once, and what each of them did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from k3prof.core.idle import Parallelism, Question, parallelism
from k3prof.core.imported import ImportedRun
from k3prof.core.spans import SpanKind, concurrency_ns, union
from k3prof.core.timeline import BUSY_COUNTERS, Counter, busy_share

LEVELS = (
    Counter.POWER_W,
    Counter.POWER_INSTANT_W,
    Counter.MEMORY_BYTES,
    Counter.PCIE_RX_BYTES_PER_S,
    Counter.PCIE_TX_BYTES_PER_S,
    Counter.SM_MHZ,
    Counter.MEMORY_MHZ,
)
"""Counters of which a mean says something."""


@dataclass(frozen=True)
class DeviceFigures:
    """What one device did in a stretch.

    Attributes:
        busy_frac: Mean busy share; None where it was not observed.
        copying_frac: Share of the time in which something was copied to or from it; None where copies are not recorded.
        levels: Means of counters that were read in the stretch.
    """

    busy_frac: float | None
    copying_frac: float | None
    levels: Mapping[Counter, float]


@dataclass(frozen=True)
class StretchFigures:
    """What a recording shows of a stretch.

    Attributes:
        name: What the stretch is: `whole recording`, `prefill`, `decode`.
        begin_ns: Its begin, on the recording's clock.
        end_ns: Its end.
        parallelism: P; its interval is P itself where every begin and end is known; None when P is not known.
        overlap_ns: Least and most time in which two or more devices computed at once, equal where that is known.
        devices: What each device did, by name.
    """

    name: str
    begin_ns: int
    end_ns: int
    parallelism: Parallelism | None
    overlap_ns: tuple[int, int] | None
    devices: Mapping[str, DeviceFigures]


def stretch_figures(run: ImportedRun, name: str, begin_ns: int, end_ns: int) -> StretchFigures:
    """Return what a recording shows between two moments."""
    busy = {one.device: one for one in run.series if one.counter in BUSY_COUNTERS}
    devices = {}
    for device in run.devices:
        counter = busy.get(device.name)
        devices[device.name] = DeviceFigures(
            busy_share(counter, begin_ns, end_ns) if counter is not None else None,
            _copying(run, device.name, begin_ns, end_ns) if run.exact else None,
            _levels(run, device.name, begin_ns, end_ns),
        )
    if run.exact:
        degree, overlap_ns = _counted(run, begin_ns, end_ns)
        return StretchFigures(name, begin_ns, end_ns, degree, (overlap_ns, overlap_ns), devices)
    all_known = len(busy) == len(run.devices)
    found = parallelism(list(busy.values()), [(begin_ns, end_ns)]) if all_known else None
    return StretchFigures(name, begin_ns, end_ns, found, _bounds(found, end_ns - begin_ns), devices)


def _counted(run: ImportedRun, begin_ns: int, end_ns: int) -> tuple[Parallelism, int]:
    names = tuple(device.name for device in run.devices)
    at_once_ns = concurrency_ns(run.spans, names, begin_ns, end_ns)
    assert at_once_ns is not None  # noqa: S101 - everything that was imported is known to have ended
    degree = float((at_once_ns * np.arange(at_once_ns.size)).sum()) / (end_ns - begin_ns)
    return Parallelism(degree, degree, degree, 1, names, 1), int(at_once_ns[2:].sum())


def _bounds(found: Parallelism | None, length_ns: int) -> tuple[int, int] | None:
    if found is None or found.low is None:
        return None
    overlap = next(claim for claim in found.claims if claim.question is Question.OVERLAP)
    return round(overlap.at_least_frac * length_ns), round(overlap.at_most_frac * length_ns)


def _copying(run: ImportedRun, device: str, begin_ns: int, end_ns: int) -> float:
    spans = run.spans.of_kind(SpanKind.COPY).reaching_into(begin_ns, end_ns)
    place = spans.devices.index(device) if device in spans.devices else len(spans.devices)
    spans = spans.where((spans.device == place) | (spans.source == place))
    begins_ns, ends_ns = union(np.maximum(spans.begin_ns, begin_ns), np.minimum(spans.end_ns, end_ns))
    return float((ends_ns - begins_ns).sum()) / (end_ns - begin_ns)


def _levels(run: ImportedRun, device: str, begin_ns: int, end_ns: int) -> Mapping[Counter, float]:
    found = {}
    for one in run.series:
        if one.device == device and one.counter in LEVELS:
            inside = (one.time_ns > begin_ns) & (one.time_ns <= end_ns)
            if inside.any():
                found[one.counter] = float(one.value[inside].mean())
    return found
