from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from k3prof.core.probes.probe import Answer, Outcome
from k3prof.core.probes.questions import PROBES, SET_VERSION
from k3prof.core.probes.report import EarlierAnswer, EarlierReport, ProbeReport, compare
from k3prof.core.probes.verdict import judge, judge_answer
from k3prof.reporters.probe_json import as_json
from k3prof.reporters.probe_markdown import as_markdown
from k3prof.reporters.probe_table import ProbeTable

HOSTILE = "Paris \x1b[31mred\x1b]0;title\x07 | `x` <script>alert(1)</script> \u202egnp"


def report(**given) -> ProbeReport:
    answers = [Answer(HOSTILE), Answer(""), Answer(None, "HTTP 500: \x1b[2Jno"), *[Answer("x")] * (len(PROBES) - 3)]
    results = tuple(map(judge_answer, PROBES, answers))
    fields = {
        "model": "evil\x1b[31m|name.gguf",
        "build": "default (b1)",
        "devices": "CPU",
        "has_template": False,
        "results": results,
        "judgement": judge(results),
        "decode_tokens_per_s": 7.1,
        "decode_tokens": 64,
        "set_version": SET_VERSION,
        "notes": ("a note",),
    }
    return ProbeReport(**{**fields, **given})


def drawn(given: ProbeReport, width: int = 100) -> str:
    console = Console(file=io.StringIO(), width=width)
    console.print(ProbeTable(given))
    return console.file.getvalue()


@pytest.mark.parametrize("shown", [drawn(report()), as_markdown(report())])
def test_what_the_model_says_cannot_act_on_whoever_reads_it(shown):
    assert not any(sign in shown for sign in ("\x1b", "\x07", "\u202e"))
    assert "Paris" in shown


def test_markdown_keeps_answers_in_code_and_their_markup_asleep():
    page = as_markdown(report())
    assert "```text\nParis red | `x` <script>" in page
    assert "# Is evil\\|name.gguf broken?" in page


def test_the_verdict_and_the_speed_stand_together():
    text = " ".join(drawn(report()).split())
    assert f"{report().judgement.verdict}: " in text
    assert "It generates 7.10 tok/s" in text
    assert "a note" in text


def test_a_speed_that_was_not_measured_is_unknown():
    unknown = report(decode_tokens_per_s=None)
    assert "Speed unknown" in drawn(unknown)
    assert as_json(unknown)["decode_tokens_per_s"] is None
    assert "tok/s" not in as_markdown(unknown)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(len(line) for line in drawn(report(), width).splitlines()) <= width


def test_json_holds_the_raw_answer_and_nothing_for_none():
    given = json.loads(json.dumps(as_json(report()), allow_nan=False))
    assert [one["answer"] for one in given["probes"][:3]] == [HOSTILE, "", None]
    assert given["probes"][2]["outcome"] == "unanswered"
    assert given["total"]["asked"] == len(PROBES)


def test_changes_are_shown_with_both_answers():
    before = {PROBES[1].id: EarlierAnswer(Outcome.PASS, "Tok\x1b[31myo")}
    earlier = EarlierReport("before.json", SET_VERSION + 1, "sound", before)
    changed = replace(report(), comparison=compare(report().results, earlier))
    for shown in (drawn(changed), as_markdown(changed)):
        text = " ".join(shown.split())
        assert "1 probe changed" in text
        assert "Tokyo" in text
        assert "Sets of probes differ" in text
    assert as_json(changed)["comparison"]["changed"][0]["before"] == "pass"
