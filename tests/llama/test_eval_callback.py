from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.ops.op_graph import OpNode
from k3prof.llama.eval_callback import EvalCallback, GraphChangedError


class Reader:
    """Describes a tensor by its address, which is made from the node's name."""

    def describe(self, tensor: int, places: Mapping[int, int]) -> OpNode:
        before = tensor - 16
        return OpNode(f"node_{tensor}", "ADD", 4, "CPU", (places[before],) if before in places else ())


class Scheduler:
    """Calls back as `ggml_backend_sched_compute_splits` does, and notes what it computed at once."""

    def __init__(self, callback: EvalCallback) -> None:
        self.callback = callback
        self.computed: list[tuple[int, bool]] = []

    def compute(self, *splits: Sequence[int]) -> None:
        self.computed = []
        for split in splits:
            begin = 0
            while begin < len(split):
                end = begin
                need = self.callback(split[end], True, None)
                while not need and end < len(split) - 1:
                    end += 1
                    need = self.callback(split[end], True, None)
                self.computed.append((end - begin + 1, need))
                if need:
                    assert self.callback(split[end], False, None)
                begin = end + 1


@pytest.fixture
def scheduler() -> Scheduler:
    return Scheduler(EvalCallback(Reader()))  # type: ignore[arg-type]


def test_a_described_pass_is_computed_in_one_go_and_knows_its_sources_by_their_place(scheduler):
    scheduler.callback.describe()
    scheduler.compute([160, 176, 192])
    assert scheduler.computed == [(3, False)]
    assert [node.sources for node in scheduler.callback.described()] == [(), (0,), (1,)]


def test_a_second_description_replaces_the_first(scheduler):
    for _ in range(2):
        scheduler.callback.describe()
        scheduler.compute([160, 176])
    assert len(scheduler.callback.described()) == 2


@given(st.lists(st.booleans(), min_size=1, max_size=40), st.integers(0, 40))
def test_what_is_wanted_is_timed_and_nothing_else(wanted, cut):
    scheduler = Scheduler(EvalCallback(Reader()))  # type: ignore[arg-type]
    nodes = list(range(160, 160 + 16 * len(wanted), 16))
    for _ in range(2):
        scheduler.callback.time(wanted)
        scheduler.compute(nodes[:cut], nodes[cut:])
        assert [need for _, need in scheduler.computed if need] == [True] * sum(wanted)
        assert len(scheduler.callback.timed()) == sum(wanted)
        assert min(scheduler.callback.timed(), default=0) >= 0


@pytest.mark.parametrize(("nodes", "said"), [(2, "1 nodes fewer"), (5, "2 nodes more")])
def test_a_pass_with_other_nodes_is_noticed(scheduler, nodes, said):
    scheduler.callback.time([False, True, True])
    scheduler.compute(list(range(160, 160 + 16 * nodes, 16)))
    with pytest.raises(GraphChangedError, match=said):
        scheduler.callback.timed()
