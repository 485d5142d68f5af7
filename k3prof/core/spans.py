"""What the split tracer saw: which device computed which stretch of the graph when, and the copies and waits between.

A decode step makes dozens of spans and a sweep millions, so they lie in arrays, one column per property.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum

import numpy as np
from numpy.typing import NDArray

UNKNOWN = -1
"""Stands in a column of `Spans` for what was not seen or does not exist: no device, no layer, no byte count."""


class SplitMode(StrEnum):
    """How closely the scheduler is watched."""

    OFF = "off"
    LIGHT = "light"
    """Nothing is added: a split's span ends when the scheduler's call returns, which most devices outlast."""
    EXACT = "exact"
    """After each split its device is waited for, so that its span ends when it does; devices never overlap then."""


class SpanKind(IntEnum):
    """What a span is."""

    PASS = 0
    """A forward pass: all of the scheduler's work on one graph. It contains the spans of the other kinds."""
    COMPUTE = 1
    """A split: a stretch of the graph on one device."""
    COPY = 2
    """A tensor on its way from `source` to `device`."""
    WAIT = 3
    """The host waits for a device."""
    SUBMIT = 4
    """The host's own work on handing a split to a device."""


@dataclass(frozen=True, eq=False)
class Spans:
    """Spans in order of their begin; all columns have the shape (spans,).

    Attributes:
        kind: A `SpanKind`, uint8.
        device: Which device, as a place in `devices`, int16. A copy's destination.
        source: Where a copy comes from, likewise.
        begin_ns: Monotonic begin, int64.
        end_ns: Monotonic end, int64.
        finished: Whether a split, copy or pass was done by then, bool; else it had only been asked for.
        nodes: Nodes of the graph that were computed, int32; 0 for copies and waits.
        bytes: Size of a copy, int64.
        first_layer: The first layer that a split computes part of, or the layer that a copied tensor belongs to, int32.
        last_layer: The last such layer, int32.
        first_node: Name of the first node, or of the copied tensor, as a place in `names`, int32.
        last_node: Name of the last node, likewise.
        devices: Names of devices.
        names: Names of tensors.
    """

    kind: NDArray[np.uint8]
    device: NDArray[np.int16]
    source: NDArray[np.int16]
    begin_ns: NDArray[np.int64]
    end_ns: NDArray[np.int64]
    finished: NDArray[np.bool_]
    nodes: NDArray[np.int32]
    bytes: NDArray[np.int64]
    first_layer: NDArray[np.int32]
    last_layer: NDArray[np.int32]
    first_node: NDArray[np.int32]
    last_node: NDArray[np.int32]
    devices: tuple[str, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return self.kind.size

    def replace(self, **columns: NDArray[np.generic]) -> Spans:
        """Return the spans with other columns."""
        return replace(self, **columns)  # type: ignore[arg-type]

    def where(self, chosen: NDArray[np.bool_] | NDArray[np.intp]) -> Spans:
        """Return some of the spans, by a mask or by their places."""
        return self.replace(**{name: getattr(self, name)[chosen] for name in COLUMNS})

    def of_kind(self, kind: SpanKind) -> Spans:
        """Return the spans of a kind."""
        return self.where(self.kind == kind)

    def on(self, device: str) -> Spans:
        """Return the spans of a device."""
        return self.where(self.device == (self.devices.index(device) if device in self.devices else len(self.devices)))

    def reaching_into(self, begin_ns: int, end_ns: int) -> Spans:
        """Return the spans that have a part in an interval."""
        return self.where((self.end_ns > begin_ns) & (self.begin_ns < end_ns))


COLUMNS = {
    "kind": np.uint8,
    "device": np.int16,
    "source": np.int16,
    "begin_ns": np.int64,
    "end_ns": np.int64,
    "finished": np.bool_,
    "nodes": np.int32,
    "bytes": np.int64,
    "first_layer": np.int32,
    "last_layer": np.int32,
    "first_node": np.int32,
    "last_node": np.int32,
}
"""The columns of `Spans` and their types."""

NO_SPANS = Spans(**{name: np.empty(0, kind) for name, kind in COLUMNS.items()}, devices=(), names=())


def concatenate(parts: Sequence[Spans]) -> Spans:
    """Return the spans of all parts as one, in order of their begin."""
    parts = [part for part in parts if len(part)] or [NO_SPANS]
    devices = {name: place for place, name in enumerate(dict.fromkeys(name for one in parts for name in one.devices))}
    names = {name: place for place, name in enumerate(dict.fromkeys(name for one in parts for name in one.names))}
    renumbered = [_renumbered(part, devices, names) for part in parts]
    whole = {name: np.concatenate([getattr(part, name) for part in renumbered]) for name in COLUMNS}
    order = np.argsort(whole["begin_ns"], kind="stable")
    return replace(parts[0].replace(**whole).where(order), devices=tuple(devices), names=tuple(names))


def _renumbered(part: Spans, devices: dict[str, int], names: dict[str, int]) -> Spans:
    # The last entry is what a place of -1 finds.
    device = np.array([*(devices[name] for name in part.devices), UNKNOWN], np.int16)
    name = np.array([*(names[name] for name in part.names), UNKNOWN], np.int32)
    return part.replace(
        device=device[part.device],
        source=device[part.source],
        first_node=name[part.first_node],
        last_node=name[part.last_node],
    )


def union(begin_ns: NDArray[np.int64], end_ns: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the fewest disjoint intervals that cover the same time as the given ones.

    Args:
        begin_ns: Begins in ascending order, shape (intervals,).
        end_ns: Ends, shape (intervals,).

    Returns:
        Begins and ends of the disjoint intervals, in order.
    """
    if not begin_ns.size:
        return begin_ns, end_ns
    reached_ns = np.maximum.accumulate(end_ns)
    is_first = np.concatenate([[True], begin_ns[1:] > reached_ns[:-1]])
    return begin_ns[is_first], reached_ns[np.concatenate([is_first[1:], [True]])]


def computing(
    spans: Spans, device: str, begin_ns: int, end_ns: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Return when a device computed within an interval, as begins and ends of disjoint intervals.

    None where that is not known: some of its splits are not known to have ended.
    """
    work = spans.of_kind(SpanKind.COMPUTE).on(device).reaching_into(begin_ns, end_ns)
    if not work.finished.all():
        return None
    return union(np.maximum(work.begin_ns, begin_ns), np.minimum(work.end_ns, end_ns))


def busy_ns(spans: Spans, devices: Sequence[str], begin_ns: int, end_ns: int) -> dict[str, int | None]:
    """Return for how long each device computed within an interval; None where that is not known."""
    found = {device: computing(spans, device, begin_ns, end_ns) for device in devices}
    return {device: int((one[1] - one[0]).sum()) if one is not None else None for device, one in found.items()}


def concurrency_ns(spans: Spans, devices: Sequence[str], begin_ns: int, end_ns: int) -> NDArray[np.int64] | None:
    """Return for how long exactly 0, 1, … devices computed at once; None where that is not known of one of them.

    Returns:
        Nanoseconds, shape (devices + 1,), int64. They sum to the interval's length; the mean of 0, 1, … weighted with
        them is the parallelism degree P.
    """
    times_ns, steps = [np.array([begin_ns, end_ns], np.int64)], [np.zeros(2, np.int64)]
    for device in devices:
        intervals = computing(spans, device, begin_ns, end_ns)
        if intervals is None:
            return None
        times_ns += intervals
        steps += [np.ones(intervals[0].size, np.int64), np.full(intervals[1].size, -1, np.int64)]
    edges_ns = np.concatenate(times_ns)
    order = np.argsort(edges_ns, kind="stable")
    at_once = np.cumsum(np.concatenate(steps)[order])[:-1]
    lengths_ns = np.diff(edges_ns[order])
    # Where one ends as the next begins, the order of equal times decides; such stretches have no length.
    at_once = np.where(lengths_ns > 0, at_once, 0)
    total_ns = np.zeros(len(devices) + 1, np.int64)
    np.add.at(total_ns, at_once, lengths_ns)
    return total_ns


def layers_by_device(spans: Spans) -> dict[str, tuple[int, ...]]:
    """Return the layers that each device computed some part of."""
    work = spans.of_kind(SpanKind.COMPUTE)
    stretches = np.unique(np.stack([work.device, work.first_layer, work.last_layer]), axis=1).T.tolist()
    found: dict[str, set[int]] = {}
    for device, first, last in stretches:
        if UNKNOWN not in (device, first, last):
            found.setdefault(spans.devices[device], set()).update(range(first, last + 1))
    return {device: tuple(sorted(layers)) for device, layers in found.items()}


def splits_per_pass(spans: Spans) -> NDArray[np.int64]:
    """Return how many splits each forward pass had, in order of time, shape (passes,), int64."""
    passes, work = spans.of_kind(SpanKind.PASS), spans.of_kind(SpanKind.COMPUTE)
    first, behind = np.searchsorted(work.begin_ns, passes.begin_ns), np.searchsorted(work.begin_ns, passes.end_ns)
    return behind - first
