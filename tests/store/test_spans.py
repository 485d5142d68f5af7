from __future__ import annotations

import sqlite3
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.spans import Spans, concatenate
from k3prof.errors import TraceError
from k3prof.store.trace import Trace
from tests.doubles.spans import any_spans, equal, turns
from tests.store.test_trace import begin


@settings(max_examples=30, deadline=None)
@given(st.lists(any_spans(), max_size=4))
def test_spans_read_back_as_they_were_added_chunk_by_chunk(chunks: list[Spans]) -> None:
    with tempfile.TemporaryDirectory() as folder, Trace.writable(Path(folder) / "t.sqlite") as trace:
        _, trial = begin(trace)
        for chunk in chunks:
            trace.add_spans(trial, chunk)
        assert equal(trace.spans(trial), concatenate(chunks))


def test_an_interval_gets_the_spans_that_reach_into_it_from_every_chunk(tmp_path: Path) -> None:
    with Trace.writable(tmp_path / "t.sqlite") as trace:
        _, trial = begin(trace)
        trace.add_spans(trial, turns([("RPC0", 0, 10), ("RPC1", 10, 20)]))
        trace.add_spans(trial, turns([("RPC0", 20, 30), ("RPC1", 30, 40)]))
        trace.add_spans(trial, turns([("RPC0", 40, 50)]))
        assert trace.spans(trial, 15, 25).begin_ns.tolist() == [10, 20]
        assert trace.spans(trial, end_ns=10).begin_ns.tolist() == [0]
        assert trace.spans(trial, begin_ns=40).begin_ns.tolist() == [40]
        assert trace.spans(trial).begin_ns.tolist() == [0, 10, 20, 30, 40]


def test_trials_have_spans_of_their_own_and_one_that_was_not_traced_has_none(tmp_path: Path) -> None:
    with Trace.writable(tmp_path / "t.sqlite") as trace:
        _, traced = begin(trace)
        _, untraced = begin(trace)
        trace.add_spans(traced, turns([("RPC0", 0, 10)]))
        assert len(trace.spans(traced)) == 1
        assert len(trace.spans(untraced)) == 0


@pytest.mark.parametrize(
    "damage", ["columns = x'00'", "columns = substr(columns, 1, length(columns) / 2)", "count = 7", "names = '['"]
)
def test_a_damaged_chunk_is_refused_with_its_file_and_trial(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "t.sqlite"
    with Trace.writable(path) as trace:
        _, trial = begin(trace)
        trace.add_spans(trial, turns([("RPC0", 0, 10), ("RPC1", 10, 20)]))
    with sqlite3.connect(path) as database:
        database.execute(f"UPDATE spans SET {damage}")
    database.close()
    with (
        Trace.readable(path) as trace,
        pytest.raises(TraceError, match=f"t.sqlite: the spans of trial {trial} are damaged"),
    ):
        trace.spans(trial)
