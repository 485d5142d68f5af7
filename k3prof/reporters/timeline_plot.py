"""The plot of a timeline to move and zoom in: lanes, phases and arriving tokens over one axis of time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from bokeh.models import (
    ColumnDataSource,
    CustomJS,
    CustomJSHover,
    FixedTicker,
    HoverTool,
    LinearColorMapper,
    PlainText,
    Range1d,
)
from bokeh.models.transforms import LinearInterpolator
from bokeh.plotting import figure
from bokeh.transform import transform
from numpy.typing import NDArray

from k3prof.core.thinning import Steps
from k3prof.core.timeline import PhaseKind
from k3prof.reporters.palette import FAINT, INK, MUTED, PHASES, device_colour
from k3prof.reporters.phase_labels import stretches
from k3prof.reporters.timeline_blocks import close_spans, draw_blocks
from k3prof.reporters.timeline_data import Lane, Timeline, first_phase
from k3prof.reporters.untrusted import one_line

_LANE_FILL = 0.84
_LANE_PX = 46
_FAR_BINS = 300
_NEAR_FRAC = 0.2
_NAMED_FRAC = 0.07
_FRAME_PX = 110
_LEAST_S = 0.000_1
_TOOLS = "xpan,xwheel_zoom,xbox_zoom,reset"


def plot_of(drawn: Timeline, steps: int, arrivals: int, spans: int) -> Any:  # noqa: ANN401
    """Return a bokeh figure of about `steps` steps over all lanes, and at most `arrivals` tokens and `spans` spans."""
    end_s = since_start_s(drawn, drawn.end_ns)
    span = Range1d(0.0, end_s, bounds=(0.0, end_s), min_interval=_LEAST_S)
    plot = figure(
        height=_FRAME_PX + _LANE_PX * len(drawn.lanes),
        sizing_mode="stretch_width",
        x_range=span,
        y_range=Range1d(0, len(drawn.lanes) + 1.1),
        tools=_TOOLS,
        active_scroll="xwheel_zoom",
        active_drag="xpan",
        x_axis_label="seconds since the server's start",
    )
    _dress(plot, drawn)
    _draw_phases(plot, drawn)
    _draw_arrivals(plot, drawn, arrivals)
    _draw_gaps(plot, drawn)
    share = steps // max(len(drawn.lanes), 1)
    far = [lane.thinned(min(_FAR_BINS, share // 3)) for lane in drawn.lanes]
    near = [lane.thinned(share // 3, _closely(drawn, lane, share // 3)) for lane in drawn.lanes]
    far_glyphs, near_glyphs = _draw_lanes(plot, drawn, far), _draw_lanes(plot, drawn, near)
    _show_below(plot.x_range, near_glyphs, span.end * _NEAR_FRAC, instead_of=far_glyphs)
    if len(drawn.spans):
        close = close_spans(drawn, spans)
        _show_below(plot.x_range, draw_blocks(plot, drawn, close), close.in_view_s)
    return plot


def _draw_lanes(plot: Any, drawn: Timeline, lanes: Sequence[Steps]) -> list[Any]:  # noqa: ANN401
    """Draw all lanes, as finely as they are given; return the renderers."""
    source = ColumnDataSource(_concatenated([_columns(drawn, *numbered) for numbered in enumerate(lanes)]))
    count = len(drawn.lanes)
    colours = [device_colour(lane.kind, position) for position, lane in enumerate(drawn.lanes)]
    look = {
        "source": source,
        "bottom": transform("lane", LinearInterpolator(x=[0, count], y=[count - 1, -1])),
        "fill_color": transform("lane", LinearColorMapper(palette=colours, low=-0.5, high=count - 0.5)),
        "line_color": None,
    }
    pale = plot.quad("begin", "end", "peak", fill_alpha=0.2, **look)
    full = plot.quad("begin", "end", "top", **look)
    names = CustomJSHover(args={"names": [one_line(lane.device) for lane in drawn.lanes]}, code="return names[value];")
    tooltips = [
        ("device", "@lane{custom}"),
        ("from", "@begin{0.0000} s"),
        ("to", "@end{0.0000} s"),
        ("busy share", "@mean{0.00}"),
        ("highest reading", "@high{0.00}"),
    ]
    plot.add_tools(_hover(pale, tooltips, formatters={"@lane": names}))
    return [pale, full]


def _columns(drawn: Timeline, position: int, steps: Steps) -> dict[str, NDArray[Any]]:
    seen = ~np.isnan(steps.mean)
    edges_s, mean, high = (steps.edges_ns - drawn.begin_ns) / 1e9, steps.mean[seen], steps.high[seen]
    floor, scale = len(drawn.lanes) - 1 - position, _LANE_FILL / drawn.lanes[position].ceiling
    return {
        "begin": edges_s[:-1][seen],
        "end": edges_s[1:][seen],
        "mean": mean.astype(np.float32),
        "high": high.astype(np.float32),
        "top": (floor + np.minimum(mean * scale, _LANE_FILL)).astype(np.float32),
        "peak": (floor + np.minimum(high * scale, _LANE_FILL)).astype(np.float32),
        "lane": np.full(mean.size, position, np.uint8),
    }


def _concatenated(parts: Sequence[dict[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _draw_gaps(plot: Any, drawn: Timeline) -> None:  # noqa: ANN401
    gaps = [
        (since_start_s(drawn, begin_ns), since_start_s(drawn, end_ns), len(drawn.lanes) - 1 - position)
        for position, lane in enumerate(drawn.lanes)
        for begin_ns, end_ns in lane.unobserved(drawn.begin_ns, drawn.end_ns)
    ]
    hatched = plot.quad(
        left=[begin_s for begin_s, _, _ in gaps],
        right=[end_s for _, end_s, _ in gaps],
        bottom=[floor for _, _, floor in gaps],
        top=[floor + _LANE_FILL for _, _, floor in gaps],
        fill_alpha=0,
        line_color=None,
        hatch_pattern="right_diagonal_line",
        hatch_color=FAINT,
    )
    plot.add_tools(_hover(hatched, "not observed"))


def _hover(renderer: Any, tooltips: Any, **more: Any) -> Any:  # noqa: ANN401
    return HoverTool(renderers=[renderer], point_policy="follow_mouse", tooltips=tooltips, visible=False, **more)


def _show_below(span: Any, near: list[Any], limit_s: float, instead_of: Sequence[Any] = ()) -> None:  # noqa: ANN401
    """Show something once less time is in view: drawing thousands within a pixel would show none of them right."""
    for one in near:
        one.visible = False
    swap = CustomJS(
        args={"span": span, "far": list(instead_of), "near": near, "limit": limit_s},
        code="""
            const close = span.end - span.start < limit;
            for (const one of near) one.visible = close;
            for (const one of far) one.visible = !close;
        """,
    )
    span.js_on_change("end", swap)
    span.js_on_change("start", swap)


def _closely(drawn: Timeline, lane: Lane, steps: int) -> list[tuple[int, int]]:
    """Return the intervals to draw reading by reading: the tokens up close, then as much prefill as there is room."""
    if lane.exact:
        return []
    windows = []
    prefill = first_phase(drawn, PhaseKind.PREFILL, "pp")
    for window in (drawn.zoom, prefill):
        if window is not None and lane.period_ns:
            begin_ns, end_ns = window.begin_ns - 2 * lane.period_ns, window.end_ns + 2 * lane.period_ns
            taken = min(steps, (end_ns - begin_ns) // lane.period_ns)
            windows.append((begin_ns, begin_ns + taken * lane.period_ns))
            steps -= taken
    return windows


def _draw_phases(plot: Any, drawn: Timeline) -> None:  # noqa: ANN401
    floor = len(drawn.lanes) + 0.42
    source = ColumnDataSource(
        {
            "begin": [since_start_s(drawn, phase.begin_ns) for phase in drawn.phases],
            "end": [since_start_s(drawn, phase.end_ns) for phase in drawn.phases],
            "what": [f"{phase.kind} {phase.workload}" for phase in drawn.phases],
            "repetition": [phase.repetition + 1 for phase in drawn.phases],
            "colour": [PHASES[phase.kind] for phase in drawn.phases],
        }
    )
    bars = plot.quad(
        "begin", "end", floor + 0.2, floor, source=source, fill_color="colour", line_color="#ffffff", line_width=0.5
    )
    tooltips = [("phase", "@what"), ("repetition", "@repetition"), ("from", "@begin{0.000} s"), ("to", "@end{0.000} s")]
    plot.add_tools(_hover(bars, tooltips))
    named = [one for one in stretches(drawn.phases) if one.end_ns - one.begin_ns > _NAMED_FRAC * drawn.length_ns]
    plot.text(
        [since_start_s(drawn, one.begin_ns) for one in named],
        floor + 0.3,
        [one.full_label for one in named],
        text_font_size="12px",
        text_color=INK,
    )


def _draw_arrivals(plot: Any, drawn: Timeline, most: int) -> None:  # noqa: ANN401
    arrivals = [request.arrivals_ns for request in drawn.trial.requests if request.role == "measure"]
    if sum(one.size for one in arrivals) > most:
        arrivals = [] if drawn.zoom is None else [drawn.zoom.arrivals_ns[:most]]
    if arrivals:
        time_s = (np.concatenate(arrivals) - drawn.begin_ns) / 1e9
        plot.scatter(time_s, len(drawn.lanes) + 0.12, marker="inverted_triangle", size=6, color=INK, line_color=None)


def _dress(plot: Any, drawn: Timeline) -> None:  # noqa: ANN401
    centres = [len(drawn.lanes) - 1 - position + _LANE_FILL / 2 for position in range(len(drawn.lanes))]
    plot.yaxis.ticker = FixedTicker(ticks=centres)
    plot.yaxis.major_label_overrides = {
        centre: PlainText(one_line(lane.device)) for centre, lane in zip(centres, drawn.lanes, strict=True)
    }
    plot.yaxis.major_label_text_font_size = "13px"
    plot.yaxis.major_label_text_color = INK
    plot.xaxis.major_label_text_color = plot.xaxis.axis_label_text_color = MUTED
    plot.xaxis.axis_label_text_font_style = "normal"
    for axis in (plot.xaxis, plot.yaxis):
        axis.axis_line_color = axis.minor_tick_line_color = axis.major_tick_line_color = None
    plot.ygrid.grid_line_color = None
    plot.xgrid.grid_line_color = FAINT
    plot.outline_line_color = None
    plot.toolbar.logo = None


def since_start_s(drawn: Timeline, time_ns: int) -> float:
    """Return a monotonic time as the plot's axis counts it: seconds since the server's start."""
    return (time_ns - drawn.begin_ns) / 1e9
