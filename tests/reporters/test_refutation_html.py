from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.refutation.verdict import Ruling
from k3prof.reporters.refutation_html import as_html
from k3prof.reporters.refutation_legend import READING
from tests.doubles.verdicts import command, cpu_experts, crossings, eight, everywhere, kernel, refutation_report, turns
from tests.reporters.pages import Page, refers_outside


@pytest.fixture(scope="module")
def html() -> str:
    return as_html(refutation_report())


def text_of(html: str) -> str:
    return " ".join(Page(html).text.split())


def test_the_page_is_one_small_file_without_script_or_outside_references(html):
    page = Page(html)
    assert refers_outside(page) == []
    assert "script" not in page.tags
    assert len(html.encode()) < 1_000_000
    assert "default-src 'none'" in html


def test_links_within_the_page_lead_somewhere(html):
    links = [one for one in Page(html).references if one.startswith("#")]
    assert len(links) == len(eight())
    for link in links:
        assert f'id="{link[1:]}"' in html


def test_it_answers_first_and_then_explains(html):
    text = text_of(html)
    order = [
        *("what is the ceiling?", "Of 8 hypotheses, 5 are refuted, 1 is supported, 2 are inconclusive."),
        *("stand-in devices: processes on this machine's processor", "How to read this", "What the ceiling is not"),
        *("What holds", "What remains", "The noise of this rig", "The hypotheses, one by one", "What was run"),
    ]
    places = [text.index(words) for words in order]
    assert places == sorted(places)


def test_a_stranger_is_told_what_every_term_means(html):
    text = text_of(html)
    for name, meaning in READING:
        assert f"{name}{meaning}" in text


def test_each_hypothesis_shows_all_that_decided_it(html):
    text = text_of(html)
    for row in eight():
        found = row.verdict
        for said in (
            *(found.hypothesis.claim, found.hypothesis.because, found.hypothesis.digest, found.rule, *found.reasons),
            *(void.reason for void in found.evidence.voided),
            *(caveat.message for caveat in found.evidence.caveats),
            *(row.metric_about, row.note, found.evidence.obstacle),
        ):
            assert said in text
        if found.ruling is Ruling.REFUTED:
            assert found.hypothesis.if_refuted in text


def test_what_was_measured_has_a_picture_with_words(html):
    assert html.count('src="data:image/svg+xml;base64,') == 7
    assert 'alt="tg of experts-8 / tg of experts-16, in tg128: 1.281 [1.270, 1.292]; predicted 1.6 to 2.0.' in html


def test_an_earlier_verdict_is_struck_through_and_says_what_replaced_it(html):
    assert "<del>? inconclusive: 1.000 [0.987, 1.013], predicted 0.900 to 0.995</del>" in html
    assert "replaced by ✗ refuted: prediction changed after data was seen: was [0.9, 0.995]" in text_of(html)


def test_of_several_earlier_verdicts_each_names_the_next():
    row = crossings()
    (oldest,) = row.history
    middle = replace(oldest, verdict=replace(turns().verdict), why="measured on another build")
    text = text_of(as_html(refutation_report((replace(row, history=(oldest, middle)),))))
    assert "replaced by ✓ supported: prediction changed" in text
    assert "replaced by ✗ refuted: measured on another build" in text


def test_single_figures_look_weaker_than_replicated_ones():
    weak, strong = (as_html(refutation_report((row,))) for row in (kernel(), cpu_experts()))
    assert 'class="hypothesis refuted weak"' in weak
    assert "✗ refuted, unreplicated" in text_of(weak)
    assert 'class="hypothesis refuted"' in strong
    assert "unreplicated" not in text_of(strong)


def test_every_placement_shows_its_exact_command_or_that_it_is_unknown(html):
    text = text_of(html)
    for placement in ("experts-16", "experts-8", "autofit", "n-cpu-moe-86", "even"):
        assert f"GGML_OP_OFFLOAD_MIN_BATCH=64 {' '.join(command(placement).argv)}" in text
    assert text.count("The command of its servers is unknown.") == 2


def test_hostile_text_is_shown_and_does_nothing():
    evil = "</pre><script>alert(1)</script><img src=http://evil onerror=alert(1)>|[red]\x1b[31m{{ 7 * 7 }}"
    page = Page(as_html(everywhere(refutation_report(), evil)))
    assert refers_outside(page) == []
    assert "script" not in page.tags
    assert page.text.count("<script>alert(1)</script>") >= 50
    assert "\x1b" not in page.text
    assert "{{ 7 * 7 }}" in page.text


def test_nothing_judged_has_a_page():
    text = text_of(as_html(refutation_report((), noise=(), unix_ns=None)))
    assert "No hypothesis was judged." in text
    assert "whenunknown" in text
