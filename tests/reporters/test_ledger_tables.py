from __future__ import annotations

import io
import json
from dataclasses import replace

import pytest
from rich.console import Console

from k3prof.core.ledger import Crossings, Observed, ledger
from k3prof.core.spans import SpanKind
from k3prof.reporters import ranking_json
from k3prof.reporters.ledger_table import ledger_tables
from k3prof.reporters.ledger_tables import LINE_COLUMNS, WHAT_IF_COLUMNS, ledger_section, milliseconds, path
from k3prof.reporters.table import RankingTable
from tests.doubles.summaries import sweep
from tests.doubles.tokens import MS, TG, decode, known_ledger, spans_of


def drawn(summaries, width: int = 120) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width)
    for one in ledger_tables(summaries):
        console.print(one)
    return out.getvalue()


def summaries(found=None):
    even, *others = sweep()
    return [replace(even, ledgers=(found or known_ledger(),)), *others]


def test_a_section_says_how_the_token_divides_and_that_it_sums_up():
    section = ledger_section(known_ledger())
    assert section.title == "tg8: 20.0 ms per token, of which 0.00 % is unexplained"
    assert section.lines == (
        ("RPC0", "6.00", "30.0 %"),
        ("RPC1", "7.50", "37.5 %"),
        ("CPU (host)", "0.500", "2.5 %"),
        ("copies", "1.25", "6.2 %"),
        ("scheduler", "3.00", "15.0 %"),
        ("sampling and HTTP", "1.75", "8.8 %"),
        ("unexplained", "0.000", "0.0 %"),
        ("a token", "20.0", "100.0 %"),
    )
    assert {len(row) for row in section.lines} == {len(LINE_COLUMNS)}


def test_what_helps_is_told_apart_from_what_does_not():
    section = ledger_section(known_ledger())
    assert section.helps[0][:3] == ("perfect overlap", "133.3", "+166.7 %")
    assert [row[0] for row in section.does_not_help] == ["RPC1 relieved", "nothing computed on the host"]
    assert {len(row) for row in (*section.helps, *section.does_not_help)} == {len(WHAT_IF_COLUMNS)}


def test_the_ping_pong_is_named():
    assert path(Crossings(8, 3, 6, 4, 0)) == (
        "A pass has 8 splits and 6 hand-overs between its 3 devices, 4 more than one way through needs: ping-pong. "
        "Each boundary is crossed there, back and there again, which a Kimi-K3's attention residuals cause."
    )


def test_a_single_way_through_is_no_ping_pong():
    assert path(Crossings(8, 3, 2, 0, 2)) == (
        "A pass has 8 splits and 2 hand-overs between its 3 devices. It goes to the host and back 2 times."
    )


def test_a_light_trace_says_what_it_does_not_know():
    section = ledger_section(known_ledger(finished=False))
    assert section.lines[0] == ("RPC0", "unknown", "unknown")
    assert "--splits exact" in section.remarks[0]
    assert "try --splits exact" in drawn(summaries(known_ledger(finished=False)))
    assert "try --splits exact" not in drawn(summaries())


def test_overlap_is_stated():
    rows = [(SpanKind.COMPUTE, "RPC0", 0, 60 * MS), (SpanKind.COMPUTE, "RPC1", 40 * MS, 90 * MS)]
    seen = Observed(0, 100 * MS, 10, spans_of([(SpanKind.PASS, "", 0, 100 * MS), *rows]))
    section = ledger_section(ledger(TG, ("RPC0", "RPC1"), [seen]))
    assert ("at once", "2.00", "20.0 %") in section.lines
    assert section.remarks[0].startswith("2.00 ms in which several devices computed at once are counted once")


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "unknown"), (0.0094, "0.009"), (0.9996, "1.00"), (9.99, "9.99"), (9.996, "10.0"), (-0.25, "-0.250")],
)
def test_milliseconds_have_three_digits_or_end_at_the_microsecond(ms, text):
    assert milliseconds(ms) == text


def test_the_terminal_shows_one_row_per_traced_placement():
    text = drawn(summaries())
    row = next(line for line in text.splitlines() if line.strip().startswith("even"))
    assert row.split() == ["even", "6.00", "7.50", "0.500", "1.25", "3.00", "1.75", "0.000", "20.0", "0.00", "%"]


def test_nothing_is_drawn_where_nothing_was_traced():
    assert drawn(sweep()) == ""
    assert "ms/token" not in _ranking(sweep(), 120)


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, _ranking(summaries(), width).splitlines())) <= width


def test_a_ledger_that_does_not_close_is_shown_with_its_gap():
    found = ledger(TG, ("RPC0", "RPC1"), [decode(missing=[3])])
    assert " 10.31 %" in drawn(summaries(found))


def test_json_holds_every_line_and_every_ceiling():
    found = known_ledger()
    everything = json.loads(json.dumps(ranking_json.as_json(summaries(found)), allow_nan=False))
    by_name = {one["placement"]: one["ledgers"] for one in everything["placements"]}
    assert by_name["n-cpu-moe-4"] == []
    (one,) = by_name["even"]
    assert [line["name"] for line in one["lines"]] == [line.name for line in found.lines]
    assert sum(line["ms_per_token"] for line in one["lines"]) == pytest.approx(one["token_ms"])
    assert one["per_pass"]["returns"] == 2
    assert {what["name"]: what["helps"] for what in one["what_if"]}["copies take no time"] is True


def _ranking(given, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width).print(RankingTable(given))
    return out.getvalue()
