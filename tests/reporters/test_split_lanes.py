from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.spans import SpanKind
from k3prof.core.summary import phases
from k3prof.core.timeline import Phase, PhaseKind
from k3prof.reporters.split_lanes import cut_at, traced_stretches, with_splits
from tests.doubles.spans import span, turns
from tests.doubles.traced_trials import traced_trial

NOTHING = (np.empty(0, np.int64), np.empty(0))
INTERVALS = st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 60)), min_size=1, max_size=20)


def work(intervals, device="RPC0"):
    return turns([(device, begin, begin + length) for begin, length in intervals])


def area(steps, begin, end):
    """Sum what a lane says nanosecond by nanosecond."""
    edges, share = steps
    at = np.arange(begin, end)
    place = np.searchsorted(edges, at, "right") - 1
    inside = (place >= 0) & (place < share.size)
    return np.nansum(share[place[inside]])


@given(INTERVALS, st.integers(0, 500), st.integers(1, 600))
def test_a_traced_stretch_is_busy_for_as_many_nanoseconds_as_its_splits_cover(intervals, begin, length):
    (edges, share), exact = with_splits(NOTHING, work(intervals), "RPC0", [(begin, begin + length)])
    covered = {ns for first, lasting in intervals for ns in range(first, first + lasting)}
    assert exact == [(begin, begin + length)]
    assert (edges[0], edges[-1]) == (begin, begin + length)
    assert (np.diff(edges) > 0).all()
    assert area((edges, share), begin, begin + length) == len(covered & set(range(begin, begin + length)))


@given(INTERVALS, st.lists(st.integers(1, 80), min_size=1, max_size=12), st.data())
def test_outside_of_traced_stretches_the_counter_speaks(intervals, lengths, data):
    edges = np.cumsum([data.draw(st.integers(0, 300)), *lengths])
    sampled = (edges, np.linspace(0.1, 0.9, len(lengths)))
    begin, end = sorted(data.draw(st.tuples(st.integers(0, 500), st.integers(501, 1100))))
    steps, _ = with_splits(sampled, work(intervals), "RPC0", [(begin, end)])
    assert (np.diff(steps[0]) > 0).all()
    assert np.isclose(area(steps, 0, begin), area(sampled, 0, begin))
    assert np.isclose(area(steps, end, 2000), area(sampled, end, 2000))


@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.lists(st.integers(1, 599), max_size=20))
def test_a_cut_changes_nothing_but_the_edges(lengths, times):
    edges, share = np.cumsum([0, *lengths]), np.linspace(0, 1, len(lengths))
    times = np.unique([one for one in times if one < edges[-1]]).astype(np.int64)
    cut = cut_at(edges, share, times)
    assert cut[0].tolist() == sorted({*edges.tolist(), *times.tolist()})
    at = np.arange(edges[-1])
    np.testing.assert_array_equal(
        cut[1][np.searchsorted(cut[0], at, "right") - 1], share[np.searchsorted(edges, at, "right") - 1]
    )


def test_between_what_is_known_lies_what_is_not():
    sampled = (np.array([0, 10, 20]), np.array([0.5, 0.25]))
    (edges, share), _ = with_splits(sampled, work([(55, 5)]), "RPC0", [(50, 70)])
    assert edges.tolist() == [0, 10, 20, 50, 55, 60, 70]
    np.testing.assert_array_equal(share, [0.5, 0.25, np.nan, 0, 1, 0])


def test_a_split_without_a_known_end_leaves_the_stretch_to_the_counter():
    sampled = (np.array([0, 100]), np.array([0.4]))
    open_ended = span(SpanKind.COMPUTE, "RPC0", 10, 20, finished=False)
    steps, exact = with_splits(sampled, open_ended, "RPC0", [(0, 50)])
    assert exact == []
    assert steps[0].tolist() == [0, 100]
    assert steps[1].tolist() == [0.4]


def test_only_measured_phases_with_spans_count_as_traced():
    spans = work([(100, 50), (400, 20), (700, 20)])
    given_phases = [
        Phase(PhaseKind.WARMUP, 0, 300),
        Phase(PhaseKind.DECODE, 300, 600, "tg8"),
        Phase(PhaseKind.UNTRACED, 600, 900),
        Phase(PhaseKind.DECODE, 900, 950, "tg8", 1),
    ]
    assert traced_stretches(given_phases, spans) == [(300, 600)]


def test_a_long_span_that_began_early_traces_what_it_reaches_into():
    spans = work([(0, 1000), (10, 5), (20, 5)])
    assert traced_stretches([Phase(PhaseKind.DECODE, 500, 600, "tg8")], spans) == [(500, 600)]


def test_phases_of_several_streams_do_not_count_twice():
    spans = work([(0, 1000)])
    given_phases = [
        Phase(PhaseKind.PREFILL, 100, 300),
        Phase(PhaseKind.DECODE, 200, 600),
        Phase(PhaseKind.DECODE, 250, 500),
    ]
    assert traced_stretches(given_phases, spans) == [(100, 300), (300, 600)]


def test_every_measured_repetition_of_a_traced_trial_is_traced():
    trial, _, spans = traced_trial(repeat=2)
    kinds = [one.kind for one in phases(trial) if (one.begin_ns, one.end_ns) in traced_stretches(phases(trial), spans)]
    assert kinds.count(PhaseKind.DECODE) == 2
    assert set(kinds) <= {PhaseKind.PREFILL, PhaseKind.DECODE}
