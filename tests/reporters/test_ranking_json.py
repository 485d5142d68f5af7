from __future__ import annotations

import json
from dataclasses import replace

from k3prof.reporters.ranking_json import as_json
from tests.doubles.summaries import sweep


def round_trip():
    return json.loads(json.dumps(as_json(sweep()), allow_nan=False))


def test_json_gives_back_what_went_in():
    assert round_trip() == as_json(sweep())


def test_figures_stand_unrounded_with_their_units_in_the_keys():
    even = next(one for one in round_trip()["placements"] if one["placement"] == "even")
    assert even["load_s"] == 2.13
    tg = next(one for one in even["workloads"] if one["workload"] == "tg128")
    assert tg["rate_tok_per_s"] == {"median": 33.31, "low": 32.8, "high": 33.41, "n": 3}
    assert tg["parallelism"]["degree"] == 0.74
    assert tg["parallelism"]["confidence"] == 0.9
    assert tg["busy_frac"] == {"RPC0": 0.28, "RPC1": 0.24, "RPC2": 0.22, "CPU": 0.05}


def test_each_placement_names_its_build():
    known, unknown = replace(sweep()[0], build="mmq"), sweep()[1]
    assert [one["build"] for one in as_json([known, unknown])["placements"]] == ["mmq", None]


def test_what_is_not_known_is_null():
    lost = next(one for one in round_trip()["placements"] if one["placement"] == "all-on-one")
    assert lost["load_s"] is None
    for one in lost["workloads"]:
        assert one["rate_tok_per_s"] is one["ttft_ms"] is one["parallelism"] is None
        assert set(one["busy_frac"].values()) == {None}


def test_the_order_names_those_that_cannot_be_compared_apart():
    tg = round_trip()["rankings"][0]
    assert [one["placement"] for one in tg["order"]] == ["experts-8", "even", "n-cpu-moe-4"]
    assert tg["not_compared"] == ["all-on-one", "autofit"]
    assert [one["status"] for one in round_trip()["placements"]] == ["ok", "failed", "ok", "ok", "interrupted"]
