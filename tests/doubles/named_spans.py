"""Spans written down row by row, under names of the test's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from k3prof.core.spans import COLUMNS, UNKNOWN, SpanKind, Spans

Row = tuple[SpanKind, str, int, int, Mapping[str, Any]]
"""Kind, device (empty for none), begin, end, and any of `layers`, `names`, `source`, `nodes`, `bytes`, `finished`."""


def named_spans(rows: Sequence[Row]) -> Spans:
    """Return the rows as spans, in order of their begin."""
    devices = tuple(dict.fromkeys(name for row in rows for name in (row[1], row[4].get("source")) if name))
    names = tuple(dict.fromkeys(name for row in rows for name in row[4].get("names", ()) if name))
    columns: dict[str, list[object]] = {name: [] for name in COLUMNS}
    for kind, device, begin_ns, end_ns, more in sorted(rows, key=lambda row: row[2]):
        layers, (first, last) = more.get("layers", (UNKNOWN, UNKNOWN)), more.get("names", ("", ""))
        source = more.get("source")
        values = {
            "kind": kind,
            "device": devices.index(device) if device else UNKNOWN,
            "source": devices.index(source) if source else UNKNOWN,
            "begin_ns": begin_ns,
            "end_ns": end_ns,
            "finished": more.get("finished", True),
            "nodes": more.get("nodes", 0),
            "bytes": more.get("bytes", UNKNOWN),
            "first_layer": layers[0],
            "last_layer": layers[1],
            "first_node": names.index(first) if first else UNKNOWN,
            "last_node": names.index(last) if last else UNKNOWN,
        }
        for name, value in values.items():
            columns[name].append(value)
    return Spans(
        **{name: np.array(columns[name], kind) for name, kind in COLUMNS.items()}, devices=devices, names=names
    )
