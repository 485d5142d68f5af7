from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from k3prof.core.evidence.certificate import Certificate
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.evidence.proof import MemoryTerm, Proof
from k3prof.core.summary import PlacementSummary, Spread
from k3prof.core.trial import Caveat, Failure, Outcome, TrialStatus
from k3prof.reporters.table import RankingTable
from tests.doubles.summaries import TG128 as TG
from tests.doubles.summaries import failed, placement, sweep, workload_summary

GOLDEN = Path(__file__).parent / "golden"


def drawn(summaries, width, **options) -> str:
    out = io.StringIO()
    Console(file=out, width=width, **options).print(RankingTable(summaries))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines()) + "\n"


@pytest.mark.parametrize("width", [80, 160])
def test_the_table_looks_as_agreed(width):
    assert drawn(sweep(), width) == (GOLDEN / f"ranking-{width}.txt").read_text()


@pytest.mark.parametrize("width", [40, 60, 80, 120, 160, 240])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, drawn(sweep(), width).splitlines())) <= width


@pytest.mark.parametrize("width", [80, 160])
def test_builds_are_told_apart_where_there_are_several_and_not_mentioned_where_there_is_one(width):
    even, *others = (replace(one, build="default") for one in sweep())
    assert drawn([even, *others], width) == drawn(sweep(), width)
    text = drawn([replace(even, build="[b]q"), *others], width)
    assert text.count("build [b]q") == 2
    assert text.count("build default") == 2 * len(others)


def test_a_failed_placement_keeps_its_row_its_reason_and_its_log_line():
    text = drawn([failed("all-on-one")], 160)
    assert "all-on-one" in text
    assert "failed: out of memory. RPC1 has no room for the weights" in text
    assert "failed to allocate 41231.00 MiB on RPC1" in text


def test_a_void_placement_says_why():
    outcome = Outcome(TrialStatus.VOID, None, "12 of 16 layers landed on RPC0, asked were 4")
    assert "void. 12 of 16 layers landed on RPC0" in drawn([failed("skewed", outcome)], 160)


def test_a_caveat_comes_with_its_remedy():
    text = drawn(sweep(), 160)
    assert "no-plateau: tg128 was still getting faster" in text
    assert "remedy: raise warmup in sweep.toml" in text


def test_names_that_look_like_markup_stay_text():
    text = drawn([failed("[red]boo[/red] [link=http://evil]x[/link]"), failed("[/]")], 160, force_terminal=True)
    assert "[red]boo[/red] [link=http://evil]x[/link]" in text.replace("\n", "")
    assert "\x1b]8;" not in text


def test_terminal_sequences_in_names_and_log_lines_do_not_reach_the_terminal():
    evil = Outcome(TrialStatus.FAILED, Failure.CRASHED, "boom\x1b[2J", "\x1b]0;owned\x07line\r\x1b[1Afake")
    text = drawn([failed("a\x1b[31mb\x07", evil)], 80)
    assert "\x1b" not in text and "\x07" not in text and "\r" not in text
    assert "linefake" in text.replace(" ", "")


def test_fifteen_devices_fit_into_eighty_columns():
    devices = tuple(f"RPC{i}" for i in range(15))
    busy = tuple(i / 20 for i in range(15))
    summary = placement("all", workload_summary(TG, None, None, (*busy, 0.9), devices))
    text = drawn([summary], 80)
    assert max(map(len, text.splitlines())) <= 80
    for device in devices:
        assert device in text
    for share in busy:
        assert f"{share:.2f}" in text


def test_nothing_measured_is_no_traceback():
    assert "no workload" in drawn([], 80)


def test_an_unknown_rate_is_called_unknown():
    summary = placement("odd", workload_summary(TG, None, None, (None,) * 4), load_s=None, caveats=(Caveat("c", "m"),))
    text = drawn([summary], 160)
    row = next(line for line in text.splitlines() if line.strip().startswith("odd"))
    assert row.count("unknown") == 4
    assert "1 caveat" in row


def test_a_rate_that_cannot_be_compared_is_marked():
    outcome = Outcome(TrialStatus.VOID, None, "12 of 16 layers landed on RPC0, asked were 4")
    void = replace(placement("skewed", workload_summary(TG, Spread(99, 98, 99, 3), None, (None,) * 4)), outcome=outcome)
    for width in (80, 160):
        text = drawn([*sweep(), void], width)
        row = text[text.index("skewed") :]
        assert "void" in row[: 2 * width]
        assert "2.36×" not in text


@pytest.mark.parametrize("width", [80, 160])
def test_memory_of_any_number_of_devices_is_shown_whole(width):
    devices = [f"RPC{number}" for number in range(15)]
    terms = [MemoryTerm(name, BufferKind.MODEL, 100.5 + place, 100.5 + place) for place, name in enumerate(devices)]
    proof = Proof(Certificate((), ()), tuple(terms))
    shown = drawn([PlacementSummary("even", Outcome(TrialStatus.OK), 1.0, (), (), proof)], width)
    assert re.findall(r"RPC\d+", shown) == devices
    assert re.findall(r"(\d+\.\d) ?✓", shown) == [f"{100.5 + place:.1f}" for place in range(15)]
    assert max(map(len, shown.splitlines())) <= width


def test_what_makes_all_placements_doubtful_is_told_once():
    lacking = Caveat("counters-missing", "not offered by the driver: CUDA0: energy_j", "these stay unknown")
    every = [replace(one, caveats=(*one.caveats, lacking)) for one in sweep()]
    text = drawn(every, 160)
    assert text.count("counters-missing") == 1
    assert " all placements\n" in text
    assert text.count("1 caveat") == drawn(sweep(), 160).count("1 caveat")
