from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.machine.gpu import GpuPath
from k3prof.core.spans import SplitMode
from k3prof.core.summary import summarize_trial
from k3prof.core.trial import Caveat
from k3prof.reporters.report_html import as_html
from k3prof.reporters.report_markdown import as_markdown
from tests.doubles.reports import command, report_input
from tests.doubles.trials import million_sample_trial, stand_in_trial
from tests.reporters.pages import Page, refers_outside


@pytest.fixture(scope="module")
def html() -> str:
    return as_html(report_input())


def test_the_page_is_one_small_file_without_script_or_outside_references(html):
    page = Page(html)
    assert refers_outside(page) == []
    assert "script" not in page.tags
    assert len(html.encode()) < 3_000_000
    assert "default-src 'none'" in html


def test_links_within_the_page_lead_somewhere(html):
    page = Page(html)
    for reference in page.references:
        if reference.startswith("#"):
            assert f'id="{reference[1:]}"' in html


def test_it_answers_first_and_then_explains(html):
    text = " ".join(Page(html).text.split())
    order = [
        *("placements", "kimi-k3-demo.gguf · 3 stand-in devices · 2026-09-21 14:13 UTC"),
        *("Fastest of 3 placements in tg128: experts-8", "Ranking", "What P says here", "does not prove"),
        *("stand-in devices: processes on this machine's processor", "Placements", "Failed, void or interrupted"),
        *("What was run", "How it was measured"),
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_failed_placements_are_there_with_the_quoted_log_line(html):
    text = Page(html).text
    assert "failed: out of memory. RPC1 has no room for the weights" in text
    assert "failed to allocate 41231.00 MiB on RPC1" in text
    assert "failed: stalled" in text


def test_caveats_come_with_their_remedies(html):
    text = Page(html).text
    assert "no-plateau" in text
    assert "raise warmup in sweep.toml" in text


def test_every_placement_shows_its_exact_command_and_environment(html):
    text = Page(html).text
    for placement in ("even", "uneven", "experts-8", "all-on-one", "autofit"):
        assert f"GGML_OP_OFFLOAD_MIN_BATCH=64 {' '.join(command(placement))}" in text


def test_a_placement_that_ran_shows_its_timeline(html):
    assert html.count('src="data:image/png;base64,') == 3


def test_it_says_what_was_run_and_how_it_was_measured(html):
    text = " ".join(Page(html).text.split())
    for words in (
        *("8c1f0a52e6d94b37", "0.5.0-dev (build 1, commit 0c1e570)", "-DGGML_RPC=ON", "AMD EPYC, 2 cores"),
        *('model = "demo:k3"', "read every 5 ms", "sampler latenessmedian", "3 of each workload"),
    ):
        assert words in text


def test_hostile_names_and_log_lines_are_shown_and_do_nothing():
    evil = "</pre><script>alert(1)</script><img src=http://evil onerror=alert(1)>|[red]\x1b[31m{{ 7 * 7 }}"
    page = Page(as_html(report_input(name=evil, title=evil, evidence=evil)))
    assert refers_outside(page) == []
    assert "script" not in page.tags
    assert page.text.count("<script>alert(1)</script>") >= 4
    assert "\x1b" not in page.text
    assert "{{ 7 * 7 }}" in page.text


def test_a_million_samples_make_a_report_under_three_megabytes():
    trial, series = million_sample_trial()
    given = report_input()
    given = replace(given, trials=[trial], series={trial.id: series}, summaries=[summarize_trial(trial, series)])
    assert len(as_html(given).encode()) < 3_000_000


def test_pictures_beyond_the_limit_are_said_to_be_left_out(monkeypatch):
    monkeypatch.setattr("k3prof.reporters.report_html._PICTURES_BYTES", 60_000)
    html = as_html(report_input())
    assert html.count('src="data:image/png;base64,') == 1
    assert html.count("left out to keep this page small") == 2


def test_an_empty_sweep_has_a_report():
    given = replace(report_input(), summaries=[], trials=[], series={}, commands={}, builds=[], host={}, anchor=None)
    text = Page(as_html(given)).text
    assert "Nothing was measured." in text


def test_what_is_unknown_is_called_so():
    given = replace(report_input(), anchor=None, commands={})
    text = Page(as_html(given)).text
    assert "The server's command is unknown." in text


def shared(given):
    lacking = Caveat("counters-missing", "not offered by the driver: CUDA0: energy_j", "these stay unknown")
    return replace(given, summaries=[replace(one, caveats=(*one.caveats, lacking)) for one in given.summaries])


@pytest.mark.parametrize("write", [as_html, as_markdown])
def test_what_makes_all_placements_doubtful_is_told_once(write):
    text = write(shared(report_input()))
    assert text.count("counters-missing") == 1
    assert text.index("Reasons to doubt all of these figures") < text.index("counters-missing")
    assert text.count("no-plateau") == 1


def test_the_ways_between_gpus_stand_among_what_was_run():
    paths = [GpuPath("CUDA0", "CUDA1", "over one PCIe switch (PIX); peer access: none")]
    text = Page(as_html(replace(report_input(), gpu_paths=paths))).text
    assert "CUDA0–CUDA1: over one PCIe switch (PIX); peer access: none" in text[text.index("What was run") :]
    assert "paths between GPUs" not in Page(as_html(report_input())).text


def traced_exactly(trial):
    return replace(trial, spec=replace(trial.spec, splits=SplitMode.EXACT))


def test_p_of_a_prefill_whose_splits_were_waited_for_is_unknown_and_says_why():
    trial, series = stand_in_trial()
    traced = traced_exactly(trial)
    given = replace(report_input(), trials=[traced], series={1: series}, summaries=[summarize_trial(traced, series)])
    text = " ".join(Page(as_html(given)).text.split())
    assert "In pp512 P is unknown: the exact split tracer waited for each split" in text
    assert "splits-in-turn: pp512: P is unknown" in text
    assert "In tg128 P was" in text
