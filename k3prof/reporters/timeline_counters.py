"""Small lanes below a timeline for what else was sampled: memory, power, PCIe."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from bokeh.models import ColumnDataSource, HoverTool, PrintfTickFormatter, Range1d
from bokeh.plotting import figure

from k3prof.core.thinning import thin_steps
from k3prof.core.timeline import Counter, Series, busy_steps
from k3prof.reporters.palette import FAINT, INK, MUTED, device_colour
from k3prof.reporters.timeline_data import Timeline
from k3prof.reporters.untrusted import one_line

_HEIGHT_PX = 84
_STEPS = 400
_FEWEST_STEPS = 8


@dataclass(frozen=True)
class _Quantity:
    """Counters that mean one thing; of those that a device has, the first is shown."""

    name: str
    unit: str
    counters: tuple[Counter, ...]
    unit_size: float
    """One of the shown unit in the counter's; for cumulative ones per nanosecond."""


_QUANTITIES = (
    _Quantity("memory", "GiB", (Counter.MEMORY_BYTES,), 2**30),
    _Quantity("power", "W", (Counter.POWER_INSTANT_W, Counter.POWER_W), 1),
    _Quantity("PCIe received", "GB/s", (Counter.PCIE_RX_BYTES,), 1),
    _Quantity("PCIe sent", "GB/s", (Counter.PCIE_TX_BYTES,), 1),
    _Quantity("PCIe received", "GB/s", (Counter.PCIE_RX_BYTES_PER_S,), 1e9),
    _Quantity("PCIe sent", "GB/s", (Counter.PCIE_TX_BYTES_PER_S,), 1e9),
)


def counter_plots(drawn: Timeline, span: Any, steps: int) -> list[Any]:  # noqa: ANN401
    """Return a bokeh figure over the given range of time for each quantity that was sampled of a lane's device.

    Readings are merged to their means, about `steps` in all figures together.
    """
    chosen = [[_series(drawn, lane.device, quantity) for lane in drawn.lanes] for quantity in _QUANTITIES]
    lines = sum(one is not None for of_quantity in chosen for one in of_quantity)
    bins = max(min(_STEPS, steps // max(lines, 1)), _FEWEST_STEPS)
    return [
        _plot(drawn, span, quantity, of_quantity, bins)
        for quantity, of_quantity in zip(_QUANTITIES, chosen, strict=True)
        if any(one is not None for one in of_quantity)
    ]


def quantities_sampled(drawn: Timeline) -> int:
    """Return how many figures there would be."""
    return sum(any(_series(drawn, lane.device, one) for lane in drawn.lanes) for one in _QUANTITIES)


def _series(drawn: Timeline, device: str, quantity: _Quantity) -> Series | None:
    found = {one.counter: one for one in drawn.series if one.device == device and one.time_ns.size > 1}
    return next((found[counter] for counter in quantity.counters if counter in found), None)


def _plot(
    drawn: Timeline,
    span: Any,  # noqa: ANN401
    quantity: _Quantity,
    chosen: Sequence[Series | None],
    bins: int,
) -> Any:  # noqa: ANN401
    plot = figure(
        height=_HEIGHT_PX,
        sizing_mode="stretch_width",
        x_range=span,
        tools="xpan,xwheel_zoom",
        active_scroll="xwheel_zoom",
        active_drag="xpan",
        toolbar_location=None,
        title=f"{quantity.name}, {quantity.unit}",
    )
    lines: dict[str, list[Any]] = {"x": [], "y": [], "device": [], "colour": []}
    for position, (lane, series) in enumerate(zip(drawn.lanes, chosen, strict=True)):
        if series is None:
            continue
        edges_ns, value = busy_steps(series, drawn.begin_ns, drawn.end_ns)
        mean = thin_steps(edges_ns, value / quantity.unit_size, bins)
        lines["x"].append(np.repeat((mean.edges_ns - drawn.begin_ns) / 1e9, 2)[1:-1])
        lines["y"].append(np.repeat(mean.mean, 2).astype(np.float32))
        lines["device"].append(one_line(lane.device))
        lines["colour"].append(device_colour(lane.kind, position))
    drawn_lines = plot.multi_line("x", "y", source=ColumnDataSource(lines), line_color="colour", line_width=1.5)
    tooltips = [
        ("device", "@device"),
        (quantity.name, f"$snap_y{{0,0.000}} {quantity.unit}"),
        ("at", "$snap_x{0.000} s"),
    ]
    plot.add_tools(HoverTool(renderers=[drawn_lines], tooltips=tooltips, line_policy="prev", visible=False))
    highest = max((float(np.nan_to_num(one).max(initial=0)) for one in lines["y"]), default=0.0)
    plot.y_range = Range1d(0, 1.1 * highest or 1)
    _dress(plot)
    return plot


def _dress(plot: Any) -> None:  # noqa: ANN401
    plot.title.text_font_size, plot.title.text_font_style, plot.title.text_color = "12px", "normal", INK
    plot.yaxis.ticker.desired_num_ticks = 2
    plot.yaxis.formatter = PrintfTickFormatter(format="%.3g")
    plot.yaxis.major_label_text_color = MUTED
    plot.xaxis.visible = False
    for axis in (plot.xaxis, plot.yaxis):
        axis.axis_line_color = axis.minor_tick_line_color = axis.major_tick_line_color = None
    plot.xgrid.grid_line_color = FAINT
    plot.ygrid.grid_line_color = None
    plot.outline_line_color = None
