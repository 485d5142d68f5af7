"""What a span is, in words for a label and for a closer look."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from k3prof.core.spans import UNKNOWN, SpanKind, Spans
from k3prof.reporters import formats
from k3prof.reporters.untrusted import one_line

_NAME_CHARACTERS = 60
_TOLD_BY = (
    "kind",
    "device",
    "source",
    "finished",
    "nodes",
    "bytes",
    "first_layer",
    "last_layer",
    "first_node",
    "last_node",
)


def layers(first: int, last: int) -> str:
    """Return a range of layers: `0–8`, `8`; empty where it is not known."""
    if first == UNKNOWN:
        return ""
    return f"{first}" if first == last else f"{first}–{last}"


def in_words(spans: Spans) -> tuple[list[str], NDArray[np.int32]]:
    """Describe spans, each different one once.

    Returns:
        The descriptions, and the place of each span's among them, shape (spans,).
    """
    columns = np.stack([getattr(spans, name).astype(np.int64) for name in _TOLD_BY], axis=1)
    _, first, place = np.unique(columns, axis=0, return_index=True, return_inverse=True)
    return [_describe(spans, int(i)) for i in first], place.reshape(-1).astype(np.int32)


def _describe(spans: Spans, i: int) -> str:
    kind = SpanKind(spans.kind[i])
    device = one_line(spans.devices[spans.device[i]]) if spans.device[i] != UNKNOWN else "a device"
    if kind is SpanKind.WAIT:
        return f"the host waits for {device}"
    if kind is SpanKind.COPY:
        source = one_line(spans.devices[spans.source[i]]) if spans.source[i] != UNKNOWN else "?"
        size = formats.count(int(spans.bytes[i]), "byte") if spans.bytes[i] != UNKNOWN else "size unknown"
        return f"copy {source} → {device}, {size}: {_name(spans, int(spans.first_node[i]))}"
    range_ = layers(int(spans.first_layer[i]), int(spans.last_layer[i]))
    what = f"layers {range_}" if "–" in range_ else f"layer {range_}" if range_ else "no layer"
    nodes = formats.count(int(spans.nodes[i]), "node")
    stretch = " … ".join(dict.fromkeys(_name(spans, int(one[i])) for one in (spans.first_node, spans.last_node)))
    if kind is SpanKind.SUBMIT:
        return f"the host hands over {what}, {nodes}: {stretch}"
    open_end = "" if spans.finished[i] else "; ends when the call returned"
    return f"{what}, {nodes}: {stretch}{open_end}"


def _name(spans: Spans, place: int) -> str:
    return one_line(spans.names[place])[:_NAME_CHARACTERS] if place != UNKNOWN else "unnamed"
