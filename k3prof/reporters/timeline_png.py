"""The timeline as a picture: the whole trial above, a few tokens up close below."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.ticker import MaxNLocator
from PIL import Image

from k3prof.core.device import DeviceKind
from k3prof.core.summary import WorkloadSummary
from k3prof.reporters import formats, legend
from k3prof.reporters.palette import FAINT, INK, MUTED, PAPER, PHASES, device_colour
from k3prof.reporters.phase_labels import stretches
from k3prof.reporters.split_picture import draw_splits
from k3prof.reporters.timeline_data import Lane, Timeline, describe_devices
from k3prof.reporters.untrusted import one_line

_DPI = 100
_PNG_COLOURS = 160
_WIDTH_PX = 1400
_LEFT_PX = 84
_COLUMN_PX = 62
_HEADER_PX = 104
_STRIP_PX = 44
_AXIS_PX = 34
_BETWEEN_PX = 62
_FOOTER_PX = 62
_FOOTER_LINE_PX = 16
_BINS = 290
_CHARACTER_PX = 7.8
_LANE_FILL = 0.84
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": FAINT,
    "xtick.color": MUTED,
    "svg.fonttype": "path",
    "svg.hashsalt": "k3prof",
}


def as_png(drawn: Timeline) -> bytes:
    """Return the timeline as a PNG, 1400 pixels wide, in few enough colours to be small."""
    with _styled():
        canvas: Any = FigureCanvasAgg(_figure(drawn))
        canvas.draw()
    pixels = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    out = io.BytesIO()
    pixels.quantize(_PNG_COLOURS, dither=Image.Dither.NONE).save(out, "PNG", optimize=True)
    return out.getvalue()


def as_svg(drawn: Timeline) -> bytes:
    """Return the timeline as an SVG; equal timelines give equal bytes."""
    out = io.BytesIO()
    with _styled():
        _figure(drawn).savefig(
            out, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
        )
    return out.getvalue()


@contextmanager
def _styled() -> Iterator[None]:
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        yield


class _Sheet:
    """A figure measured in pixels from its top left corner, as a page is."""

    def __init__(self, width_px: int, height_px: int) -> None:
        self.width_px, self.height_px = width_px, height_px
        self.figure = Figure(figsize=(width_px / _DPI, height_px / _DPI), dpi=_DPI, facecolor=PAPER)

    def axes(self, left: float, top: float, width: float, height: float) -> Axes:
        box = (left / self.width_px, 1 - (top + height) / self.height_px)
        return self.figure.add_axes((*box, width / self.width_px, height / self.height_px))

    def text(self, x: float, y: float, words: str, **style: Any) -> None:  # noqa: ANN401
        self.figure.text(x / self.width_px, 1 - y / self.height_px, words, **{"va": "baseline", **style})


def _figure(drawn: Timeline) -> Figure:
    columns = [one for one in drawn.summary.workloads if one.parallelism or any(one.busy_frac.values())][:3]
    lane_px = 36 if len(drawn.lanes) <= 6 else 24
    lanes_px = lane_px * len(drawn.lanes)
    right_px = 28 + _COLUMN_PX * len(columns)
    width_px = _WIDTH_PX - _LEFT_PX - right_px
    whole_px = _HEADER_PX + _STRIP_PX
    zoom_px = whole_px + lanes_px + _AXIS_PX + _BETWEEN_PX
    end_px = zoom_px + lanes_px + _AXIS_PX if drawn.zoom else whole_px + lanes_px + _AXIS_PX
    footer_px = _FOOTER_PX + _FOOTER_LINE_PX * (len(drawn.spans) > 0)
    sheet = _Sheet(_WIDTH_PX, end_px + footer_px)

    _header(sheet, drawn)
    whole = sheet.axes(_LEFT_PX, whole_px, width_px, lanes_px)
    _lanes(whole, drawn.lanes, drawn.begin_ns, drawn.end_ns)
    _time_axis(whole, drawn.begin_ns, drawn.end_ns, 1e9, "s")
    _phase_strip(sheet.axes(_LEFT_PX, _HEADER_PX, width_px, _STRIP_PX), drawn, width_px)
    _busy_columns(sheet, drawn, columns, left_px=_LEFT_PX + width_px, top_px=whole_px, lane_px=lane_px)
    if drawn.zoom:
        close = sheet.axes(_LEFT_PX, zoom_px, width_px, lanes_px)
        _zoom(sheet, drawn, whole, close, zoom_px)
    _footer(sheet, drawn, end_px)
    return sheet.figure


def _header(sheet: _Sheet, drawn: Timeline) -> None:
    name = _shorten(one_line(drawn.summary.placement), 60)
    sheet.text(_LEFT_PX, 40, name, size=19, weight="bold")
    devices = one_line(describe_devices(drawn.trial.devices))
    what = f"{_shorten(one_line(drawn.model), 60)} on {devices}, {drawn.resolution_text}"
    sheet.text(_LEFT_PX, 64, what, size=11.5)
    sheet.text(_LEFT_PX, 84, _headline(drawn), size=11.5, color=MUTED)


def _headline(drawn: Timeline) -> str:
    parts = []
    for found in drawn.summary.workloads[:3]:
        degree = f"P = {formats.degree(found.parallelism)} {formats.interval(found.parallelism)}".rstrip()
        parts.append(f"{found.workload.name}  {formats.rate_with_unit(found.rate)}, {degree}")
    standing = formats.standing(drawn.trial.outcome)
    return "   ·   ".join([standing] * bool(standing) + parts)


def _phase_strip(axes: Axes, drawn: Timeline, width_px: int) -> None:
    """Draw what the server was doing: a coloured bar for each phase, and above it the name of each stretch."""
    _bare(axes, drawn.begin_ns, drawn.end_ns)
    axes.set_ylim(0, 1)
    for phase in drawn.phases:
        axes.axvspan(phase.begin_ns, phase.end_ns, 0.12, 0.34, color=PHASES[phase.kind], lw=0)
    px_per_ns = width_px / (drawn.end_ns - drawn.begin_ns)
    taken: list[tuple[float, float]] = []
    for stretch in sorted(stretches(drawn.phases), key=lambda one: not one.measured):
        left_px = (stretch.begin_ns - drawn.begin_ns) * px_per_ns
        roomy = (stretch.end_ns - stretch.begin_ns) * px_per_ns > _CHARACTER_PX * len(stretch.full_label)
        label = stretch.full_label if roomy else stretch.label
        right_px = left_px + _CHARACTER_PX * (len(label) + 1)
        if all(right_px <= begin_px or left_px >= end_px for begin_px, end_px in taken):
            axes.text(stretch.begin_ns, 0.46, label, size=9.5, va="bottom", ha="left")
            taken.append((left_px, right_px))


def _lane_names(axes: Axes, lanes: Sequence[Lane], begin_ns: int, end_ns: int) -> None:
    _bare(axes, begin_ns, end_ns)
    axes.set_ylim(0, len(lanes))
    for position, lane in enumerate(lanes):
        floor = len(lanes) - 1 - position
        axes.axhline(floor, color=FAINT, lw=0.8, zorder=0)
        axes.text(
            -0.008,
            floor + _LANE_FILL / 2,
            one_line(lane.device),
            transform=axes.get_yaxis_transform(),
            ha="right",
            va="center",
            size=10,
            weight="bold",
            color=MUTED if lane.kind is DeviceKind.CPU else INK,
        )


def _lanes(axes: Axes, lanes: Sequence[Lane], begin_ns: int, end_ns: int) -> None:
    """Draw a lane for each device: filled to the mean share, faintly to the highest that a step stands for."""
    _lane_names(axes, lanes, begin_ns, end_ns)
    for position, lane in enumerate(lanes):
        floor = len(lanes) - 1 - position
        colour = device_colour(lane.kind, position)
        for gap_begin_ns, gap_end_ns in lane.unobserved(begin_ns, end_ns):
            length_ns = gap_end_ns - gap_begin_ns
            axes.broken_barh([(gap_begin_ns, length_ns)], (floor, _LANE_FILL), fc="none", ec=FAINT, hatch="////", lw=0)
            if length_ns > 0.12 * (end_ns - begin_ns):
                middle = (gap_begin_ns + length_ns / 2, floor + _LANE_FILL / 2)
                axes.text(*middle, "not observed", ha="center", va="center", color=MUTED, backgroundcolor=PAPER)
        if not lane.share.size:
            continue
        steps = lane.thinned(_BINS)
        scale = _LANE_FILL / lane.ceiling
        for heights, strength in ((steps.high, 0.2), (steps.mean, 1.0)):
            tops = floor + np.minimum(heights * scale, _LANE_FILL)
            axes.stairs(tops, steps.edges_ns, baseline=floor, fill=True, color=colour, alpha=strength, lw=0)


def _time_axis(axes: Axes, begin_ns: int, end_ns: int, unit_ns: float, unit: str) -> None:
    spacing = MaxNLocator(nbins=10, steps=[1, 2, 5, 10]).tick_values(0, (end_ns - begin_ns) / unit_ns)
    ticks = [tick for tick in spacing if 0 <= tick <= (end_ns - begin_ns) / unit_ns]
    axes.set_xticks([begin_ns + tick * unit_ns for tick in ticks], [f"{tick:g} {unit}" for tick in ticks])
    axes.tick_params(axis="x", length=4, color=FAINT, labelsize=9)


def _busy_columns(
    sheet: _Sheet, drawn: Timeline, columns: Sequence[WorkloadSummary], *, left_px: float, top_px: float, lane_px: float
) -> None:
    """Write each device's mean busy share beside its lane, and P, their sum, below."""
    for number, found in enumerate(columns, start=1):
        x = left_px + 10 + number * _COLUMN_PX
        sheet.text(x, top_px - 8, found.workload.name, size=9.5, ha="right")
        for position, lane in enumerate(drawn.lanes):
            colour = MUTED if lane.kind is DeviceKind.CPU else INK
            y = top_px + (position + 1 - _LANE_FILL / 2) * lane_px + 4
            sheet.text(x, y, formats.share(found.busy_frac.get(lane.device)), size=10, ha="right", color=colour)
        y = top_px + len(drawn.lanes) * lane_px + 19
        # The column has no room for the word; the title above says it.
        degree = formats.degree(found.parallelism) if found.parallelism else "–"
        sheet.text(x, y, f"P {degree}", size=10, ha="right", weight="bold")
    if columns:
        sheet.text(
            left_px + 10 + len(columns) * _COLUMN_PX, top_px - 26, "busy share in", size=9, ha="right", color=MUTED
        )


def _zoom(sheet: _Sheet, drawn: Timeline, whole: Axes, close: Axes, top_px: float) -> None:
    """Draw a few tokens up close, tied to the place in the whole trial that they come from."""
    zoom = drawn.zoom
    if zoom is None:
        return
    if len(drawn.spans):
        _lane_names(close, drawn.lanes, zoom.begin_ns, zoom.end_ns)
        draw_splits(close, drawn.lanes, drawn.spans)
    else:
        _lanes(close, [lane.within(zoom.begin_ns, zoom.end_ns) for lane in drawn.lanes], zoom.begin_ns, zoom.end_ns)
    _time_axis(close, zoom.begin_ns, zoom.end_ns, 1e6, "ms")
    for arrival_ns in zoom.arrivals_ns:
        close.axvline(arrival_ns, color=INK, lw=0.7, alpha=0.35, zorder=3)
    close.plot(
        zoom.arrivals_ns, np.full(zoom.arrivals_ns.size, len(drawn.lanes) + 0.12), "v", color=INK, ms=5, clip_on=False
    )
    whole.axvspan(zoom.begin_ns, zoom.end_ns, color=INK, alpha=0.1, lw=0)
    _funnel(sheet, whole, close, zoom.begin_ns, zoom.end_ns)
    title = f"{zoom.tokens} typical tokens of {zoom.workload.name} up close, {zoom.token_ns / 1e6:.1f} ms each"
    sheet.text(_LEFT_PX, top_px - 20, title, size=11.5, weight="bold")
    remark = "▼ a token reaches the client"
    if not drawn.shows_turns:
        remark += "   ·   the counters are too slow to show which device had its turn when"
    right_px = close.get_position().x1 * sheet.width_px
    sheet.text(right_px, top_px - 20, remark, size=9.5, color=MUTED, ha="right")


def _funnel(sheet: _Sheet, whole: Axes, close: Axes, begin_ns: int, end_ns: int) -> None:
    """Shade the way from a stretch of the upper panel to the whole width of the lower one."""
    to_figure = sheet.figure.transFigure.inverted()
    upper = to_figure.transform(whole.transData.transform([(begin_ns, 0), (end_ns, 0)]))
    lower = to_figure.transform(close.transAxes.transform([(1, 1), (0, 1)]))
    shade = Polygon([*upper, *lower], color=INK, alpha=0.045, lw=0, transform=sheet.figure.transFigure, zorder=0)
    sheet.figure.add_artist(shade)


def _footer(sheet: _Sheet, drawn: Timeline, top_px: float) -> None:
    for number, line in enumerate(legend.lines(splits=len(drawn.spans) > 0)):
        sheet.text(_LEFT_PX, top_px + 26 + _FOOTER_LINE_PX * number, line, size=8.5, color=MUTED)


def _bare(axes: Axes, begin_ns: int, end_ns: int) -> None:
    axes.set_xlim(begin_ns, end_ns)
    axes.set_yticks([])
    axes.set_xticks([])
    for side in ("left", "right", "top", "bottom"):
        axes.spines[side].set_visible(False)


def _shorten(text: str, characters: int) -> str:
    if len(text) <= characters:
        return text
    half = (characters - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
