"""How the split tracer's spans lie in a trace: in chunks, each with its own tables of devices and names."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterable

import numpy as np

from k3prof.core.spans import COLUMNS, Spans, concatenate
from k3prof.errors import TraceError
from k3prof.store.trace_file import TraceFile

_FAST = 1
"""zlib's level 1 makes spans five times smaller; level 6 makes them six times smaller in five times the time."""


def add_spans(db: sqlite3.Connection, trial: int, spans: Spans) -> None:
    """Append spans, at least one, to a trial's."""
    db.execute(
        "INSERT INTO spans VALUES (?, ?, ?, ?, ?, ?, ?)",
        (
            trial,
            int(spans.begin_ns.min()),
            int(spans.end_ns.max()),
            len(spans),
            zlib.compress(_pack(spans), _FAST),
            json.dumps(spans.devices),
            json.dumps(spans.names),
        ),
    )


def read_spans(file: TraceFile, trial: int, begin_ns: int | None, end_ns: int | None) -> Spans:
    """Return a trial's spans, of all its time or those that reach into an interval.

    Raises:
        TraceError: A chunk is damaged.
    """
    rows = file.rows(
        "SELECT count, columns, devices, names FROM spans WHERE trial = ?1"
        " AND end_ns > coalesce(?2, end_ns - 1) AND begin_ns < coalesce(?3, begin_ns + 1) ORDER BY rowid",
        trial,
        begin_ns,
        end_ns,
    )
    try:
        spans = concatenate([_unpack(*row) for row in rows])
    except (ValueError, zlib.error, IndexError) as error:
        raise TraceError(f"{file.path}: the spans of trial {trial} are damaged: {error}") from error
    if begin_ns is None and end_ns is None:
        return spans
    limits = np.iinfo(np.int64)
    return spans.reaching_into(limits.min if begin_ns is None else begin_ns, limits.max if end_ns is None else end_ns)


def _pack(spans: Spans) -> bytes:
    return b"".join(np.ascontiguousarray(getattr(spans, name), _stored(kind)).tobytes() for name, kind in _columns())


def _unpack(count: int, packed: bytes, devices: str, names: str) -> Spans:
    raw = zlib.decompress(packed)
    columns, offset = {}, 0
    for name, kind in _columns():
        columns[name] = np.frombuffer(raw, _stored(kind), count, offset).astype(kind)
        offset += columns[name].nbytes
    if offset != len(raw):
        raise ValueError(f"{len(raw)} bytes for {count} spans")
    return Spans(**columns, devices=tuple(json.loads(devices)), names=tuple(json.loads(names)))


def _columns() -> Iterable[tuple[str, type[np.generic]]]:
    return COLUMNS.items()


def _stored(kind: type[np.generic]) -> np.dtype[np.generic]:
    return np.dtype(kind).newbyteorder("<")
