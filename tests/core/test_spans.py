from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.spans import (
    NO_SPANS,
    SpanKind,
    Spans,
    busy_ns,
    concatenate,
    concurrency_ns,
    layers_by_device,
    splits_per_pass,
    union,
)
from tests.doubles.spans import any_spans, equal, readable, span, turns

SPAN = 60
INTERVALS = st.lists(st.tuples(st.integers(0, SPAN), st.integers(0, SPAN)).map(sorted), max_size=12)
DEVICE_TIMES = st.lists(
    st.tuples(st.sampled_from(["RPC0", "RPC1", "RPC2"]), st.integers(0, SPAN), st.integers(0, SPAN)).map(
        lambda one: (one[0], *sorted(one[1:]))
    ),
    max_size=20,
)


def seconds_of(intervals: list[list[int]]) -> set[int]:
    """The unit steps that intervals cover, one by one."""
    return {step for begin, end in intervals for step in range(begin, end)}


@given(INTERVALS)
def test_a_union_covers_the_same_time_with_disjoint_intervals(intervals: list[list[int]]) -> None:
    ordered = sorted(intervals)
    begins, ends = union(*(np.array([one[i] for one in ordered], np.int64) for i in (0, 1)))
    assert seconds_of([list(pair) for pair in zip(begins.tolist(), ends.tolist(), strict=True)]) == seconds_of(ordered)
    assert (ends[:-1] < begins[1:]).all()


@given(DEVICE_TIMES, st.integers(0, SPAN), st.integers(0, SPAN))
def test_busy_and_concurrent_time_are_those_of_counting_step_by_step(
    times: list[tuple[str, int, int]], one: int, other: int
) -> None:
    begin, end = sorted((one, other))
    devices = ["RPC0", "RPC1", "RPC2"]
    spans = turns(times)
    steps = {device: {s for on, b, e in times if on == device for s in range(b, e)} for device in devices}
    inside = {device: {step for step in found if begin <= step < end} for device, found in steps.items()}
    assert busy_ns(spans, devices, begin, end) == {device: len(found) for device, found in inside.items()}
    counted = [sum(step in found for found in inside.values()) for step in range(begin, end)]
    at_once = concurrency_ns(spans, devices, begin, end)
    assert at_once is not None
    assert at_once.tolist() == [counted.count(k) for k in range(4)]


def test_the_mean_of_the_counts_is_the_parallelism_degree() -> None:
    spans = turns([("RPC0", 0, 60), ("RPC1", 40, 100)])
    at_once = concurrency_ns(spans, ["RPC0", "RPC1"], 0, 100)
    assert at_once is not None
    assert at_once.tolist() == [0, 80, 20]
    assert at_once @ [0, 1, 2] / 100 == pytest.approx((60 + 60) / 100)


def test_one_split_that_is_not_known_to_have_ended_makes_its_device_unknown_and_no_other() -> None:
    open_ended = span(SpanKind.COMPUTE, "RPC1", 50, 60, finished=False)
    spans = concatenate([turns([("RPC0", 0, 10)]), open_ended])
    assert busy_ns(spans, ["RPC0", "RPC1"], 0, 100) == {"RPC0": 10, "RPC1": None}
    assert busy_ns(spans, ["RPC0", "RPC1"], 0, 50) == {"RPC0": 10, "RPC1": 0}
    assert concurrency_ns(spans, ["RPC0", "RPC1"], 0, 100) is None


def test_only_splits_keep_a_device_busy() -> None:
    others = [span(kind, "RPC0", 0, 50) for kind in SpanKind if kind is not SpanKind.COMPUTE]
    assert busy_ns(concatenate(others), ["RPC0"], 0, 50) == {"RPC0": 0}


def test_a_device_that_was_never_seen_was_not_busy() -> None:
    assert busy_ns(turns([("RPC0", 0, 5)]), ["CUDA7"], 0, 5) == {"CUDA7": 0}
    assert busy_ns(NO_SPANS, ["RPC0"], 0, 5) == {"RPC0": 0}


@given(st.lists(any_spans(), max_size=4))
def test_putting_parts_together_keeps_every_span_and_orders_them(parts: list[Spans]) -> None:
    whole = concatenate(parts)
    assert (np.diff(whole.begin_ns) >= 0).all()
    given_rows = [str(readable(part, i)) for part in parts for i in range(len(part))]
    assert sorted(str(readable(whole, i)) for i in range(len(whole))) == sorted(given_rows)


def test_parts_with_tables_in_another_order_are_put_together_by_name() -> None:
    first, second = turns([("RPC0", 0, 1)]), turns([("RPC0", 2, 3)])
    other_table = dataclasses.replace(second, device=np.array([0], np.int16), devices=("RPC2", "RPC0"))
    whole = concatenate([first, other_table])
    assert [whole.devices[place] for place in whole.device] == ["RPC0", "RPC2"]


def test_choosing_spans() -> None:
    spans = concatenate([turns([("RPC0", 0, 10), ("RPC1", 10, 20)]), span(SpanKind.COPY, "RPC1", 8, 12)])
    assert spans.of_kind(SpanKind.COPY).begin_ns.tolist() == [8]
    assert spans.on("RPC1").begin_ns.tolist() == [8, 10]
    assert spans.on("nobody").begin_ns.tolist() == []
    assert spans.reaching_into(10, 11).begin_ns.tolist() == [8, 10]
    assert equal(spans.where(np.ones(3, np.bool_)), spans)


def test_layers_are_those_of_all_ranges_and_splits_without_one_add_none() -> None:
    spans = concatenate(
        [
            span(SpanKind.COMPUTE, "RPC0", 0, 1, first_layer=0, last_layer=2),
            span(SpanKind.COMPUTE, "RPC0", 2, 3, first_layer=2, last_layer=3),
            span(SpanKind.COMPUTE, "RPC1", 1, 2),
            span(SpanKind.COPY, "RPC1", 3, 4, first_layer=9, last_layer=9),
            span(SpanKind.COMPUTE, "", 4, 5, first_layer=9, last_layer=9),
        ]
    )
    assert layers_by_device(spans) == {"RPC0": (0, 1, 2, 3)}
    assert layers_by_device(NO_SPANS) == {}


def test_splits_are_counted_for_the_pass_that_they_begin_in() -> None:
    passes = [span(SpanKind.PASS, "", 0, 10), span(SpanKind.PASS, "", 20, 30)]
    work = turns([("RPC0", 0, 4), ("RPC1", 4, 10), ("RPC0", 12, 13), ("RPC0", 21, 29)])
    assert splits_per_pass(concatenate([*passes, work])).tolist() == [2, 1]
    assert splits_per_pass(NO_SPANS).tolist() == []
