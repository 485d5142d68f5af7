"""Opens what a person would open, in the browser that they would use."""

from __future__ import annotations

import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import pytest

from k3prof.reporters.report_html import as_html as report
from k3prof.reporters.timeline_data import timeline
from k3prof.reporters.timeline_html import as_html as timeline_page
from tests.doubles.reports import report_input
from tests.doubles.traced_trials import traced_trial
from tests.doubles.trials import gpu_trial, stand_in_trial

CHROMIUM = shutil.which("chromium")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine"),
]
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">$$x$$"


TRY_OUT = """
    const later = (ms) => new Promise((done) => setTimeout(done, ms));
    const text_of = (node) => [...node.childNodes].map((one) =>
        one.nodeType == 3 ? one.data : one.nodeName == "STYLE" ? "" : text_of(one)
    ).join(" ") + (node.shadowRoot ? text_of(node.shadowRoot) : "");
    const tooltips = (root) => [...root.querySelectorAll("*")].flatMap((one) =>
        one.shadowRoot ? [...(one.matches(".bk-Tooltip") ? [text_of(one)] : []), ...tooltips(one.shadowRoot)] : []
    );
    (async () => {
        await later(2500);
        const all = [...Bokeh.documents[0]._all_models.values()];
        const {ButtonClick} = Bokeh.require("core/bokeh_events");
        all.find((one) => one.type == "Button" && one.label == "one token").trigger_event(new ButtonClick());
        await later(800);
        const plot = all.find((one) => one.type == "Figure");
        const labels = all.find((one) => one.type == "ColumnDataSource" && "text" in one.data && "colour" in one.data);
        const {data} = labels;
        document.body.dataset.names = [...data.text].join("|");

        const view = Bokeh.index.find_one(plot);
        const area = view.canvas_view.events_el;
        const {left, top} = area.getBoundingClientRect();
        const send = (kind, x, y, more = {}) => {
            const Kind = kind == "wheel" ? WheelEvent : PointerEvent;
            area.dispatchEvent(new Kind(kind, {
                clientX: left + x, clientY: top + y, bubbles: true, composed: true, cancelable: true,
                isPrimary: true, pointerId: 1, pointerType: "mouse", ...more,
            }));
        };
        const i = data.text.indexOf("layers 0–8");
        const x = view.frame.x_scale.compute(data.x[i]), y = view.frame.y_scale.compute(data.y[i]);
        send("pointerover", x, y);
        send("pointermove", x, y);
        await later(500);
        document.body.dataset.hover = tooltips(document).join(" ");

        const span = plot.x_range, length = span.end - span.start, start = span.start;
        send("pointerdown", x, y, {button: 0, buttons: 1});
        for (let part = 1; part <= 10; part++) {
            send("pointermove", x + view.frame.bbox.width / 40 * part, y, {button: 0, buttons: 1});
            await later(20);
        }
        send("pointerup", x + view.frame.bbox.width / 4, y, {button: 0});
        await later(300);
        document.body.dataset.panned = (span.start - start) / length;
        send("wheel", x, y, {deltaY: -200});
        await later(300);
        document.body.dataset.zoomed = (span.end - span.start) / length;
    })().catch((error) => console.error(String(error)));
"""


def opened(html: str, folder: Path, *more: str) -> tuple[str, list[str]]:
    """Return the page as it stands after its scripts ran, and what it said on the console."""
    page = folder / "page.html"
    page.write_text(html, encoding="utf-8")
    options = [
        *("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"),
        *("--disable-component-update", "--disable-sync", f"--user-data-dir={folder / 'profile'}"),
        *("--enable-logging=stderr", "--window-size=1300,900", "--virtual-time-budget=8000"),
    ]
    done = subprocess.run(
        [str(CHROMIUM), *options, *(more or ["--dump-dom"]), page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    return done.stdout, [line for line in console if "[bokeh " not in line]


def with_last_words(html: str, script: str) -> str:
    head, _, tail = html.rpartition("</body>")
    return f"{head}<script>{script}</script></body>{tail}"


def test_a_report_opens_without_a_complaint(tmp_path):
    dom, complaints = opened(report(report_input(name=EVIL, evidence=EVIL)), tmp_path)
    assert complaints == []
    assert "<title>placements</title>" in dom


def test_a_timeline_opens_without_a_complaint_and_draws_its_lanes(tmp_path):
    html = timeline_page([timeline(*stand_in_trial(EVIL)), timeline(*gpu_trial())], "placements")
    dom, complaints = opened(
        with_last_words(
            html, "setTimeout(() => { document.body.dataset.drawn = String(Bokeh.documents[0].is_idle) }, 3000)"
        ),
        tmp_path,
    )
    assert complaints == []
    assert 'data-drawn="true"' in dom
    assert "<title>placements</title>" in dom


def test_the_button_for_a_token_zooms_to_the_stretch_up_close(tmp_path):
    drawn = timeline(*stand_in_trial())
    press = """
        setTimeout(() => {
          const all = [...Bokeh.documents[0]._all_models.values()];
          const button = all.find((one) => one.type == "Button" && one.label.startsWith("decode"));
          const {ButtonClick} = Bokeh.require("core/bokeh_events");
          button.trigger_event(new ButtonClick());
          setTimeout(() => {
            const plot = all.find((one) => one.type == "Figure");
            document.body.dataset.span = `${plot.x_range.start} ${plot.x_range.end}`;
            document.body.dataset.layers = plot.renderers.map((one) => Number(one.visible)).join("");
          }, 1000);
        }, 3000);
    """
    dom, complaints = opened(with_last_words(timeline_page([drawn], "x"), press), tmp_path)
    assert complaints == []
    begin_s, end_s = map(float, re.search('data-span="([^"]*)"', dom)[1].split())
    assert begin_s == pytest.approx((drawn.zoom.begin_ns - drawn.begin_ns) / 1e9)
    assert end_s == pytest.approx((drawn.zoom.end_ns - drawn.begin_ns) / 1e9)
    # Phases, their names, arrivals and gaps stay; the merged layer makes way for the one with every reading.
    assert re.search('data-layers="([^"]*)"', dom)[1].endswith("0011")


def test_a_report_can_be_printed(tmp_path):
    paper = tmp_path / "report.pdf"
    _, complaints = opened(report(report_input()), tmp_path, f"--print-to-pdf={paper}")
    assert complaints == []
    assert paper.read_bytes().startswith(b"%PDF")


def test_splits_can_be_pointed_at_moved_and_zoomed(tmp_path):
    html = timeline_page([timeline(*traced_trial(node=EVIL))], "x")
    dom, complaints = opened(with_last_words(html, TRY_OUT), tmp_path)
    assert complaints == []
    seen = {name: unescape(value) for name, value in re.findall('data-([a-z]+)="([^"]*)"', dom)}
    assert {"layers 0–8", "layers 9–17", "8"} <= set(seen["names"].split("|"))
    assert "RPC0" in seen["hover"]
    assert "layers 0–8, 1,602 nodes: norm-0 …" in seen["hover"]
    assert "6,000.0 µs" in seen["hover"]
    # The tensor's name did not run, and shows as what it is.
    assert "<img" in seen["hover"]
    assert "<title>x</title>" in dom
    assert float(seen["panned"]) == pytest.approx(-0.25, abs=0.02)
    assert 0 < float(seen["zoomed"]) < 0.95
