from __future__ import annotations

import pytest

from k3prof.core.experiment import (
    Experiment,
    Placement,
    Settings,
    by_build,
    check_devices,
    combine,
    effective_flags,
    flag_text,
)
from k3prof.core.trial import Workload


def placement(**changes) -> Placement:
    return Placement(**{"name": "p", "about": "", "flags": {}, "env": {}, "file": "p.toml"} | changes)


def test_a_placements_flags_win_over_those_that_all_share():
    settings = Settings("demo:k3", "auto", "default", (Workload("tg", 8),), 3, None, {"ctx-size": 1, "fit": "off"})
    assert effective_flags(settings, placement(flags={"fit": "on"})) == {"ctx-size": 1, "fit": "on"}


def test_the_parts_of_an_experiment_by_build_hold_each_placement_once_in_its_order():
    settings = Settings("demo:k3", "auto", "default", (), 3, None, {})
    builds = {"a": "mmq", "b": None, "c": "mmq", "d": "default"}
    placements = tuple(placement(name=name, build=build) for name, build in builds.items())
    parts = by_build(Experiment("x", settings, placements))
    assert [(build, [one.name for one in part.placements]) for build, part in parts.items()] == [
        ("mmq", ["a", "c"]),
        ("default", ["b", "d"]),
    ]


def test_no_matrix_leaves_the_placement_as_it_is():
    assert combine(placement(flags={"fit": "on"}), {}) == [placement(flags={"fit": "on"})]


def test_a_matrix_wins_over_the_placements_own_flags_and_variables():
    first, second = combine(
        placement(flags={"fit": "on", "n-cpu-moe": 1}, env={"A": "0"}), {"n-cpu-moe": [2, 3], "env.A": ["1"]}
    )
    assert (first.name, first.flags, first.env) == (
        "p[n-cpu-moe=2][env.A=1]",
        {"fit": "on", "n-cpu-moe": 2},
        {"A": "1"},
    )
    assert (second.name, second.matrix) == ("p[n-cpu-moe=3][env.A=1]", ("n-cpu-moe",))


@pytest.mark.parametrize(
    ("value", "text"), [(True, "true"), (4, "4"), (0.5, "0.5"), ("on", "on"), ((1, 2.5, "x"), "1,2.5,x")]
)
def test_a_flags_value_is_written_as_llama_server_reads_it(value, text):
    assert flag_text(value) == text


@pytest.mark.parametrize("text", ["auto", "cpu", "rpc:2", "rpc:15"])
def test_devices_that_can_be_had_are_accepted(text):
    assert check_devices(text) == text


@pytest.mark.parametrize("text", ["", "rpc", "rpc:", "rpc:1", "rpc:16", "rpc:03", "rpc:-3", "rpc:٣", "RPC:3", "auto "])
def test_other_devices_are_refused(text):
    with pytest.raises(ValueError, match=r"llama\.cpp splits|names no devices"):
        check_devices(text)
