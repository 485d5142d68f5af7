from __future__ import annotations

import json
from dataclasses import replace

import pytest
from rich.console import Console

from k3prof.core.imported_figures import stretch_figures
from k3prof.core.trial import Caveat
from k3prof.reporters.imported import ImportedTable, as_json, as_markdown, facts, sentence
from tests.doubles.imported_runs import S, gpus, sampled, traced

MS = 1_000_000


def whole(run):
    return stretch_figures(run, "whole recording", run.begin_ns, run.end_ns)


def drawn(run) -> str:
    console = Console(width=120, record=True, file=open("/dev/null", "w"))  # noqa: PTH123, SIM115
    console.print(ImportedTable(run, [whole(run)]))
    return console.export_text()


def test_an_exact_record_says_so_and_for_how_long_devices_overlapped():
    run = traced([("GPU0", 0, 100 * MS), ("GPU1", 60 * MS, 140 * MS), ("GPU0", 190 * MS, 200 * MS)])
    assert sentence(run, whole(run)) == "P = 0.95, exact. Two or more GPUs computed at once for 40 ms (20.0 %)."


def test_readings_say_what_they_bound():
    run = sampled([[0.6] * 61, [0.9] * 61])
    said = sentence(run, whole(run))
    assert said.startswith("P = 1.50 [1.")
    assert "for at least" in said
    assert "at most" in said
    below = sentence(run := sampled([[0.3] * 61, [0.4] * 61]), whole(run))
    assert "at least" not in below
    assert below.endswith("P alone does not tell more.")


def test_what_was_not_recorded_is_unknown_and_never_zero():
    run = replace(sampled([[0.5] * 20], power_w=250.0), devices=gpus(2))
    assert sentence(run, whole(run)).startswith("P unknown")
    lines = [line.split() for line in drawn(run).splitlines() if line.startswith("GPU")]
    assert lines == [["GPU0", "0.50", "250", "W"], ["GPU1", "unknown", "unknown"]]
    (second,) = [one for name, one in as_json(run, [whole(run)])["stretches"][0]["devices"].items() if name == "GPU1"]
    assert second["busy_frac"] is None
    assert second["power_w"] is None


def test_columns_are_those_that_were_recorded():
    run = sampled([[0.5] * 20] * 2, pcie_rx_bytes_per_s=577e6, memory_bytes=22 * 2.0**30)
    lines = [line.split() for line in drawn(run).splitlines()]
    assert ["device", "busy", "memory", "PCIe", "in"] in lines
    assert ["GPU0", "0.50", "22.0", "GiB", "577", "MB/s"] in lines
    assert "copying" not in drawn(run)
    assert "copying" in drawn(traced([("GPU0", 0, 10)]))


def test_json_holds_every_figure_in_full():
    run = traced([("GPU0", 0, 100), ("GPU1", 60, 140)], [("CPU", "GPU0", 0, 7)])
    found = json.loads(json.dumps(as_json(run, [whole(run)])))
    assert found["stretches"][0]["parallelism"] == {
        "degree": 180 / 140,
        "low": 180 / 140,
        "high": 180 / 140,
        "blocks": 1,
    }
    assert found["stretches"][0]["overlap_ns"] == [40, 40]
    assert found["stretches"][0]["devices"]["GPU0"]["copying_frac"] == 7 / 140
    assert found["resolution_ns"] == 1


def test_resolution_and_source_are_stated_everywhere():
    exact, read = traced([("GPU0", 0, 100)]), sampled([[0.5] * 20])
    for run, resolution in ((exact, "every begin and end known to 1 ns"), (read, "each GPU read every 1 s")):
        assert resolution in drawn(run)
        assert resolution in as_markdown(run, [whole(run)])
        assert ("resolution", resolution) in list(facts(run, [whole(run)]))


@pytest.mark.parametrize("name", ["<b>x</b>|*y*", "a\x1b[31mb\nc"])
def test_texts_of_the_recording_are_inert(name):
    run = traced([("GPU0", 0, 100)])
    run = replace(run, source=name, caveats=(Caveat("odd", name, name),))
    text, page = drawn(run), as_markdown(run, [whole(run)])
    assert "\x1b" not in text
    assert "\x1b" not in page
    assert "<b>" not in page


def test_facts_for_a_report_carry_p_and_every_devices_share():
    run = sampled([[0.2] * 120] * 5)
    found = dict(facts(run, [whole(run)]))
    assert found["whole recording, 1 min 59 s"].startswith("P = 1.00 [")
    assert "GPU4 0.20" in found["whole recording, 1 min 59 s"]
    assert found["recorded"] == "2026-07-24 14:03:00 to 2026-07-24 14:04:59"
    assert run.end_ns == S * 119
