from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.refutation.evidence import Block, Evidence, Figure
from k3prof.core.refutation.hypothesis import Threshold
from k3prof.core.refutation.verdict import Effect
from k3prof.reporters.refutation_input import Effort
from k3prof.reporters.refutation_json import as_json
from tests.doubles.verdicts import bandwidth, cpu_experts, eight, everywhere, refutation_report, turns


def round_trip(report=None):
    return json.loads(json.dumps(as_json(report or refutation_report()), allow_nan=False))


def by_id(name: str):
    return next(one for one in round_trip()["hypotheses"] if one["id"] == name)


def test_json_gives_back_what_went_in():
    assert round_trip() == as_json(refutation_report())


def test_it_holds_the_same_numbers_as_the_record():
    for row, shown in zip(eight(), round_trip()["hypotheses"], strict=True):
        found, told = row.verdict, shown["verdict"]
        assert (told["ruling"], told["grade"], told["is_final"]) == (found.ruling, found.grade, found.is_final)
        assert told["blocks_needed"] == found.blocks_needed
        assert told["predicted"]["digest"] == found.hypothesis.digest
        if found.effect is None:
            assert told["effect"] is None
        else:
            ends = [told["effect"][key] for key in ("estimate", "low", "high", "blocks")]
            assert ends == [found.effect.estimate, found.effect.low, found.effect.high, found.effect.blocks]
        figures = [figure["value"] for block in told["evidence"]["blocks"] for figure in block["baseline"]]
        assert figures == [figure.value for block in found.evidence.blocks for figure in block.baseline]
        logs = [math.log(block["ratio"]) for block in told["evidence"]["blocks"] if block["ratio"] is not None]
        assert logs == pytest.approx([b.log_ratio for b in found.evidence.blocks if b.candidate is not None])


def test_an_open_end_of_a_band_is_null():
    assert (
        by_id("bandwidth-bound")["verdict"]["predicted"]["low"],
        by_id("bandwidth-bound")["verdict"]["predicted"]["high"],
    ) == (0.6, None)
    assert by_id("devices-take-turns")["verdict"]["predicted"]["low"] is None
    assert by_id("noise")["verdict"]["predicted"] | {"digest": ""} == {
        "digest": "",
        "kind": "again",
        "baseline": {"placement": "even", "workload": "tg128"},
        "candidate": {"placement": "even", "workload": "tg128"},
        "varies": None,
        "low": None,
        "high": None,
        "smallest": 1.05,
        "alpha": 0.05,
        "looks": [3, 5, 8, 12],
        "if_refuted": None,
        "if_supported": None,
    }


def test_an_earlier_verdict_keeps_the_prediction_that_it_judged():
    (past,) = by_id("crossings-dominate")["replaced"]
    assert past["why"] == "prediction changed after data was seen: was [0.9, 0.995]"
    assert past["verdict"]["predicted"]["low"] == 0.9
    assert past["verdict"]["predicted"]["digest"] != by_id("crossings-dominate")["verdict"]["predicted"]["digest"]


def test_what_is_not_known_is_null():
    report = refutation_report(effort=Effort(0, 0, 0, None, None, "no time"), unix_ns=None)
    shown = round_trip(report)
    assert shown["effort"]["hours"] is shown["effort"]["usd"] is shown["began_unix_ns"] is None
    assert shown["commands"]["plain-kernel"] is None
    assert isinstance(bandwidth().verdict.hypothesis.test, Threshold)


def test_names_and_log_lines_stand_as_they_were_read():
    evil = "<script>|\x1b[31m\x00\n\ud800"
    shown = round_trip(everywhere(refutation_report((turns(),)), evil))
    assert shown["hypotheses"][0]["claim"].endswith(evil)


@given(st.lists(st.floats(), min_size=7, max_size=7))
def test_no_figure_makes_json_that_others_cannot_read(numbers):
    figures = [Figure(*numbers[i : i + 1], *numbers[4:6]) for i in range(4)]
    block = Block(0, (figures[0], figures[1]), (figures[2], figures[3]))
    found = replace(
        cpu_experts().verdict,
        effect=Effect(numbers[0], numbers[1], numbers[6], 1),
        evidence=Evidence((block,), (block,)),
    )
    shown = round_trip(refutation_report((replace(cpu_experts(), verdict=found),)))
    estimate = shown["hypotheses"][0]["verdict"]["effect"]["estimate"]
    assert estimate == (numbers[0] if math.isfinite(numbers[0]) else None)
