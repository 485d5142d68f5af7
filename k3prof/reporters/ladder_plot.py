"""A ladder as a picture: what was measured at each level, with its range, beside the ideal or the prediction."""

from __future__ import annotations

import io
import warnings
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, MaxNLocator, NullLocator

from k3prof.core.ladder import DepthLadder, StreamsLadder
from k3prof.core.summary import Spread
from k3prof.reporters.ladder_tables import LadderSection
from k3prof.reporters.palette import INK, MUTED, PAPER

_DPI = 72
_INCHES = (6.4, 3.3)
_MEASURED = "#0072b2"
_PREDICTED = "#d55e00"
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": MUTED,
    "axes.labelcolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.color": MUTED,
    "ytick.labelcolor": INK,
    "svg.fonttype": "path",
    "svg.hashsalt": "k3prof",
}


def as_svg(section: LadderSection) -> bytes | None:
    """Return the picture; None when fewer than two levels were measured. Equal sections give equal bytes."""
    ladder = section.ladder
    if len(_known(ladder)) < 2:
        return None
    out = io.BytesIO()
    metadata = {"Title": section.title, "Date": None, "Creator": None, "Format": None, "Type": None}
    with rc_context(_STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")
        figure = Figure(figsize=_INCHES, dpi=_DPI, facecolor=PAPER, layout="constrained")
        axes = figure.add_subplot()
        if isinstance(ladder, StreamsLadder):
            _draw_streams(axes, ladder)
        else:
            _draw_depth(axes, ladder)
        axes.legend(frameon=False, fontsize=9)
        figure.savefig(out, format="svg", metadata=metadata)
    svg = out.getvalue().decode().replace("<svg ", '<svg role="img" ', 1)
    return svg.replace("</title>", f"</title>\n <desc>{escape(section.finding)}</desc>", 1).encode()


def _known(ladder: StreamsLadder | DepthLadder) -> list[tuple[float, Spread]]:
    """Return the measured levels: streams and tokens per second, or tokens of context and ms per token."""
    if isinstance(ladder, StreamsLadder):
        return [(level.workload.streams, level.rate) for level in ladder.levels if level.rate is not None]
    return [(level.mean_context, level.ms_per_token) for level in ladder.levels if level.ms_per_token is not None]


def _draw_streams(axes: Axes, ladder: StreamsLadder) -> None:
    known = _known(ladder)
    streams = np.array([count for count, _ in known], float)
    axes.set_xscale("log", base=2)
    ideal = known[0][1].median * streams / streams[0]
    axes.plot(streams, ideal, ls=(0, (4, 3)), color=MUTED, lw=1.2, label=f"if each stream ran like x{known[0][0]}")
    _levels(axes, streams, [rate for _, rate in known], "all streams together, measured")
    saturated = ladder.saturated_after
    if saturated is not None:
        axes.axvline(saturated.streams, color=INK, lw=1, ls=(0, (1, 2)), label=f"saturates after x{saturated.streams}")
    axes.xaxis.set_major_locator(FixedLocator(list(streams)))
    axes.xaxis.set_major_formatter(lambda value, _: f"x{value:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_ylim(bottom=0)
    axes.set_xlabel("streams")
    axes.set_ylabel("tok/s")


def _draw_depth(axes: Axes, ladder: DepthLadder) -> None:
    known = _known(ladder)
    context = np.array([tokens for tokens, _ in known], float)
    ends = np.array([0.0, context[-1] * 1.03])
    if ladder.slope is not None:
        at_zero_ms = ladder.slope.at_zero_ms
        axes.plot(ends, at_zero_ms + ladder.slope.ms * ends / 1000, color=_MEASURED, lw=1.2, label="slope, measured")
        if ladder.predicted_ms is not None:
            predicted = at_zero_ms + ladder.predicted_ms * ends / 1000
            axes.plot(ends, predicted, color=_PREDICTED, lw=1.4, ls=(0, (4, 3)), label="least slope, predicted")
    _levels(axes, context, [ms for _, ms in known], "measured", joined=False)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlabel("tokens of context before a computed one, on average")
    axes.set_ylabel("ms per token")


def _levels(axes: Axes, at: np.ndarray[Any, Any], found: list[Spread], label: str, *, joined: bool = True) -> None:
    """Draw the median of each level, and a bar from its smallest to its largest repetition."""
    medians = np.array([one.median for one in found])
    below, above = medians - [one.low for one in found], [one.high for one in found] - medians
    axes.errorbar(
        at,
        medians,
        yerr=np.vstack([below, above]),
        fmt="o-" if joined else "o",
        color=_MEASURED,
        ms=4.5,
        lw=1.4,
        elinewidth=1,
        capsize=3,
        label=f"{label} (median, min–max)",
    )
