"""Perfetto's own format, as far as a timeline needs it: groups, tracks, slices, instants, counters.

A trace is a list of `TracePacket`s. Texts that repeat are sent once and referred to by number from then on, as the
format asks for, and tracks are numbered as they come, so equal calls give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
    BUILTIN_CLOCK_BOOTTIME,
    BUILTIN_CLOCK_REALTIME,
    CounterDescriptor,
    TracePacket,
    TrackDescriptor,
    TrackEvent,
)
from perfetto.trace_builder.proto_builder import TraceProtoBuilder

from k3prof.reporters.untrusted import one_line

_SEQUENCE = 1
_PACKETS_AT_ONCE = 10_000
Facts = Mapping[str, str | int | bool]
"""What is told about a slice or an instant, by name."""

_UNITS = {"bytes": CounterDescriptor.UNIT_SIZE_BYTES, "ns": CounterDescriptor.UNIT_TIME_NS}


class PacketWriter:
    """Collects packets. Times are nanoseconds on whatever clock the caller chose; texts may be anyone's."""

    def __init__(self) -> None:
        self._content = bytearray()
        self._builder = TraceProtoBuilder()
        self._tracks = 0
        self._event_names: dict[str, int] = {}
        self._annotation_names: dict[str, int] = {}
        self._packet(first_packet_on_sequence=True, sequence_flags=TracePacket.SEQ_INCREMENTAL_STATE_CLEARED)

    def content(self) -> bytes:
        """Return the trace so far."""
        return bytes(self._content + self._builder.serialize())

    def dated(self, time_ns: int, unix_ns: int) -> None:
        """Say what date a time was, so that a viewer can show dates."""
        packet = self._packet()
        for clock, shown_ns in ((BUILTIN_CLOCK_BOOTTIME, time_ns), (BUILTIN_CLOCK_REALTIME, unix_ns)):
            packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=shown_ns)

    def group(self, number: int, name: str, labels: tuple[str, ...] = ()) -> int:
        """Add a group of tracks, which viewers show as a process; return its track."""
        track = self._descriptor(name)
        track.process.pid = number
        track.process.process_name = one_line(name)
        track.process.process_labels.extend(map(one_line, labels))
        return int(track.uuid)

    def track(self, parent: int, rank: int, name: str) -> int:
        """Add a track for slices and instants below another one, at a place among its siblings."""
        return int(self._descriptor(name, parent, rank).uuid)

    def counter(self, parent: int, rank: int, name: str, unit: str) -> int:
        """Add a track for the values of a counter."""
        track = self._descriptor(name, parent, rank)
        track.counter.y_axis_share_key = one_line(name)
        if unit in _UNITS:
            track.counter.unit = _UNITS[unit]
        else:
            track.counter.unit_name = unit
        return int(track.uuid)

    def slice(self, track: int, begin_ns: int, end_ns: int, name: str, facts: Facts) -> None:
        """Add a slice; those of one track must lie apart, and come in order of time."""
        self._event(track, begin_ns, TrackEvent.TYPE_SLICE_BEGIN, name, facts)
        event = self._packet(timestamp=end_ns).track_event
        event.type = TrackEvent.TYPE_SLICE_END
        event.track_uuid = track

    def instant(self, track: int, time_ns: int, name: str, facts: Facts) -> None:
        """Add a moment."""
        self._event(track, time_ns, TrackEvent.TYPE_INSTANT, name, facts)

    def value(self, track: int, time_ns: int, value: float) -> None:
        """Say what a counter was from a time on."""
        event = self._packet(timestamp=time_ns).track_event
        event.type = TrackEvent.TYPE_COUNTER
        event.track_uuid = track
        event.double_counter_value = value

    def _event(self, track: int, time_ns: int, kind: int, name: str, facts: Facts) -> None:
        packet = self._packet(timestamp=time_ns, sequence_flags=TracePacket.SEQ_NEEDS_INCREMENTAL_STATE)
        event = packet.track_event
        event.type = kind
        event.track_uuid = track
        event.name_iid = _interned(self._event_names, name, packet.interned_data.event_names)
        for key, fact in facts.items():
            annotation = event.debug_annotations.add()
            annotation.name_iid = _interned(self._annotation_names, key, packet.interned_data.debug_annotation_names)
            if isinstance(fact, bool):
                annotation.bool_value = fact
            elif isinstance(fact, int):
                annotation.int_value = fact
            else:
                annotation.string_value = one_line(fact)

    def _descriptor(self, name: str, parent: int | None = None, rank: int = 0) -> TrackDescriptor:
        track = self._packet().track_descriptor
        track.uuid = self._tracks = self._tracks + 1
        track.name = one_line(name)
        track.child_ordering = TrackDescriptor.EXPLICIT
        if parent is not None:
            track.parent_uuid = parent
            track.sibling_order_rank = rank
        return track

    def _packet(self, **fields: int) -> TracePacket:
        if len(self._builder.trace.packet) >= _PACKETS_AT_ONCE:
            self._content += self._builder.serialize()
            self._builder = TraceProtoBuilder()
        return self._builder.trace.packet.add(trusted_packet_sequence_id=_SEQUENCE, **fields)


def _interned(known: dict[str, int], text: str, sent: object) -> int:
    number = known.get(text)
    if number is None:
        number = known[text] = len(known) + 1
        sent.add(iid=number, name=one_line(text))  # type: ignore[attr-defined]
    return number
