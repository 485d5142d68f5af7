"""Spans made by hand, and drawn at random."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from hypothesis import strategies as st

from k3prof.core.spans import COLUMNS, UNKNOWN, SpanKind, Spans, concatenate

DEVICES = ("CPU", "RPC0", "RPC1", "RPC2")
NAMES = ("", "norm-0", "l_out-3", "ffn_out-12 (view)")


def span(kind: SpanKind, device: str, begin_ns: int, end_ns: int, **others: Any) -> Spans:
    """Return one span; of the other columns the ones given, the rest unknown."""
    given = {"source": UNKNOWN, "finished": True, "nodes": 0, "bytes": UNKNOWN, "first_node": 0, "last_node": 0}
    given |= {"first_layer": UNKNOWN, "last_layer": UNKNOWN, "kind": kind, "begin_ns": begin_ns, "end_ns": end_ns}
    given |= {"device": DEVICES.index(device) if device else UNKNOWN, **others}
    columns = {name: np.array([given[name]], dtype) for name, dtype in COLUMNS.items()}
    return Spans(**columns, devices=DEVICES, names=NAMES)


def turns(device_times: Sequence[tuple[str, int, int]]) -> Spans:
    """Return splits: device, begin, end."""
    return concatenate([span(SpanKind.COMPUTE, *one) for one in device_times])


_TIME = st.integers(0, 10**15)
_PLACE = st.integers(UNKNOWN, len(DEVICES) - 1)
_LAYER = st.integers(UNKNOWN, 500)


@st.composite
def any_spans(draw: st.DrawFn) -> Spans:
    """Draw spans of every kind, in order of their begin."""
    rows = draw(
        st.lists(
            st.tuples(
                *(st.sampled_from(SpanKind), _PLACE, _PLACE, _TIME, _TIME, st.booleans(), st.integers(0, 10**6)),
                *(st.integers(UNKNOWN, 10**12), _LAYER, _LAYER, st.integers(0, 3), st.integers(0, 3)),
            ),
            max_size=30,
        )
    )
    columns = {
        name: np.array([row[place] for row in rows], dtype) for place, (name, dtype) in enumerate(COLUMNS.items())
    }
    return concatenate([Spans(**columns, devices=DEVICES, names=NAMES)])


def equal(one: Spans, other: Spans) -> bool:
    """Return whether two are the same, whatever their tables look like."""
    return [readable(one, i) for i in range(len(one))] == [readable(other, i) for i in range(len(other))]


def readable(spans: Spans, i: int) -> dict[str, object]:
    """Return one span with names in place of numbers."""
    found: dict[str, object] = {name: getattr(spans, name)[i].item() for name in COLUMNS}
    for name in ("device", "source"):
        found[name] = spans.devices[place] if (place := getattr(spans, name)[i]) != UNKNOWN else None
    for name in ("first_node", "last_node"):
        found[name] = spans.names[getattr(spans, name)[i]]
    return found
