from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.machine.diagnosis import Level
from k3prof.core.machine.gpu import GpuPath
from k3prof.core.machine.topology import check_paths, describe_paths, told_paths


def paths(n_gpus: int, near: int = 1) -> list[GpuPath]:
    """Return the ways between GPUs, of which as many as `near` hang on one switch."""
    pairs = combinations(range(n_gpus), 2)
    return [GpuPath(f"CUDA{a}", f"CUDA{b}", "PIX" if a // near == b // near else "SYS") for a, b in pairs]


def test_pairs_that_are_alike_take_one_line():
    assert describe_paths(paths(5)) == ["all 10 pairs: SYS"]
    assert describe_paths(paths(2)) == ["CUDA0–CUDA1: SYS"]
    assert describe_paths([]) == []


def test_the_rarer_ways_name_their_pairs_and_the_rest_is_counted():
    assert describe_paths(paths(3, near=2)) == ["CUDA0–CUDA1: PIX", "CUDA0–CUDA2, CUDA1–CUDA2: SYS"]
    assert describe_paths(paths(6, near=2)) == [
        "CUDA0–CUDA1, CUDA2–CUDA3, CUDA4–CUDA5: PIX",
        "the other 12 pairs: SYS",
    ]


@given(n_gpus=st.integers(2, 15), near=st.integers(1, 15))
def test_every_kind_of_way_has_a_line(n_gpus, near):
    given_paths = paths(n_gpus, near)
    told = check_paths(given_paths)
    assert len(told) == len({path.text for path in given_paths})
    assert {finding.level for finding in told} == {Level.OK}


def test_what_was_told_while_gpus_were_watched_is_read_back():
    events = [
        DeviceEvent(7, "CUDA0", EventKind.PEER, "CUDA1: between NUMA nodes (SYS); peer access: none"),
        DeviceEvent(9, "CUDA0", EventKind.XID, "Xid 79", 79),
    ]
    assert told_paths(events) == [GpuPath("CUDA0", "CUDA1", "between NUMA nodes (SYS); peer access: none")]
