"""Splits drawn as a picture: blocks with their layers, copies, waits, and the baton that goes from device to device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from k3prof.core.spans import SpanKind, Spans
from k3prof.reporters.palette import INK, MUTED, device_colour, ink_on
from k3prof.reporters.split_words import layers
from k3prof.reporters.timeline_data import Lane

FILL = 0.84
COPY_FILL = 0.14
SUBMIT_STRENGTH = 0.35
UNFINISHED_STRENGTH = 0.6
_CHARACTER_PX = 7.2
_LONGEST_HANDOVER_FRAC = 0.05


def draw_splits(axes: Axes, lanes: Sequence[Lane], spans: Spans) -> None:
    """Draw the spans that reach into the axes' interval onto lanes of height 1, the first one on top."""
    begin_ns, end_ns = axes.get_xlim()
    close = spans.reaching_into(int(begin_ns), int(end_ns))
    for position, lane in enumerate(lanes):
        floor = len(lanes) - 1 - position
        colour = device_colour(lane.kind, position)
        mine = close.on(lane.device)
        work = mine.of_kind(SpanKind.COMPUTE)
        _bars(axes, mine.of_kind(SpanKind.WAIT), (floor, FILL), fc="none", ec=MUTED, hatch="//////", lw=0, alpha=0.3)
        _bars(axes, mine.of_kind(SpanKind.SUBMIT), (floor, FILL), fc=colour, alpha=SUBMIT_STRENGTH, lw=0)
        for done, strength in ((True, 1.0), (False, UNFINISHED_STRENGTH)):
            chosen = work.where(work.finished == done)
            _bars(axes, chosen, (floor, FILL), fc=colour, ec=colour, lw=0.5, alpha=strength)
        _bars(axes, mine.of_kind(SpanKind.COPY), (floor, COPY_FILL), fc=INK, ec=INK, lw=0.3)
        _name(axes, work, floor, ink_on(colour))
    segments = handovers(close, [lane.device for lane in lanes], int(_LONGEST_HANDOVER_FRAC * (end_ns - begin_ns)))
    axes.add_collection(LineCollection(list(segments), colors=INK, linewidths=0.7, alpha=0.45, zorder=2.5))


def handovers(spans: Spans, devices: Sequence[str], longest_ns: int) -> NDArray[np.float64]:
    """Return where one device's split is followed by the next device's, to be drawn as lines.

    Args:
        spans: Spans of any kind.
        devices: The lanes, the first one on top.
        longest_ns: Where more time lies between two splits, they are not tied together.

    Returns:
        Lines from (ns, height) to (ns, height), shape (lines, 2, 2), float64.
    """
    work = spans.of_kind(SpanKind.COMPUTE)
    lane = np.array([devices.index(name) if name in devices else -1 for name in spans.devices] + [-1])[work.device]
    between_ns = work.begin_ns[1:] - work.end_ns[:-1]
    tied = (lane[1:] != lane[:-1]) & (lane[1:] >= 0) & (lane[:-1] >= 0) & (between_ns >= 0) & (between_ns < longest_ns)
    height = len(devices) - 1 - lane + FILL / 2
    ends = np.stack([work.end_ns[:-1][tied], height[:-1][tied]], axis=1)
    begins = np.stack([work.begin_ns[1:][tied], height[1:][tied]], axis=1)
    return np.stack([ends, begins], axis=1)


def _bars(axes: Axes, spans: Spans, extent: tuple[float, float], **look: Any) -> None:  # noqa: ANN401
    if len(spans):
        lengths_ns = spans.end_ns - spans.begin_ns
        axes.broken_barh(np.stack([spans.begin_ns, lengths_ns], axis=1).tolist(), extent, **look)


def _name(axes: Axes, work: Spans, floor: int, colour: str) -> None:
    """Write the layers on those blocks that have room for them."""
    begin_ns, end_ns = axes.get_xlim()
    width_px = axes.bbox.width
    for i in range(len(work)):
        left_ns, right_ns = max(work.begin_ns[i], begin_ns), min(work.end_ns[i], end_ns)
        room_px = (right_ns - left_ns) / (end_ns - begin_ns) * width_px
        short = layers(int(work.first_layer[i]), int(work.last_layer[i]))
        long = f"layers {short}" if "–" in short else f"layer {short}"
        label = next((one for one in (long, short) if short and _CHARACTER_PX * len(one) < room_px), "")
        middle = ((left_ns + right_ns) / 2, floor + (FILL + COPY_FILL) / 2)
        axes.text(*middle, label, ha="center", va="center", size=8.5, color=colour, zorder=4)
