"""Reads a Perfetto trace back with Perfetto's own message definitions, the way its trace processor does."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TracePacket, TrackEvent


@dataclass
class ReadTrace:
    """Everything by the track's path: `("even", "RPC0", "busy")`. Tracks of one path are put together."""

    slices: dict[tuple[str, ...], list[tuple[int, int, str, dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    instants: dict[tuple[str, ...], list[tuple[int, str, dict[str, Any]]]] = field(
        default_factory=lambda: defaultdict(list)
    )
    values: dict[tuple[str, ...], list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))
    units: dict[tuple[str, ...], str | int] = field(default_factory=dict)
    paths: list[tuple[str, ...]] = field(default_factory=list)
    labels: dict[str, list[str]] = field(default_factory=dict)
    clocks: list[dict[int, int]] = field(default_factory=list)


def read_pftrace(content: bytes) -> ReadTrace:
    trace = Trace()
    trace.ParseFromString(content)
    found, tracks, names, keys = ReadTrace(), {}, {}, {}
    open_slices: dict[int, list[tuple[int, str, dict[str, Any]]]] = defaultdict(list)
    assert trace.packet[0].sequence_flags == TracePacket.SEQ_INCREMENTAL_STATE_CLEARED
    for packet in trace.packet:
        assert packet.trusted_packet_sequence_id == trace.packet[0].trusted_packet_sequence_id
        if packet.HasField("clock_snapshot"):
            found.clocks.append({clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks})
        if packet.HasField("track_descriptor"):
            one = packet.track_descriptor
            assert one.uuid not in tracks
            path = (*(tracks[one.parent_uuid] if one.HasField("parent_uuid") else ()), one.name)
            tracks[one.uuid] = path
            found.paths.append(path)
            if one.HasField("process"):
                assert one.process.process_name == one.name
                found.labels[one.name] = list(one.process.process_labels)
            if one.HasField("counter"):
                found.units[path] = one.counter.unit_name or one.counter.unit
        if not packet.HasField("track_event"):
            continue
        for entry in packet.interned_data.event_names:
            names[entry.iid] = entry.name
        for entry in packet.interned_data.debug_annotation_names:
            keys[entry.iid] = entry.name
        event = packet.track_event
        facts = {keys[one.name_iid]: getattr(one, one.WhichOneof("value")) for one in event.debug_annotations}
        if event.name_iid:
            assert packet.sequence_flags & TracePacket.SEQ_NEEDS_INCREMENTAL_STATE
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            open_slices[event.track_uuid].append((packet.timestamp, names[event.name_iid], facts))
        elif event.type == TrackEvent.TYPE_SLICE_END:
            begin_ns, name, began = open_slices[event.track_uuid].pop()
            found.slices[tracks[event.track_uuid]].append((begin_ns, packet.timestamp, name, began))
        elif event.type == TrackEvent.TYPE_INSTANT:
            found.instants[tracks[event.track_uuid]].append((packet.timestamp, names[event.name_iid], facts))
        else:
            assert event.type == TrackEvent.TYPE_COUNTER
            found.values[tracks[event.track_uuid]].append((packet.timestamp, event.double_counter_value))
    assert not any(open_slices.values())
    return found
