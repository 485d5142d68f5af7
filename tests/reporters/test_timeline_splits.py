from __future__ import annotations

import io
import json
import re
from html import unescape

import numpy as np
import pytest
from PIL import Image

from k3prof.core.device import DeviceKind
from k3prof.core.spans import SpanKind, busy_ns
from k3prof.core.timeline import Counter, PhaseKind, Series
from k3prof.reporters.palette import device_colour
from k3prof.reporters.split_picture import handovers
from k3prof.reporters.timeline_blocks import close_spans
from k3prof.reporters.timeline_data import timeline
from k3prof.reporters.timeline_html import as_html
from k3prof.reporters.timeline_png import as_png, as_svg
from tests.doubles.traced_trials import BUSY_NS, ten_minutes, token_spans, traced_trial
from tests.doubles.trials import MS, START_NS, gpu_trial
from tests.reporters.pages import Page
from tests.reporters.test_timeline_html import decoded, models

LIMIT_BYTES = 3_000_000
STAND_INS = ("RPC0", "RPC1", "RPC2")


def sources(html: str) -> list[dict]:
    return [dict(one["data"]["entries"]) for one in models(html, "ColumnDataSource")]


def shown(text: str) -> str:
    """Undo bokeh's escaping of its JSON, and then that of markup."""
    return unescape(unescape(text))


def area_ns(lane, begin_ns: int, end_ns: int) -> float:
    cut = lane.within(begin_ns, end_ns)
    return float(np.nansum(np.diff(cut.edges_ns.clip(begin_ns, end_ns)) * cut.share))


def test_a_tokens_lane_is_its_splits_to_the_nanosecond():
    trial, series, spans = traced_trial()
    drawn = timeline(trial, series, spans)
    begin_ns, end_ns = (int(one) for one in drawn.zoom.arrivals_ns[:2])
    for lane in drawn.lanes[:3]:
        assert area_ns(lane, begin_ns, end_ns) == BUSY_NS[lane.device]


def test_merged_bins_keep_the_splits_busy_time():
    drawn = timeline(*ten_minutes(200_000))
    stretch = drawn.lanes[0].exact[0]
    truth = busy_ns(drawn.spans, STAND_INS, *stretch)
    for lane in drawn.lanes[:3]:
        assert lane.share.size > 10_000
        for bins in (50, 300):
            steps = lane.thinned(bins)
            assert steps.mean.size < bins + 10
            assert np.nansum(steps.mean * np.diff(steps.edges_ns)) == pytest.approx(truth[lane.device], rel=1e-9)


def test_merged_bins_of_splits_are_of_equal_length():
    drawn = timeline(*ten_minutes(200_000))
    for lane in drawn.lanes[:3]:
        lengths_ns = np.diff(lane.thinned(300).edges_ns)[2:-2]
        assert lengths_ns.max() - lengths_ns.min() <= 1
        # A bin holds some 160 tokens, so each is about as full as any other.
        mean = lane.thinned(300).mean[2:-2]
        assert mean.max() - mean.min() < 0.02


def test_where_nothing_was_traced_the_counter_is_drawn():
    trial, series, spans = traced_trial()
    drawn, sampled = timeline(trial, series, spans), timeline(trial, series)
    warmup = next(one for one in drawn.phases if one.kind is PhaseKind.WARMUP)
    for lane, plain in zip(drawn.lanes, sampled.lanes, strict=True):
        assert area_ns(lane, warmup.begin_ns, warmup.end_ns) == area_ns(plain, warmup.begin_ns, warmup.end_ns)


def test_an_exact_stretch_has_no_paler_peak_behind_it():
    lane = timeline(*traced_trial()).lanes[0]
    steps = lane.thinned(300)
    begin_ns, end_ns = lane.exact[-1]
    inside = (steps.edges_ns[:-1] >= begin_ns) & (steps.edges_ns[1:] <= end_ns)
    assert inside.sum() > 20
    assert (steps.high[inside] == steps.mean[inside]).all()
    assert (steps.high[~inside] > steps.mean[~inside]).any()


@pytest.mark.parametrize(
    ("finished", "said"), [(True, "exact"), (False, "the host's view: ends are when the call returned")]
)
def test_the_title_says_how_exact_the_splits_are(finished, said):
    trial, series, spans = traced_trial(finished=finished)
    drawn = timeline(trial, series, spans)
    assert said in drawn.resolution_text
    assert any(said in shown(one["text"]) for one in models(as_html([drawn], "x"), "Div"))
    assert "splits" not in timeline(trial, series).resolution_text


def test_the_hosts_view_of_a_split_is_never_taken_for_busy_time():
    trial, series, spans = traced_trial(finished=False)
    for lane, plain in zip(timeline(trial, series, spans).lanes, timeline(trial, series).lanes, strict=True):
        assert lane.exact == ()
        np.testing.assert_array_equal(lane.share, plain.share)


def test_a_device_that_only_the_tracer_saw_has_a_lane():
    trial, _, spans = traced_trial()
    drawn = timeline(trial, (), spans)
    begin_ns, end_ns = (int(one) for one in drawn.zoom.arrivals_ns[:2])
    assert [area_ns(lane, begin_ns, end_ns) for lane in drawn.lanes] == [BUSY_NS[lane.device] for lane in drawn.lanes]
    assert drawn.lanes[0].within(begin_ns, end_ns).unobserved(begin_ns, end_ns) == []


def test_a_token_a_prefill_and_the_whole_run_are_one_click_each():
    html = as_html([timeline(*traced_trial())], "x")
    labels = [one["label"] for one in models(html, "Button")]
    assert labels == ["whole run", "prefill pp512", "decode, 2 tokens", "one token"]


def test_every_span_of_a_short_run_is_in_the_page():
    drawn = timeline(*traced_trial(repeat=1))
    blocks = [one for one in sources(as_html([drawn], "x")) if "took_us" in one]
    assert sum(one["begin"]["shape"][0] for one in blocks) == (drawn.spans.kind != SpanKind.PASS).sum()


def test_ten_minutes_of_splits_are_a_small_page_with_whole_tokens_behind_the_button():
    drawn = timeline(*ten_minutes())
    assert len(drawn.spans) >= 1_000_000
    html = as_html([drawn], "x")
    assert len(html.encode()) < LIMIT_BYTES
    begin_ns = np.concatenate(
        [decoded(one["begin"]) * 1e9 + drawn.begin_ns for one in sources(html) if "took_us" in one]
    )
    zoom = drawn.zoom
    truth = drawn.spans.reaching_into(zoom.begin_ns, zoom.end_ns)
    truth = truth.where(truth.kind != SpanKind.PASS)
    assert len(truth) >= 32
    assert np.abs(truth.begin_ns[:, None] - begin_ns).min(axis=1).max() < 1000


def test_many_traced_trials_with_all_counters_fit_a_page():
    trial, series, spans = traced_trial()
    time_ns = START_NS + 20 * MS * np.arange(1000)
    noise = np.random.default_rng(1).uniform(100, 200, time_ns.size)
    counters = (Counter.MEMORY_BYTES, Counter.POWER_W, Counter.PCIE_RX_BYTES_PER_S, Counter.PCIE_TX_BYTES_PER_S)
    more = [Series(name, counter, MS, time_ns, noise) for name in STAND_INS for counter in counters]
    html = as_html([timeline(trial, (*series, *more), spans)] * 16, "x")
    assert len(models(html, "TabPanel")) >= 8
    assert "Left out to keep this page small: even" in Page(html).text
    assert len(html.encode()) < LIMIT_BYTES


def test_the_stretches_up_close_are_whole_and_within_the_limit():
    drawn = timeline(*traced_trial())
    for most in (40, 100, 1000):
        close = close_spans(drawn, most)
        assert 0 < len(close.spans) <= most
        for begin_ns, end_ns in close.stretches:
            inside = drawn.spans.where(drawn.spans.kind != SpanKind.PASS)
            inside = inside.where((inside.begin_ns >= begin_ns) & (inside.begin_ns < end_ns))
            assert set(inside.begin_ns.tolist()) <= set(close.spans.begin_ns.tolist())


def test_an_svg_of_splits_is_the_same_every_time_and_small():
    drawn = timeline(*traced_trial())
    svg = as_svg(drawn)
    assert svg == as_svg(timeline(*traced_trial()))
    assert len(svg) < 500_000
    assert len(as_png(timeline(*ten_minutes()))) < 100_000


def test_the_picture_names_the_layers_of_each_turn():
    svg = as_svg(timeline(*traced_trial())).decode()
    comments = re.findall("<!-- (.*?) -->", svg)
    names = [one for one in comments if "–" in one and " [" not in one]
    # What is too narrow for the long name still has its numbers.
    assert names == ["layers 0–8"] * 3 + ["layers 9–17"] * 2 + ["18–25"] * 2


def test_up_close_one_device_is_drawn_at_a_time_and_some_twice_a_token():
    drawn = timeline(*traced_trial())
    image = np.asarray(Image.open(io.BytesIO(as_png(drawn))).convert("RGB")).astype(int)[385:510]
    stretches = []
    for position in range(2):
        colour = device_colour(DeviceKind.STAND_IN, position)
        wanted = [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
        full = (np.abs(image - wanted).max(axis=2) < 12).sum(axis=0) > 12
        stretches.append(int((np.diff(full.astype(int)) == 1).sum()))
    # RPC0 computes its layers and later the rest of its last one; RPC1 begins, goes on, and ends.
    assert stretches[0] >= 4
    assert stretches[1] >= 4


def test_the_baton_is_followed_from_device_to_device_and_back():
    token = token_spans()
    lines = handovers(token, [*STAND_INS, "CPU"], 10 * MS)
    height = {name: 3 - i + 0.42 for i, name in enumerate([*STAND_INS, "CPU"])}
    way = [height[name] for name in ("CPU", "RPC0", "RPC1", "RPC0", "RPC1", "RPC2", "RPC1", "RPC2")]
    assert lines[:, 0, 1].tolist() == pytest.approx(way[:-1])
    assert lines[:, 1, 1].tolist() == pytest.approx(way[1:])
    assert (lines[:, 1, 0] >= lines[:, 0, 0]).all()


def test_what_else_was_sampled_lies_beneath_on_the_same_axis_of_time():
    trial, series = gpu_trial()
    time_ns = START_NS + 100 * MS * np.arange(300)
    power = Series("CUDA0", Counter.POWER_W, 100 * MS, time_ns, np.full(300, 150.0))
    received = Series("CUDA0", Counter.PCIE_RX_BYTES, 100 * MS, time_ns, 2.5e8 * np.arange(300))
    html = as_html([timeline(trial, (*series, power, received))], "x")
    assert [one["text"] for one in models(html, "Title") if one.get("text")] == ["power, W", "PCIe received, GB/s"]
    heights = [set(decoded(line).tolist()) for one in sources(html) if "device" in one for line in one["y"]]
    assert {150.0} in heights
    assert {2.5} in heights
    assert len(models(html, "Figure")) == 3
    assert len([one for one in models(html, "Range1d") if "bounds" in one]) == 1


def test_names_of_tensors_and_devices_cannot_break_out_of_the_page():
    evil = "</script><script>alert(1)</script>"
    html = as_html([timeline(*traced_trial(node=evil))], "x")
    assert "<script>alert" not in html
    assert Page(html).tags.count("script") == Page(as_html([timeline(*traced_trial())], "x")).tags.count("script")
    assert evil in unescape(json.dumps(models(html, "CustomJSHover")))
