"""The timeline for Perfetto: placements as groups, devices as tracks, with every split, token and reading."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from k3prof.core.spans import UNKNOWN, SpanKind, Spans
from k3prof.core.timeline import BUSY_COUNTERS, ClockAnchor, Counter, Series, busy_steps
from k3prof.reporters import formats
from k3prof.reporters.perfetto_packets import Facts, PacketWriter
from k3prof.reporters.split_lanes import Steps
from k3prof.reporters.timeline_data import Lane, Timeline

_MACHINE = "host"
_MEAN_OVER_NS = 5_000_000
"""For counters that have a step at each begin and end: as fine as those of stand-ins."""
_UNITS = {
    "_frac": "share of time",
    "_bytes_per_s": "bytes/s",
    "_bytes": "bytes",
    "_ns": "ns",
    "_w": "W",
    "_j": "J",
    "_mhz": "MHz",
}


def as_pftrace(drawn: Sequence[Timeline], anchors: Mapping[int, ClockAnchor]) -> bytes:
    """Return a trace that Perfetto opens: equal timelines give equal bytes.

    Each trial is a group with a track for its phases, one for arriving tokens, two for the scheduler where splits were
    traced, and one for each device: its splits, named by their layers, above its busy share, copies and counters.
    Where splits say exactly when a device was busy, the share beneath them is what its counter said.
    Times are Unix times to the nanosecond, or the trials' own monotonic times where not all of them are dated.

    Args:
        drawn: The trials.
        anchors: What dates the monotonic times of a trial, by its id.
    """
    writer = PacketWriter()
    dated = all(one.trial.id in anchors for one in drawn)
    shifts_ns = [_shift_ns(anchors[one.trial.id]) if dated else 0 for one in drawn]
    if dated and drawn:
        begin_ns = min(shift_ns + one.begin_ns for one, shift_ns in zip(drawn, shifts_ns, strict=True))
        writer.dated(begin_ns, begin_ns)
    for number, (one, shift_ns) in enumerate(zip(drawn, shifts_ns, strict=True), start=1):
        _Group(writer, number, one, shift_ns).write()
    return writer.content()


def _shift_ns(anchor: ClockAnchor) -> int:
    return anchor.unix_ns - anchor.monotonic_ns


class _Group:
    """One trial's part of the file. Tracks are ranked in the order in which they are made."""

    def __init__(self, writer: PacketWriter, number: int, drawn: Timeline, shift_ns: int) -> None:
        self._writer, self._drawn, self._shift_ns = writer, drawn, shift_ns
        labels = (drawn.model, formats.standing(drawn.trial.outcome), drawn.resolution_text)
        self._group = writer.group(number, drawn.summary.placement, tuple(filter(None, labels)))
        self._ranks: dict[int, int] = {}

    def write(self) -> None:
        self._write_phases()
        self._write_tokens()
        spans, lanes = self._drawn.spans, {lane.device: lane for lane in self._drawn.lanes}
        self._write_spans(self._group, "forward passes", spans.of_kind(SpanKind.PASS), lambda _: "pass")
        host = spans.where((spans.kind == SpanKind.SUBMIT) | (spans.kind == SpanKind.WAIT))
        self._write_spans(self._group, "scheduler", host, _host_name(host))
        for device in dict.fromkeys([*lanes, *spans.devices]):
            self._write_device(device, lanes.get(device), spans.on(device))
        if any(one.device == _MACHINE for one in self._drawn.series):
            self._write_counters(self._track(self._group, "machine"), _MACHINE)

    def _write_phases(self) -> None:
        if not self._drawn.phases:
            return
        track = self._track(self._group, "phases")
        for phase in self._drawn.phases:
            facts = {"repetition": phase.repetition + 1} if phase.workload else {}
            self._slice(track, phase.begin_ns, phase.end_ns, f"{phase.kind} {phase.workload}".rstrip(), facts)

    def _write_tokens(self) -> None:
        arrivals = [
            (time_ns, tokens, request.stream + 1, request.workload.name)
            for request in self._drawn.trial.requests
            for time_ns, tokens in zip(request.arrivals_ns.tolist(), request.tokens.tolist(), strict=True)
        ]
        if not arrivals:
            return
        track = self._track(self._group, "tokens")
        for time_ns, tokens, stream, workload in sorted(arrivals):
            facts: Facts = {"workload": workload, "stream": stream}
            self._writer.instant(track, time_ns + self._shift_ns, formats.count(tokens, "token"), facts)

    def _write_device(self, device: str, lane: Lane | None, spans: Spans) -> None:
        work, copies = spans.of_kind(SpanKind.COMPUTE), spans.of_kind(SpanKind.COPY)
        track = self._write_spans(self._group, device, work, _split_name(work))
        if track is None:
            track = self._track(self._group, device)
        if lane is not None:
            self._write_lane(track, lane, sliced=bool(len(work)))
        self._write_spans(track, f"copies to {device}", copies, _copy_name(copies))
        self._write_counters(track, device)

    def _write_lane(self, track: int, lane: Lane, *, sliced: bool) -> None:
        drawn = self._drawn
        gaps = lane.unobserved(drawn.begin_ns, drawn.end_ns)
        if gaps:
            gap_track = self._track(track, "not observed")
            for begin_ns, end_ns in gaps:
                self._slice(gap_track, begin_ns, end_ns, "not observed", {})
        edges_ns, share = self._counted(lane.device) if sliced and lane.exact else (lane.edges_ns, lane.share)
        if share.size:
            counter = self._counter(track, "busy", "share of time")
            self._write_values(counter, edges_ns[:-1], share)

    def _counted(self, device: str) -> Steps:
        """Return the busy share without what stands in the device's slices anyway: what its counter said."""
        begin_ns, end_ns = self._drawn.begin_ns, self._drawn.end_ns
        found = next((one for one in self._drawn.series if one.device == device and one.counter in BUSY_COUNTERS), None)
        if found is None or not found.time_ns.size:
            return np.empty(0, np.int64), np.empty(0)
        if found.counter is not Counter.BUSY_TIME_NS:
            return busy_steps(found, begin_ns, end_ns)
        edges_ns = np.arange(found.time_ns[0], found.time_ns[-1] + _MEAN_OVER_NS, _MEAN_OVER_NS)
        return edges_ns, np.diff(np.interp(edges_ns, found.time_ns, found.value)) / _MEAN_OVER_NS

    def _write_counters(self, track: int, device: str) -> None:
        for one in self._drawn.series:
            if one.device == device and one.counter not in BUSY_COUNTERS:
                name, unit = _name_and_unit(one)
                self._write_values(self._counter(track, name, unit), one.time_ns, one.value)

    def _write_values(self, track: int, time_ns: NDArray[np.int64], value: NDArray[np.float64]) -> None:
        known = ~np.isnan(value)
        for at_ns, one in zip((time_ns[known] + self._shift_ns).tolist(), value[known].tolist(), strict=True):
            self._writer.value(track, at_ns, one)

    def _write_spans(self, parent: int, name: str, spans: Spans, named: Callable[[int], str]) -> int | None:
        """Write spans onto one track, or onto several of one name, which viewers show as one, where they overlap."""
        rows = _rows(spans)
        tracks = [self._track(parent, name) for _ in range(int(rows.max()) + 1 if len(spans) else 0)]
        for i, (row, facts) in enumerate(zip(rows.tolist(), _facts(spans), strict=True)):
            self._slice(tracks[row], int(spans.begin_ns[i]), int(spans.end_ns[i]), named(i), facts)
        return tracks[0] if tracks else None

    def _slice(self, track: int, begin_ns: int, end_ns: int, name: str, facts: Facts) -> None:
        self._writer.slice(track, begin_ns + self._shift_ns, end_ns + self._shift_ns, name, facts)

    def _track(self, parent: int, name: str) -> int:
        return self._writer.track(parent, self._next_rank(parent), name)

    def _counter(self, parent: int, name: str, unit: str) -> int:
        return self._writer.counter(parent, self._next_rank(parent), name, unit)

    def _next_rank(self, parent: int) -> int:
        self._ranks[parent] = self._ranks.get(parent, 0) + 1
        return self._ranks[parent]


def _rows(spans: Spans) -> NDArray[np.int64]:
    """Return a row for each span such that those of one row lie apart: the first row that is free by its begin."""
    rows = np.zeros(len(spans), np.int64)
    if (spans.begin_ns[1:] >= spans.end_ns[:-1]).all():
        return rows
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    for i, (begin_ns, end_ns) in enumerate(zip(spans.begin_ns.tolist(), spans.end_ns.tolist(), strict=True)):
        while busy and busy[0][0] <= begin_ns:
            heapq.heappush(free, heapq.heappop(busy)[1])
        row = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end_ns, row))
        rows[i] = row
    return rows


def _facts(spans: Spans) -> Iterator[Facts]:
    columns = (spans.kind, spans.nodes, spans.bytes, spans.source, spans.first_node, spans.last_node, spans.finished)
    for kind, nodes, size, source, first, last, finished in zip(*(one.tolist() for one in columns), strict=True):
        facts: dict[str, str | int | bool] = {}
        if kind == SpanKind.COMPUTE:
            facts["nodes"] = nodes
        if name := _name(spans, first):
            facts["copied" if kind == SpanKind.COPY else "first node"] = name
        if last != first and (name := _name(spans, last)):
            facts["last node"] = name
        if source != UNKNOWN:
            facts["from"] = spans.devices[source]
        if size != UNKNOWN:
            facts["bytes"] = size
        if not finished:
            facts["ends when"] = "the call returned; the device may have gone on"
        yield facts


def _split_name(spans: Spans) -> Callable[[int], str]:
    def name(i: int) -> str:
        first, last = int(spans.first_layer[i]), int(spans.last_layer[i])
        if first == UNKNOWN:
            return _name(spans, spans.first_node[i]) or "unnamed"
        return f"layer {first}" if first == last else f"layers {first}–{last}"

    return name


def _copy_name(spans: Spans) -> Callable[[int], str]:
    return lambda i: _name(spans, spans.first_node[i]) or "copy"


def _host_name(spans: Spans) -> Callable[[int], str]:
    def name(i: int) -> str:
        device = spans.devices[spans.device[i]] if spans.device[i] != UNKNOWN else "a device"
        return f"wait for {device}" if spans.kind[i] == SpanKind.WAIT else f"submit to {device}"

    return name


def _name(spans: Spans, place: int) -> str:
    return spans.names[place] if place != UNKNOWN else ""


def _name_and_unit(series: Series) -> tuple[str, str]:
    text = series.counter.value
    suffix = next((one for one in _UNITS if text.endswith(one)), "")
    name = text.removesuffix(suffix).replace("_", " ")
    return (f"{name}, sum since the start" if series.counter.cumulative else name), _UNITS.get(suffix, "")
