from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from k3prof.reporters.refutation_input import Effort
from k3prof.reporters.refutation_table import RefutationTable
from tests.doubles.verdicts import everywhere, refutation_report, turns

GOLDEN = Path(__file__).parent / "golden"
EVIL = "[red]x[/red] [link=http://evil]y[/link] \x1b[2J\x1b]0;owned\x07\r\n<b>|`*"


def drawn(report, width, **options) -> str:
    out = io.StringIO()
    Console(file=out, width=width, **options).print(RefutationTable(report))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


def joined(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [80, 140])
def test_the_table_looks_as_agreed(width):
    assert drawn(refutation_report(), width) == (GOLDEN / f"refutation-{width}.txt").read_text()


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 240])
def test_no_line_is_wider_than_the_terminal(width):
    for report in (refutation_report(), everywhere(refutation_report(), "x" * 90)):
        assert max(map(len, drawn(report, width).splitlines())) <= width


@pytest.mark.parametrize("width", [80, 140])
def test_every_figure_stands_whole_at_usual_widths(width):
    text = drawn(refutation_report(), width)
    for figures in ("1.281 [1.270, 1.292]", "0.965 [0.947, 0.983]", "outside 0.952 to 1.05", "? inconclusive"):
        assert figures in text


def test_an_earlier_verdict_is_struck_through_and_says_what_replaced_it():
    styled = drawn(refutation_report(), 200, force_terminal=True)
    assert "\x1b[2;9m? inconclusive" in styled
    text = joined(drawn(refutation_report(), 80))
    assert "replaced by ✗ refuted: prediction changed after data was seen: was [0.9, 0.995]" in text


def test_void_blocks_and_doubts_come_with_their_reasons():
    text = joined(drawn(refutation_report(), 80))
    assert "round 5 is void: even, leg 3: the server's process was throttled for 212 ms" in text
    assert "Remedy: raise warmup in sweep.toml" in text


def test_what_it_took_is_unknown_where_nobody_knows():
    report = replace(refutation_report(), effort=Effort(1, 4, 4, None, None, "every verdict is final"))
    text = joined(drawn(report, 80))
    assert "time unknown, cost unknown; stopped because every verdict is final" in text
    assert "$" not in text


def test_stand_in_devices_are_called_so():
    assert "stand-in devices" in drawn(refutation_report(), 80)
    assert "stand-in" not in drawn(refutation_report((turns(),), stand_ins=False), 80)


def test_terminal_sequences_and_markup_stay_text():
    text = drawn(everywhere(refutation_report(), EVIL), 120)
    assert "\x1b" not in text and "\x07" not in text and "\r" not in text
    assert "[red]x[/red]" in text
    assert "\x1b]8;" not in drawn(everywhere(refutation_report(), EVIL), 120, force_terminal=True)


def test_no_hypothesis_is_no_traceback():
    assert "No hypothesis was judged." in drawn(refutation_report(()), 80)
