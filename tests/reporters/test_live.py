from __future__ import annotations

import io
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from k3prof.core.trial import TrialStatus
from k3prof.reporters.live import FinishedStep, ProgressRow, SweepProgress, new_lines, render, summary_line
from k3prof.reporters.sweep_display import SweepDisplay

BUSY = {"RPC0": 0.28, "RPC1": 0.24, "RPC2": None, "CPU": 1.0}
LOAD, DECODE = FinishedStep("load", 2.13), FinishedStep("tg128", 12.2, 33.31)
EVEN = ProgressRow("even", TrialStatus.OK, rate=33.31, finished=(LOAD, DECODE))
LOST = ProgressRow("all-on-one", TrialStatus.FAILED, note="out of memory: RPC1 has no room")
RUNNING = ProgressRow("uneven", TrialStatus.RUNNING, "tg128 2/3", 34.4, BUSY, finished=(LOAD,))
WAITING = ProgressRow("[red]last[/red]")
SWEEP = SweepProgress((EVEN, LOST, RUNNING, WAITING), 81.2, 132, 0.0497)


def drawn(progress, width=80, height=24) -> list[str]:
    out = io.StringIO()
    Console(file=out, width=width, height=height, force_terminal=True, color_system=None).print(render(progress))
    return [line.rstrip() for line in out.getvalue().splitlines()]


def test_the_table_shows_where_each_placement_stands():
    text = "\n".join(drawn(SWEEP))
    assert text == "\n".join(
        [
            "",
            " placement        phase                     tok/s   RPC0   RPC1  RPC2    CPU",
            " ────────────────────────────────────────────────────────────────────────────",
            " even             done                      33.31",
            " all-on-one       failed: out of memory…",
            " uneven           tg128 2/3                 34.40  ▂ 28%  ▂ 24%     ?  █100%",
            " [red]last[/red]  waiting",
            "",
            " 2 of 4 placements · 1 min 21 s elapsed · about 2 min 12 s left · $0.050 so far",
        ]
    )


def test_a_wide_terminal_has_room_for_the_reason():
    assert any("out of memory: RPC1 has no room" in line for line in drawn(SWEEP, width=160))


@pytest.mark.parametrize("width", [40, 60, 80, 160])
@pytest.mark.parametrize("height", [10, 24])
def test_the_table_fits_the_terminal(width, height):
    rows = [replace(WAITING, placement=f"matrix-{i}") for i in range(60)]
    rows[40] = replace(RUNNING, placement="the-one-that-runs")
    lines = drawn(SweepProgress(rows, 10), width, height)
    assert max(map(len, lines)) <= width
    assert len(lines) <= height
    assert any("the-one" in line for line in lines)


@settings(deadline=None)
@given(st.integers(0, 59), st.integers(8, 40))
def test_the_running_placement_is_always_in_view(running, height):
    rows = [replace(EVEN, placement=f"p{i}.") for i in range(60)]
    rows[running] = replace(RUNNING, placement="now.")
    lines = drawn(SweepProgress(rows, 10), 100, height)
    assert sum("now." in line for line in lines) == 1


def test_fifteen_devices_shrink_to_bars():
    busy = {f"RPC{i}": i / 14 for i in range(15)}
    lines = drawn(SweepProgress([replace(RUNNING, busy_frac=busy)], 3))
    assert any(" ▁▁▂▂▃▃▄▅▅▆▆▇▇█" in line for line in lines)


def test_what_is_not_known_yet_is_not_zero():
    row = ProgressRow("even", TrialStatus.RUNNING, "load 40 %", None, BUSY)
    lines = drawn(SweepProgress([row], 3.0))
    assert not any("0.00" in line for line in lines)
    assert "time left unknown" in summary_line(SweepProgress([row], 3.0))
    assert "$" not in summary_line(SweepProgress([row], 3.0))


def test_each_finished_step_is_one_plain_line():
    before = SweepProgress((replace(EVEN, status=TrialStatus.RUNNING, finished=(LOAD,)), LOST), 70)
    now = SweepProgress((EVEN, LOST), 81.2)
    assert new_lines(None, before) == [
        "[1/2] even: load 2.1 s",
        "[2/2] all-on-one: failed: out of memory: RPC1 has no room "
        "(1 of 2 placements · 1 min 10 s elapsed · time left unknown)",
    ]
    assert new_lines(before, now) == [
        "[1/2] even: tg128 33.31 tok/s in 12.2 s",
        "[1/2] even: done (2 of 2 placements · 1 min 21 s elapsed)",
    ]
    assert new_lines(now, now) == []


def test_a_log_gets_lines_without_terminal_sequences():
    out = io.StringIO()
    with SweepDisplay(Console(file=out, width=80)) as display:
        display.show(SweepProgress((RUNNING, WAITING), 1))
        display.show(SweepProgress((RUNNING, WAITING), 2))
        display.show(SweepProgress((replace(RUNNING, placement="uneven", status=TrialStatus.OK), WAITING), 3))
    text = out.getvalue()
    assert "\x1b" not in text
    assert text.splitlines() == [
        "[1/2] uneven: load 2.1 s",
        "[1/2] uneven: done (1 of 2 placements · 3.0 s elapsed · time left unknown)",
    ]


def test_a_terminal_is_redrawn_in_place_and_left_clean():
    out = io.StringIO()
    console = Console(file=out, width=80, height=24, force_terminal=True)
    with SweepDisplay(console) as display:
        display.show(SWEEP)
    assert "uneven" in out.getvalue()
    assert out.getvalue().rstrip("\n").endswith(("\x1b[2K", "\x1b[?25h", "\x1b[1A\x1b[2K"))


def test_hostile_names_do_not_reach_the_terminal():
    evil = ProgressRow("a\x1b[2Jb", TrialStatus.FAILED, "x\x07", note="boom\x1b[31m\nnext")
    assert not any("\x1b" in line or "\x07" in line for line in drawn(SweepProgress([evil], 1), width=160))
    assert all("\x1b" not in line and "\n" not in line for line in new_lines(None, SweepProgress([evil], 1)))
