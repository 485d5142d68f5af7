"""The evidence for one hypothesis as a picture: every block, the interval, and what was predicted."""

from __future__ import annotations

import io
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullLocator

from k3prof.core.refutation.evidence import Block, Evidence
from k3prof.core.refutation.hypothesis import Again, Comparison, Threshold
from k3prof.core.refutation.verdict import Effect
from k3prof.reporters import refutation_words as words
from k3prof.reporters.palette import INK, MUTED, PAPER
from k3prof.reporters.refutation_input import Judged
from k3prof.reporters.untrusted import one_line

_DPI = 72
_WIDTH_PX = 360
_LEFT_PX = 58
_RIGHT_PX = 14
_HEADER_PX = 34
_LINE_PX = 13
_AXIS_PX = 36
_DOT_PX = 9
_ROW_PX = 20
_PREDICTED = "#0072b2"
_MARGIN = 0.06
_MOST_STRETCH = 2.0
_LABEL_CHARACTERS = 52
_TEXT_PT = 10
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": _TEXT_PT,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "svg.fonttype": "path",
    "svg.hashsalt": "k3prof",
    "hatch.linewidth": 0.6,
}


@dataclass(frozen=True)
class _Picture:
    """What is drawn, in the axis' own scale.

    Attributes:
        low: The axis' left end.
        high: Its right end.
        predicted: Where the value lies if the claim holds; cut at the axis' ends.
        predicted_text: The same in words.
        negligible: Around 1, what is too small to matter; None for a threshold.
        label: What the axis shows.
        is_log: Whether it is logarithmic.
    """

    low: float
    high: float
    predicted: tuple[tuple[float, float], ...]
    predicted_text: str
    negligible: tuple[float, float] | None
    label: str
    is_log: bool


def as_svg(row: Judged) -> bytes | None:
    """Return the picture; None when nothing was measured. Equal rows give equal bytes."""
    evidence, effect = row.verdict.evidence, row.verdict.effect
    if effect is None and not _values(evidence.blocks):
        return None
    out = io.BytesIO()
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        metadata = {"Title": one_line(row.verdict.hypothesis.id), "Date": None, "Creator": None, "Format": None}
        _figure(row).savefig(out, format="svg", metadata={**metadata, "Type": None})
    return _described(out.getvalue().decode(), describe(row)).encode()


def describe(row: Judged) -> str:
    """Return in words what the picture shows."""
    found = row.verdict
    shown = ", ".join(f"{value:.4g}" for value in _values(found.evidence.blocks)) or "none"
    return one_line(f"{words.finding(row)}. Blocks, in order of time: {shown}.")


def _described(svg: str, text: str) -> str:
    svg = svg.replace("<svg ", '<svg role="img" ', 1)
    return svg.replace("</title>", f"</title>\n <desc>{escape(text)}</desc>", 1)


def _figure(row: Judged) -> Figure:
    found, picture = row.verdict, _picture(row)
    again = _again(row)
    dots_px = _DOT_PX * max(len(found.evidence.blocks), 1) + 8
    interval_px = _ROW_PX if found.effect is not None else 0
    again_px = _ROW_PX if again else 0
    inner_px = dots_px + interval_px + again_px
    height_px = _HEADER_PX + inner_px + _AXIS_PX
    figure = Figure(figsize=(_WIDTH_PX / _DPI, height_px / _DPI), dpi=_DPI, facecolor=PAPER)
    inner_width_px = _WIDTH_PX - _LEFT_PX - _RIGHT_PX
    axes = figure.add_axes(
        (_LEFT_PX / _WIDTH_PX, _AXIS_PX / height_px, inner_width_px / _WIDTH_PX, inner_px / height_px)
    )
    axes.set_ylim(inner_px, 0)
    _axis(axes, picture)
    _zones(axes, picture)
    _blocks(axes, found.evidence, found.effect)
    if found.effect is not None:
        _interval(axes, found.effect, picture, dots_px + interval_px / 2, weak=words.is_weak(found))
    if again:
        y = inner_px - again_px / 2
        axes.plot(_values(again), [y] * len(_values(again)), "D", ms=4.2, mfc="none", mec=MUTED, mew=1)
        _name(axes, y, "A/A")
    return figure


def _values(blocks: Sequence[Block]) -> list[float]:
    return [value for block in blocks if (value := words.value(block)) is not None]


def _again(row: Judged) -> tuple[Block, ...]:
    return row.verdict.evidence.again if isinstance(row.verdict.hypothesis.test, Comparison) else ()


def _picture(row: Judged) -> _Picture:
    test, predicted = row.verdict.hypothesis.test, one_line(f"predicted: {words.prediction_of(row)}")
    if isinstance(test, Threshold):
        ends = [end for end in (test.predict.low, test.predict.high) if math.isfinite(end)]
        low, high = _limits(row, ends, is_log=False)
        band = (max(test.predict.low, low), min(test.predict.high, high))
        return _Picture(low, high, (band,), predicted, None, _label(row), is_log=False)
    near = (1 / test.smallest, test.smallest)
    if isinstance(test, Again):
        low, high = _limits(row, [1.0, *near], is_log=True)
        return _Picture(low, high, ((low, near[0]), (near[1], high)), predicted, near, _label(row), is_log=True)
    ends = [end for end in (test.predict.low, test.predict.high) if 0 < end < math.inf]
    low, high = _limits(row, [1.0, *near, *ends], is_log=True)
    band = (max(test.predict.low, low), min(test.predict.high, high))
    return _Picture(low, high, (band,), predicted, near, _label(row), is_log=True)


def _label(row: Judged) -> str:
    hypothesis = row.verdict.hypothesis
    unit = f", {row.metric_unit}" if isinstance(hypothesis.test, Threshold) and row.metric_unit else ""
    whole = one_line(f"{words.test(hypothesis)}{unit}")
    return whole if len(whole) <= _LABEL_CHARACTERS else one_line(f"{hypothesis.metric}{unit or ', a ratio'}")


def _limits(row: Judged, fixed: list[float], *, is_log: bool) -> tuple[float, float]:
    """Return the axis' ends: all blocks and what was predicted; of a very wide interval, not all."""
    found = row.verdict
    points = [*fixed, *_values(found.evidence.blocks), *_values(_again(row))]
    effect = found.effect
    if effect is not None:
        points.append(effect.estimate)
    scaled = np.log(points) if is_log else np.array(points)
    low, high = float(scaled.min()), float(scaled.max())
    if not is_log and 0 < low < high / 2:
        low = 0.0
    span = high - low or abs(high) or 1.0
    if effect is not None and effect.low is not None and effect.high is not None:
        low = max(min(low, _scaled(effect.low, is_log)), low - _MOST_STRETCH * span)
        high = min(max(high, _scaled(effect.high, is_log)), high + _MOST_STRETCH * span)
    margin = _MARGIN * (high - low or 1.0)
    ends = (low - margin, high + margin)
    return (math.exp(ends[0]), math.exp(ends[1])) if is_log else ends


def _scaled(value: float, is_log: bool) -> float:
    if not is_log:
        return value
    return math.log(value) if value > 0 else -math.inf


def _axis(axes: Axes, picture: _Picture) -> None:
    axes.set_xscale("log" if picture.is_log else "linear")
    axes.set_xlim(picture.low, picture.high)
    axes.xaxis.set_major_locator(FixedLocator(_ticks(picture)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.6g}"))
    axes.tick_params(axis="x", length=4, labelsize=_TEXT_PT)
    axes.set_xlabel(picture.label, fontsize=_TEXT_PT, labelpad=2)
    axes.set_yticks([])
    for side in ("left", "right", "top"):
        axes.spines[side].set_visible(False)


def _ticks(picture: _Picture) -> list[float]:
    """Return round values: evenly spaced on a short axis, the fewer to a power of ten the longer it is."""
    low, high = picture.low, picture.high
    if picture.is_log and high / low > 4:
        powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        decades = len(powers)
        steps = (1, 2, 3, 5, 7) if high / low < 15 else (1, 2, 5) if decades <= 3 else (1,)
        every = max(decades // 6, 1)
        found = [step * 10.0**power for power in powers if power % every == 0 for step in steps]
    else:
        found = [float(tick) for tick in MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(low, high)]
    return [tick for tick in found if low <= tick <= high]


def _zones(axes: Axes, picture: _Picture) -> None:
    for low, high in picture.predicted:
        axes.axvspan(low, high, color=_PREDICTED, alpha=0.16, lw=0, zorder=0)
        for end in (low, high):
            if picture.low < end < picture.high:
                axes.axvline(end, color=_PREDICTED, lw=1.2, zorder=1)
    _above(axes, picture, *picture.predicted[0], picture.predicted_text, line=1, color=_PREDICTED)
    if picture.negligible is not None:
        low, high = picture.negligible
        axes.axvspan(low, high, fc="none", ec=MUTED, alpha=0.55, hatch="////", lw=0, zorder=0)
        axes.axvline(1.0, color=INK, lw=1, ls=(0, (4, 2)), zorder=1)
        _above(axes, picture, low, high, f"too small to matter: {low:.3g} to {high:.3g}", line=0, color=INK)


def _above(axes: Axes, picture: _Picture, low: float, high: float, text: str, *, line: int, color: str) -> None:
    """Write above a zone, on the given line from below, without leaving the picture."""
    left, right = (_place(picture, end) for end in (low, high))
    middle = (left + right) / 2
    if middle <= 0.3:
        x, align = max(left, 0.0), "left"
    elif middle < 0.7:
        x, align = middle, "center"
    else:
        x, align = min(right, 1.0), "right"
    axes.annotate(
        text,
        (x, 1),
        (0, 4 + line * _LINE_PX),
        xycoords="axes fraction",
        textcoords="offset points",
        ha=align,
        va="baseline",
        color=color,
        fontsize=_TEXT_PT,
        annotation_clip=False,
    )


def _place(picture: _Picture, value: float) -> float:
    """Return where a value lies between the axis' ends, from 0 to 1."""
    low, high, at = (_scaled(one, picture.is_log) for one in (picture.low, picture.high, value))
    return (at - low) / (high - low)


def _blocks(axes: Axes, evidence: Evidence, effect: Effect | None) -> None:
    """Draw a dot for each block, the first at the top; hollow those that were not looked at."""
    judged = len(evidence.blocks) if effect is None else effect.blocks
    for number, block in enumerate(evidence.blocks):
        value, y = words.value(block), 4 + _DOT_PX * (number + 0.5)
        if value is None:
            continue
        if block.candidate is None:
            axes.hlines(y, value - block.level.bias_low, value + block.level.bias_high, color=INK, lw=1)
        axes.plot([value], [y], "o", ms=5.4, mfc=INK if number < judged else PAPER, mec=INK, mew=1)
    if evidence.blocks:
        _name(axes, 4 + _DOT_PX * len(evidence.blocks) / 2, "blocks")


def _interval(axes: Axes, effect: Effect, picture: _Picture, y: float, *, weak: bool) -> None:
    style: Any = {"color": INK, "lw": 1.4 if weak else 3.2, "ls": (0, (2, 1.6)) if weak else "-"}
    if effect.low is not None and effect.high is not None:
        low, high = max(effect.low, picture.low), min(effect.high, picture.high)
        axes.plot([low, high], [y, y], solid_capstyle="butt", zorder=3, **style)
        for end, shown, marker in ((effect.low, low, "<"), (effect.high, high, ">")):
            axes.plot(
                [shown], [y], "|" if end == shown else marker, color=INK, ms=9 if end == shown else 7, clip_on=False
            )
    axes.plot([effect.estimate], [y], "D", ms=4.5, mfc=PAPER, mec=INK, mew=1.2, zorder=4)
    _name(axes, y, "assumed" if weak else "90 %")


def _name(axes: Axes, y: float, text: str) -> None:
    axes.annotate(
        text,
        (0, y),
        (-8, 0),
        xycoords=("axes fraction", "data"),
        textcoords="offset points",
        ha="right",
        va="center",
        fontsize=_TEXT_PT,
        color=INK,
        annotation_clip=False,
    )
