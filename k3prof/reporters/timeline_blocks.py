"""Splits to move and zoom in: blocks with their layers that show once few enough tokens are in view."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, CustomJS, CustomJSHover, HoverTool, LinearColorMapper
from bokeh.transform import transform
from numpy.typing import NDArray

from k3prof.core.spans import SpanKind, Spans
from k3prof.core.timeline import PhaseKind
from k3prof.reporters.palette import INK, MUTED, PAPER, device_colour, ink_on
from k3prof.reporters.split_lanes import Interval, traced_stretches
from k3prof.reporters.split_picture import COPY_FILL, FILL, SUBMIT_STRENGTH, UNFINISHED_STRENGTH, handovers
from k3prof.reporters.split_words import in_words
from k3prof.reporters.timeline_data import Timeline, first_phase
from k3prof.reporters.untrusted import one_line

_ROOM = 1.25
_LONGEST_HANDOVER_NS = 5_000_000
_CHARACTER_PX = 6.5
_DRAWN = (SpanKind.WAIT, SpanKind.SUBMIT, SpanKind.COMPUTE, SpanKind.COPY)


@dataclass(frozen=True, eq=False)
class Close:
    """What is drawn split by split.

    Attributes:
        spans: All spans of some stretches.
        stretches: Those, as begin and end.
        in_view_s: How many seconds may be in view for single splits to be told apart.
    """

    spans: Spans
    stretches: tuple[Interval, ...]
    in_view_s: float


def close_spans(drawn: Timeline, most: int) -> Close:
    """Choose at most `most` spans: all if they fit, else the tokens up close, then as much prefill as there is room."""
    spans = drawn.spans.where(drawn.spans.kind != SpanKind.PASS)
    prefill = first_phase(drawn, PhaseKind.PREFILL, "pp")
    wanted: list[Interval] = []
    if drawn.zoom is not None:
        around_ns = int(drawn.zoom.token_ns)
        wanted.append((drawn.zoom.begin_ns - around_ns, drawn.zoom.end_ns + around_ns))
    if prefill is not None:
        wanted.append((prefill.begin_ns, prefill.end_ns))
    in_view_s = _ROOM * max((end_ns - begin_ns for begin_ns, end_ns in wanted), default=0) / 1e9
    if len(spans) <= most:
        return Close(spans, tuple(traced_stretches(drawn.phases, drawn.spans)), in_view_s)
    stretches: list[Interval] = []
    chosen = np.zeros(len(spans), np.bool_)
    for begin_ns, end_ns in wanted:
        reaching = np.flatnonzero((spans.end_ns > begin_ns) & (spans.begin_ns < end_ns) & ~chosen)
        room = most - int(chosen.sum())
        if room > 0 and reaching.size:
            chosen[reaching[:room]] = True
            stretches.append((begin_ns, end_ns if reaching.size <= room else int(spans.begin_ns[reaching[room]])))
    return Close(spans.where(chosen), tuple(stretches), in_view_s)


def draw_blocks(plot: Any, drawn: Timeline, close: Close) -> list[Any]:  # noqa: ANN401
    """Draw the spans over whatever else is drawn in their stretches; return the renderers."""
    count = len(drawn.lanes)
    paper = plot.quad(
        left=[(begin_ns - drawn.begin_ns) / 1e9 for begin_ns, _ in close.stretches],
        right=[(end_ns - drawn.begin_ns) / 1e9 for _, end_ns in close.stretches],
        bottom=0,
        top=count - 1 + FILL,
        fill_color=PAPER,
        line_color=PAPER,
        line_width=2,
    )
    colours = [device_colour(lane.kind, position) for position, lane in enumerate(drawn.lanes)]
    by_lane = transform("lane", LinearColorMapper(palette=colours, low=-0.5, high=count - 0.5))
    looks: dict[SpanKind, dict[str, object]] = {
        SpanKind.WAIT: {
            "fill_alpha": 0,
            "line_color": None,
            "hatch_pattern": "/",
            "hatch_color": MUTED,
            "hatch_alpha": 0.3,
        },
        SpanKind.SUBMIT: {"fill_color": by_lane, "fill_alpha": SUBMIT_STRENGTH, "line_color": None},
        SpanKind.COMPUTE: {"fill_color": by_lane, "line_color": by_lane, "alpha": "strength", "line_width": 0.5},
        SpanKind.COPY: {"fill_color": INK, "line_color": INK, "line_width": 0.5},
    }
    renderers = [paper]
    for kind in _DRAWN:
        spans, lane = _on_lanes(drawn, close.spans.of_kind(kind))
        words, place = in_words(spans)
        source = ColumnDataSource(_columns(drawn, spans, lane) | {"what": place})
        bars = plot.quad("begin", "end", "top", "floor", source=source, **looks[kind])
        plot.add_tools(_hover(bars, drawn, words))
        renderers.append(bars)
        if kind is SpanKind.COMPUTE:
            renderers.append(_draw_names(plot, source, colours, close.in_view_s))
    return [*renderers, _draw_handovers(plot, drawn, close.spans)]


def _on_lanes(drawn: Timeline, spans: Spans) -> tuple[Spans, NDArray[np.int16]]:
    places = {lane.device: position for position, lane in enumerate(drawn.lanes)}
    # The last entry is what a device of -1 finds.
    lane = np.array([*(places.get(name, -1) for name in spans.devices), -1], np.int16)[spans.device]
    return spans.where(lane >= 0), lane[lane >= 0]


def _columns(drawn: Timeline, spans: Spans, lane: NDArray[np.int16]) -> dict[str, NDArray[Any]]:
    floor = (len(drawn.lanes) - 1 - lane).astype(np.float32)
    height = np.where(spans.kind == SpanKind.COPY, COPY_FILL, FILL)
    return {
        "begin": (spans.begin_ns - drawn.begin_ns) / 1e9,
        "end": (spans.end_ns - drawn.begin_ns) / 1e9,
        "floor": floor,
        "top": (floor + height).astype(np.float32),
        "lane": lane.astype(np.uint8),
        "took_us": ((spans.end_ns - spans.begin_ns) / 1e3).astype(np.float32),
        "strength": np.where(spans.finished, 1, UNFINISHED_STRENGTH).astype(np.float32),
        "first": spans.first_layer,
        "last": spans.last_layer,
    }


def _draw_names(plot: Any, blocks: Any, colours: list[str], in_view_s: float) -> Any:  # noqa: ANN401
    """Write the layers on those blocks that have room for them, anew whenever the view moves."""
    names = ColumnDataSource({"x": [], "y": [], "text": [], "colour": []})
    write = CustomJS(
        args={
            "plot": plot,
            "blocks": blocks,
            "names": names,
            "colours": [ink_on(colour) for colour in colours],
            "limit": in_view_s,
            "character_px": _CHARACTER_PX,
            "lift": (FILL + COPY_FILL) / 2,
        },
        code="""
            const {start, end} = plot.x_range;
            const px = plot.inner_width / (end - start);
            const shown = {x: [], y: [], text: [], colour: []};
            const {data} = blocks;
            for (let i = 0; end - start <= limit && i < data.begin.length; i++) {
                const left = Math.max(data.begin[i], start), right = Math.min(data.end[i], end);
                if (left >= right || data.first[i] < 0) continue;
                const one = data.first[i] == data.last[i];
                const short = one ? `${data.first[i]}` : `${data.first[i]}–${data.last[i]}`;
                const long = (one ? "layer " : "layers ") + short;
                const text = [long, short].find((name) => name.length * character_px + 3 < (right - left) * px);
                if (text === undefined) continue;
                shown.x.push((left + right) / 2);
                shown.y.push(data.floor[i] + lift);
                shown.text.push(text);
                shown.colour.push(colours[data.lane[i]]);
            }
            names.data = shown;
        """,
    )
    for change in ("start", "end"):
        plot.x_range.js_on_change(change, write)
    plot.js_on_change("inner_width", write)
    look = {"text_color": "colour", "text_font_size": "12px", "text_align": "center", "text_baseline": "middle"}
    return plot.text("x", "y", "text", source=names, **look)


def _draw_handovers(plot: Any, drawn: Timeline, spans: Spans) -> Any:  # noqa: ANN401
    lines = handovers(spans, [lane.device for lane in drawn.lanes], _LONGEST_HANDOVER_NS)
    time_s, height = (lines[:, :, 0] - drawn.begin_ns) / 1e9, lines[:, :, 1].astype(np.float32)
    ends = {"x0": time_s[:, 0], "x1": time_s[:, 1], "y0": height[:, 0], "y1": height[:, 1]}
    return plot.segment("x0", "y0", "x1", "y1", source=ColumnDataSource(ends), line_color=INK, line_alpha=0.4)


def _hover(bars: Any, drawn: Timeline, words: list[str]) -> Any:  # noqa: ANN401
    names = CustomJSHover(args={"names": [one_line(lane.device) for lane in drawn.lanes]}, code="return names[value];")
    what = CustomJSHover(args={"words": words}, code="return words[value];")
    tooltips = [
        ("device", "@lane{custom}"),
        ("what", "@what{custom}"),
        ("took", "@took_us{0,0.0} µs"),
        ("from", "@begin{0.000000} s"),
    ]
    formatters = {"@lane": names, "@what": what}
    look = {"point_policy": "follow_mouse", "visible": False}
    return HoverTool(renderers=[bars], tooltips=tooltips, formatters=formatters, **look)
