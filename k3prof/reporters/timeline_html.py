"""The timeline as one offline page to move and zoom in, from a whole run down to a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bokeh.embed import components
from bokeh.layouts import column, row
from bokeh.models import Button, CustomJS, Div, TabPanel, Tabs
from bokeh.resources import Resources
from markupsafe import Markup, escape

from k3prof.core.timeline import PhaseKind
from k3prof.reporters import formats, legend, pages
from k3prof.reporters.palette import INK
from k3prof.reporters.timeline_counters import counter_plots, quantities_sampled
from k3prof.reporters.timeline_data import Timeline, describe_devices, first_phase
from k3prof.reporters.timeline_plot import plot_of, since_start_s
from k3prof.reporters.untrusted import one_line

_TRIALS = 16
_LANES_IN_ALL = 96
_STEPS_IN_ALL = 28_000
_ARRIVALS_IN_ALL = 8_000
_STEPS_BESIDE_SPANS = 14_000
_SPANS_IN_ALL = 10_000
_COUNTER_STEPS_IN_ALL = 12_000
_ROOM_KIB = 960
_PLOT_KIB = 46
_BLOCKS_KIB = 20
_COUNTER_KIB = 8
"""What bokeh needs to describe a plot, its splits and a counter beneath it, whatever their data."""
_LEFT_PX = 64
_RIGHT_PX = 40


@dataclass(frozen=True)
class _Limits:
    """How much is drawn of one trial, so that all of them fit a page."""

    steps: int
    arrivals: int
    spans: int
    counter_steps: int


def as_html(drawn: Sequence[Timeline], title: str) -> str:
    """Return a page with one timeline, or with a tab for each of several.

    Steps are merged for drawing when there are many, without changing any mean; the stretches behind the buttons
    keep every reading, or every split where those were traced. The page needs no network and stays under 3 MB: beyond
    some trials, the rest are named only.
    """
    most_lanes = max((len(one.lanes) for one in drawn), default=1)
    most_kib = max(map(_fixed_kib, drawn), default=1)
    count = max(min(len(drawn), _TRIALS, _LANES_IN_ALL // most_lanes, _ROOM_KIB // most_kib), 1)
    shown, left_out = drawn[:count], drawn[count:]
    steps = _STEPS_BESIDE_SPANS if any(len(one.spans) for one in shown) else _STEPS_IN_ALL
    limits = _Limits(*(n // count for n in (steps, _ARRIVALS_IN_ALL, _SPANS_IN_ALL, _COUNTER_STEPS_IN_ALL)))
    panels = [_panel(one, limits) for one in shown]
    tabs = [TabPanel(child=panel, title=_tab(one, drawn)) for panel, one in zip(panels, shown, strict=True)]
    script, plot = components(panels[0] if len(panels) == 1 else Tabs(tabs=tabs, sizing_mode="stretch_width"))
    resources = Resources(mode="inline", components=["bokeh", "bokeh-widgets"])
    # Bokeh's own source and markup; names and figures in its script are JSON in which no tag can end.
    libraries, plot, script = [Markup(one) for one in resources.js_raw], Markup(plot), Markup(script)  # noqa: S704
    return pages.render(
        "timeline.html",
        title=one_line(title),
        libraries=libraries,
        plot=plot,
        script=script,
        left_out=", ".join(_tab(one, drawn) for one in left_out),
        legend=legend.lines(splits=any(len(one.spans) for one in shown)),
    )


def _tab(one: Timeline, drawn: Sequence[Timeline]) -> str:
    name = one_line(one.summary.placement)
    same = [other for other in drawn if other.summary.placement == one.summary.placement]
    return f"{name} (trial {one.trial.id})" if len(same) > 1 else name


def _fixed_kib(drawn: Timeline) -> int:
    return _PLOT_KIB + _BLOCKS_KIB * (len(drawn.spans) > 0) + _COUNTER_KIB * quantities_sampled(drawn)


def _panel(drawn: Timeline, limits: _Limits) -> Any:  # noqa: ANN401
    plot = plot_of(drawn, limits.steps, limits.arrivals, limits.spans)
    beneath = counter_plots(drawn, plot.x_range, limits.counter_steps)
    for one in (plot, *beneath):
        one.min_border_left, one.min_border_right = _LEFT_PX, _RIGHT_PX
    return column(_caption(drawn), row(*_buttons(drawn, plot.x_range)), plot, *beneath, sizing_mode="stretch_width")


def _buttons(drawn: Timeline, span: Any) -> list[Any]:  # noqa: ANN401
    wanted = [("whole run", drawn.begin_ns, drawn.end_ns)]
    prefill = first_phase(drawn, PhaseKind.PREFILL, "pp")
    if prefill is not None:
        margin_ns = (prefill.end_ns - prefill.begin_ns) // 20
        wanted.append((f"prefill {prefill.workload}", prefill.begin_ns - margin_ns, prefill.end_ns + margin_ns))
    if drawn.zoom is not None:
        wanted.append((f"decode, {drawn.zoom.tokens} tokens", drawn.zoom.begin_ns, drawn.zoom.end_ns))
    if drawn.zoom is not None and len(drawn.spans):
        margin_ns, first_ns = int(drawn.zoom.token_ns / 20), int(drawn.zoom.arrivals_ns[0])
        wanted.append(("one token", first_ns - margin_ns, first_ns + int(drawn.zoom.token_ns) + margin_ns))
    buttons = []
    for label, begin_ns, end_ns in wanted:
        go = CustomJS(
            args={"span": span, "begin": since_start_s(drawn, begin_ns), "end": since_start_s(drawn, end_ns)},
            code="span.setv({start: begin, end: end});",
        )
        button = Button(label=label, button_type="default", width_policy="min")
        button.js_on_event("button_click", go)
        buttons.append(button)
    return buttons


def _caption(drawn: Timeline) -> Any:  # noqa: ANN401
    figures = [
        f"{found.workload.name}: {formats.rate_with_unit(found.rate)}, "
        f"P = {formats.degree(found.parallelism)} {formats.interval(found.parallelism)}".rstrip()
        for found in drawn.summary.workloads
    ]
    what = f"{drawn.model} on {describe_devices(drawn.trial.devices)}, {drawn.resolution_text}"
    standing = formats.standing(drawn.trial.outcome)
    parts = [
        f"<b>{escape(one_line(drawn.summary.placement))}</b>",
        *(escape(one_line(t)) for t in (what, standing) if t),
    ]
    return Div(
        text="<br>".join([*parts, escape(" · ".join(figures))]),
        disable_math=True,
        sizing_mode="stretch_width",
        styles={"font": "15px/1.5 system-ui, sans-serif", "color": INK, "margin-top": "10px"},
    )
