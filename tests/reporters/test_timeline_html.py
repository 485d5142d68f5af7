from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from k3prof.reporters.timeline_data import timeline
from k3prof.reporters.timeline_html import as_html
from tests.doubles.trials import failed_trial, gpu_trial, million_sample_trial, stand_in_trial
from tests.reporters.pages import Page, refers_outside

LIMIT_BYTES = 3_000_000


def models(html: str, kind: str) -> list[dict]:
    """Return the attributes of every bokeh model of a kind, from the JSON in the page's last script."""
    text = re.search(r"const docs_json = '(.*?)';\n", html, re.DOTALL)[1]
    document = json.loads(text.replace("\\'", "'").replace("\\\\", "\\"))

    def walk(value):
        if isinstance(value, dict):
            if value.get("type") == "object" and value.get("name") == kind:
                yield value.get("attributes", {})
            for one in value.values():
                yield from walk(one)
        elif isinstance(value, list):
            for one in value:
                yield from walk(one)

    return list(walk(document))


def decoded(column: dict) -> np.ndarray:
    return np.frombuffer(gzip.decompress(base64.b64decode(column["array"]["data"])), dtype=column["dtype"])


def drawn_busy_s(html: str) -> list[list[float]]:
    """Return, for each layer of each trial, the seconds that each lane is drawn busy."""
    found = []
    for source in models(html, "ColumnDataSource"):
        columns = dict(source["data"]["entries"])
        if "mean" in columns and columns["mean"]["shape"][0]:
            begin, end, mean, lane = (decoded(columns[name]) for name in ("begin", "end", "mean", "lane"))
            found.append([float(((end - begin) * mean)[lane == i].sum()) for i in np.unique(lane)])
    return found


def test_the_page_needs_nothing_from_outside_and_is_small():
    html = as_html([timeline(*stand_in_trial())], "placements")
    assert refers_outside(Page(html)) == []
    assert len(html.encode()) < LIMIT_BYTES
    assert "default-src 'none'" in html


def test_the_drawn_time_is_the_measured_time_in_both_layers():
    drawn = timeline(*stand_in_trial())
    busy_s = [float((lane.share * np.diff(lane.edges_ns)).sum() / 1e9) for lane in drawn.lanes]
    layers = drawn_busy_s(as_html([drawn], "x"))
    assert len(layers) == 2
    for layer in layers:
        assert layer == pytest.approx(busy_s, rel=1e-5)


def test_a_million_samples_stay_small_and_keep_their_sum():
    trial, series = million_sample_trial()
    drawn = timeline(trial, series)
    html = as_html([drawn], "x")
    assert len(html.encode()) < LIMIT_BYTES
    busy_s = [float((lane.share * np.diff(lane.edges_ns)).sum() / 1e9) for lane in drawn.lanes]
    for layer in drawn_busy_s(html):
        assert layer == pytest.approx(busy_s, rel=1e-5)


def test_readings_up_close_are_not_merged():
    trial, series = million_sample_trial(200_000)
    drawn = timeline(trial, series)
    lane, zoom = drawn.lanes[0], drawn.zoom
    close = lane.within(zoom.begin_ns, zoom.end_ns)
    sources = [dict(one["data"]["entries"]) for one in models(as_html([drawn], "x"), "ColumnDataSource")]
    near = max((one for one in sources if "mean" in one), key=lambda one: one["mean"]["shape"][0])
    begin_ns = decoded(near["begin"])[decoded(near["lane"]) == 0] * 1e9 + drawn.begin_ns
    nearest = np.abs(close.edges_ns[:-1, None] - begin_ns[None, :]).min(axis=1)
    assert nearest.max() < 1000
    assert close.share.size > 50


def test_several_trials_stand_behind_tabs_with_buttons():
    html = as_html([timeline(*stand_in_trial("even")), timeline(*gpu_trial("layers"))], "x")
    assert [one["title"] for one in models(html, "TabPanel")] == ["even", "layers"]
    labels = [one["label"] for one in models(html, "Button")]
    assert labels == ["whole run", "prefill pp512", "decode, 10 tokens"] * 2


def test_trials_of_one_placement_are_told_apart_by_number():
    html = as_html([timeline(*stand_in_trial("even", number=i)) for i in (3, 4)], "x")
    assert [one["title"] for one in models(html, "TabPanel")] == ["even (trial 3)", "even (trial 4)"]


def test_beyond_what_fits_trials_are_named_not_forgotten():
    one = timeline(*stand_in_trial(repeat=1))
    many = [replace(one, summary=replace(one.summary, placement=f"matrix-{i}")) for i in range(20)]
    html = as_html(many, "x")
    assert len(html.encode()) < LIMIT_BYTES
    text = Page(html).text
    assert all(f"matrix-{i}" in text for i in range(16, 20))


def test_names_cannot_break_out_of_the_page():
    evil = "</script><script>alert(1)</script><img src=x onerror=alert(1)>"
    html = as_html([timeline(*stand_in_trial(evil)), timeline(*stand_in_trial("$$x$$", number=2))], evil)
    page = Page(html)
    assert "img" not in page.tags
    assert page.tags.count("script") == Page(as_html([timeline(*stand_in_trial())], "x")).tags.count("script")
    assert "<script>alert" not in html
    assert evil in page.text


def test_a_failed_trial_has_a_page_that_says_so():
    html = as_html([timeline(*failed_trial())], "x")
    assert any("failed: out of memory" in one["text"] for one in models(html, "Div"))
    assert [one["label"] for one in models(html, "Button")] == ["whole run"]
