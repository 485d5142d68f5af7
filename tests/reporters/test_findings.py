from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from k3prof.core.machine.diagnosis import Diagnosis, Finding, Level, worst_first
from k3prof.core.machine.host_bandwidth import BandwidthReading, HostBandwidth
from k3prof.reporters.findings import Findings, as_json, as_markdown, verdict
from tests.doubles.machines import FACTS, a40

PROBLEM = Finding(Level.PROBLEM, "build", "no build is called 'default'", "make it with `k3prof build`")
WARNING = Finding(Level.WARNING, "other load", "1.4 cores are busy: python (pid 3) 1.40 | more", "stop it")
NOTE = Finding(Level.NOTE, "NUMA", "2 memory nodes", "compare")
OK = Finding(Level.OK, "stand-ins", "rpc:2 to rpc:15")
BANDWIDTH = HostBandwidth(
    "AMD EPYC", 2, 1 << 30, 1_790_000_000, (BandwidthReading(1, (17.2, 16.0)), BandwidthReading(2, (33.5, 33.0)))
)


def diagnosis(*findings: Finding, bandwidth: HostBandwidth | None = None) -> Diagnosis:
    return Diagnosis(worst_first(findings), FACTS, (a40("CUDA0"),), bandwidth)


def drawn(found: Diagnosis, width: int, measured: bool = False) -> list[str]:
    console = Console(width=width, no_color=True)
    with console.capture() as capture:
        console.print(Findings(found, measured))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_worst_stands_first_and_what_to_do_first_stands_last(width):
    lines = drawn(diagnosis(OK, NOTE, WARNING, PROBLEM), width)
    assert lines[0].startswith("problem  build       no build is called 'default'")
    assert lines[1] == "                     → make it with `k3prof build`"
    levels = [line.split()[0] for line in lines[:-2] if line and not line.startswith(" ")]
    assert levels == ["problem", "warning", "note", "ok"]
    assert " ".join(lines[-2:]).endswith("A sweep cannot run here. Fix first: build: make it with `k3prof build`")
    assert max(map(len, lines)) <= width


def test_the_verdict_names_what_to_fix_only_where_something_is_to_be_fixed():
    assert verdict(diagnosis(PROBLEM, WARNING)).endswith("build: make it with `k3prof build`")
    assert verdict(diagnosis(WARNING, NOTE)) == (
        "A sweep can run here, but its figures would be doubtful. Fix first: other load: stop it"
    )
    assert verdict(diagnosis(NOTE, OK)) == "A sweep can run here."


def test_a_machine_on_which_nothing_is_wrong_shows_no_empty_part():
    lines = drawn(diagnosis(OK), 80)
    assert lines == ["ok       stand-ins  rpc:2 to rpc:15", "", "A sweep can run here."]


@pytest.mark.parametrize("width", [80, 120])
def test_a_measured_bandwidth_is_shown_with_its_convention_and_plateau(width):
    lines = drawn(diagnosis(OK, bandwidth=BANDWIDTH), width, measured=True)
    text = " ".join(lines)
    assert "measured: 10⁹ bytes read per second, each byte counted once" in text
    rows = [line.split() for line in lines if line.split()[:1] in (["1"], ["2"])]
    assert rows[0][:4] == ["1", "17.2", "51%", "16.0–17.2"]
    assert rows[1][:5] == ["2", "33.5", "100%", "33.0–33.5", "plateau:"]
    assert max(map(len, lines)) <= width


def test_a_bandwidth_that_was_measured_earlier_is_not_shown_as_a_table():
    assert len(drawn(diagnosis(OK, bandwidth=BANDWIDTH), 80)) == 3


def test_markdown_keeps_every_cell_in_its_column():
    page = as_markdown(diagnosis(PROBLEM, WARNING, OK, bandwidth=BANDWIDTH))
    rows = [line for line in page.splitlines() if line.startswith("| ")]
    assert all(line.replace("\\|", "").count("|") == 5 for line in rows[:5])
    assert "python (pid 3) 1.40 \\| more" in page
    assert "plateau: more threads gain less than 5 %" in page


def test_json_says_all_of_it():
    data = json.loads(as_json(diagnosis(PROBLEM, OK, bandwidth=BANDWIDTH)))
    assert data["can_sweep"] is False
    assert data["findings"][0] == {
        "level": "problem",
        "subject": "build",
        "message": "no build is called 'default'",
        "remedy": "make it with `k3prof build`",
    }
    assert data["host"]["cores_visible"] == 4
    assert data["gpus"][0]["name"] == "CUDA0"
    assert data["bandwidth"]["origin"] == "measured"
    assert data["bandwidth"]["gb_per_s"] == 33.5
    assert data["bandwidth"]["plateau_threads"] == 2
    assert json.loads(as_json(diagnosis(OK)))["bandwidth"] is None


def test_names_that_others_chose_cannot_move_the_cursor_or_break_lines():
    nasty = replace(WARNING, message="busy: \x1b[2Jevil\n\rname\u202e", remedy="kill \x1b]0;x\x0731")
    for text in ("\n".join(drawn(diagnosis(nasty), 80)), as_markdown(diagnosis(nasty)), verdict(diagnosis(nasty))):
        assert not set(text) & {"\x1b", "\r", "\x07", "\u202e"}
    assert "busy: evil name" in as_markdown(diagnosis(nasty))
