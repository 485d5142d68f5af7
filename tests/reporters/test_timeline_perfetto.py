from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.spans import SpanKind
from k3prof.core.timeline import ClockAnchor, Counter, Series, busy_steps
from k3prof.core.trial import Workload
from k3prof.reporters.timeline_data import timeline
from k3prof.reporters.timeline_perfetto import as_pftrace
from tests.doubles.named_spans import named_spans
from tests.doubles.pftrace import read_pftrace
from tests.doubles.traced_trials import traced_trial
from tests.doubles.trials import MS, START_NS, failed_trial, gpu_trial, stand_in_trial

COMPUTE, COPY, WAIT, SUBMIT, PASS = SpanKind.COMPUTE, SpanKind.COPY, SpanKind.WAIT, SpanKind.SUBMIT, SpanKind.PASS
T = START_NS + 2_000 * MS
TOKEN = named_spans(
    [
        (PASS, "", T, T + 21_000_007, {}),
        (SUBMIT, "RPC0", T + 1, T + 500, {}),
        (COMPUTE, "RPC0", T + 10, T + 8_000_001, {"layers": (0, 3), "nodes": 412, "names": ("embd", "l_out-3")}),
        (COPY, "RPC1", T + 8_000_001, T + 8_100_000, {"source": "RPC0", "bytes": 4096, "names": ("l_out-3", "")}),
        (
            COMPUTE,
            "RPC1",
            T + 8_100_000,
            T + 14_000_000,
            {"layers": (4, 4), "nodes": 103, "names": ("norm-4", "l_out-4")},
        ),
        (
            COMPUTE,
            "RPC2",
            T + 14_000_000,
            T + 20_999_999,
            {"nodes": 3, "names": ("result_norm", "result"), "finished": False},
        ),
        (WAIT, "RPC2", T + 15_000_000, T + 21_000_000, {}),
        (COMPUTE, "CPU", T + 21_000_000, T + 21_000_000, {"nodes": 1, "names": ("token", "token")}),
    ]
)


def pftrace(*trials, anchors=None):
    """Return what is read back of (trial, series) or (trial, series, spans) together."""
    return read_pftrace(as_pftrace([timeline(*trial) for trial in trials], anchors or {}))


def intervals(slices) -> list[tuple[int, int, str]]:
    return [(begin_ns, end_ns, name) for begin_ns, end_ns, name, _ in slices]


def test_every_split_is_found_again_to_the_nanosecond_under_its_layers():
    read = pftrace((*stand_in_trial(), TOKEN))
    assert intervals(read.slices["even", "RPC0"]) == [(T + 10, T + 8_000_001, "layers 0–3")]
    assert intervals(read.slices["even", "RPC1"]) == [(T + 8_100_000, T + 14_000_000, "layer 4")]
    assert intervals(read.slices["even", "RPC2"]) == [(T + 14_000_000, T + 20_999_999, "result_norm")]
    assert intervals(read.slices["even", "CPU"]) == [(T + 21_000_000, T + 21_000_000, "token")]
    assert read.slices["even", "RPC0"][0][3] == {"nodes": 412, "first node": "embd", "last node": "l_out-3"}
    assert read.slices["even", "RPC2"][0][3]["ends when"].startswith("the call returned")


def test_copies_waits_and_passes_have_tracks_of_their_own():
    read = pftrace((*stand_in_trial(), TOKEN))
    ((begin_ns, end_ns, name, facts),) = read.slices["even", "RPC1", "copies to RPC1"]
    assert (begin_ns, end_ns, name) == (T + 8_000_001, T + 8_100_000, "l_out-3")
    assert facts == {"copied": "l_out-3", "from": "RPC0", "bytes": 4096}
    assert [name for _, _, name in intervals(read.slices["even", "scheduler"])] == ["submit to RPC0", "wait for RPC2"]
    assert intervals(read.slices["even", "forward passes"]) == [(T, T + 21_000_007, "pass")]


def test_each_device_has_one_track_with_its_busy_share_beneath():
    trial, series = stand_in_trial()
    drawn = timeline(trial, series)
    read = pftrace((trial, series))
    for lane in drawn.lanes:
        values = read.values["even", lane.device, "busy"]
        assert [time_ns for time_ns, _ in values] == lane.edges_ns[:-1].tolist()
        assert [value for _, value in values] == lane.share.tolist()
    assert [path[1] for path in read.paths if len(path) == 2] == [
        "phases", "tokens", "RPC0", "RPC1", "RPC2", "CPU", "machine"
    ]  # fmt: skip


def test_what_stands_in_slices_is_not_written_once_more_as_a_counter():
    trial, series, spans = traced_trial()
    read = pftrace((trial, series, spans))
    for device in ("RPC0", "RPC1", "RPC2"):
        (counter,) = [one for one in series if one.device == device and one.counter is Counter.CPU_TIME_NS]
        edges_ns, share = busy_steps(counter, trial.started_ns, trial.ended_ns)
        assert read.values["even", device, "busy"] == list(zip(edges_ns[:-1].tolist(), share.tolist(), strict=True))
        assert len(read.slices["even", device]) == (spans.on(device).kind == COMPUTE).sum()
        stretch = [(begin_ns, end_ns) for begin_ns, end_ns, _, _ in read.slices["even", device]]
        edges = {edge_ns for one in stretch for edge_ns in one}
        assert not edges & {time_ns for time_ns, _ in read.values["even", device, "busy"]}


def test_a_counter_of_every_begin_and_end_is_a_mean_beneath_its_slices():
    trial, _, spans = traced_trial()
    work = spans.where(spans.kind == COMPUTE).on("RPC0")
    time_ns = np.stack([work.begin_ns, work.end_ns], axis=1).ravel()
    busy_ns = np.repeat(np.cumsum(work.end_ns - work.begin_ns), 2)
    busy_ns[::2] -= work.end_ns - work.begin_ns
    recorded = Series("RPC0", Counter.BUSY_TIME_NS, 1, time_ns, busy_ns.astype(float))
    values = pftrace((trial, (recorded,), spans)).values["even", "RPC0", "busy"]
    assert set(np.diff([time_ns for time_ns, _ in values]).tolist()) == {5 * MS}
    assert sum(share * 5 * MS for _, share in values) == pytest.approx(busy_ns[-1])
    assert max(share for _, share in values) <= 1.0
    alone = pftrace((trial, (recorded,))).values["even", "RPC0", "busy"]
    assert len(alone) >= time_ns.size - 1


def test_counters_lie_beneath_their_device_with_the_values_that_were_read():
    trial, series = gpu_trial()
    time_ns = START_NS + MS * np.arange(3, dtype=np.int64)
    more = (
        Series("CUDA1", Counter.MEMORY_BYTES, 100 * MS, time_ns, np.array([1.5e9, 46_000_000_001, 3e9])),
        Series("CUDA1", Counter.POWER_W, 100 * MS, time_ns, np.array([88.25, np.nan, 301.0])),
        Series("CUDA1", Counter.ENERGY_J, 100 * MS, time_ns, np.array([1.0, 2.0, 3.0])),
    )
    read = pftrace((trial, (*series, *more)))
    assert read.values["layers", "CUDA1", "memory"] == list(
        zip(time_ns.tolist(), [1.5e9, 46_000_000_001, 3e9], strict=True)
    )
    assert read.units["layers", "CUDA1", "memory"] == 3  # CounterDescriptor.UNIT_SIZE_BYTES
    assert read.values["layers", "CUDA1", "power"] == [(int(time_ns[0]), 88.25), (int(time_ns[2]), 301.0)]
    assert read.units["layers", "CUDA1", "power"] == "W"
    assert ("layers", "CUDA1", "energy, sum since the start") in read.values


def test_phases_and_tokens_are_those_of_the_trial():
    trial, series = stand_in_trial()
    read = pftrace((trial, series))
    phases = intervals(read.slices["even", "phases"])
    assert phases == [
        (one.begin_ns, one.end_ns, f"{one.kind} {one.workload}".strip()) for one in timeline(trial, series).phases
    ]
    arrivals = sorted(time_ns for request in trial.requests for time_ns in request.arrivals_ns.tolist())
    assert [time_ns for time_ns, _, _ in read.instants["even", "tokens"]] == arrivals


def test_streams_are_told_apart_and_bursts_are_counted():
    trial, series = stand_in_trial()
    burst = replace(
        trial.requests[-1],
        workload=Workload("tg", 3, streams=2),
        stream=1,
        arrivals_ns=np.array([T], np.int64),
        tokens=np.array([3], np.int64),
    )
    read = pftrace((replace(trial, requests=(burst,)), series))
    assert read.instants["even", "tokens"] == [(T, "3 tokens", {"workload": "tg3 x2", "stream": 2})]


def test_placements_are_groups_in_the_order_given():
    read = pftrace(stand_in_trial("even"), failed_trial("all-on-one"), gpu_trial("layers"))
    assert [path[0] for path in read.paths if len(path) == 1] == ["even", "all-on-one", "layers"]
    assert "failed: out of memory" in read.labels["all-on-one"]


def test_times_are_unix_times_where_every_trial_is_dated():
    both = [(*stand_in_trial(name, number=number), TOKEN) for number, name in enumerate("ab")]
    anchors = {0: ClockAnchor(START_NS, 1_790_000_000_000_000_000), 1: ClockAnchor(7, 1_790_000_500_000_000_009)}
    read = pftrace(*both, anchors=anchors)
    for number, name in enumerate("ab"):
        ((begin_ns, end_ns, _, _),) = read.slices[name, "RPC0"]
        assert begin_ns == T + 10 - anchors[number].monotonic_ns + anchors[number].unix_ns
        assert end_ns - begin_ns == 7_999_991
    (clocks,) = read.clocks
    assert len(clocks) == 2
    assert set(clocks.values()) == {1_790_000_000_000_000_000}
    undated = pftrace(*both, anchors={0: anchors[0]})
    assert undated.clocks == []
    assert undated.slices["a", "RPC0"][0][0] == T + 10


def test_where_nothing_was_read_no_value_is_given_and_the_gap_is_marked():
    trial, series = gpu_trial()
    first = series[0]
    kept = (first.time_ns < START_NS + 3_000 * MS) | (first.time_ns > START_NS + 6_000 * MS)
    gappy = replace(first, time_ns=first.time_ns[kept], value=first.value[kept])
    read = pftrace((trial, (gappy, *series[1:])))
    ((begin_ns, end_ns, _, _),) = read.slices["layers", "CUDA0", "not observed"]
    assert (begin_ns, end_ns) == (START_NS + 2_800 * MS, START_NS + 6_200 * MS)
    assert not [1 for time_ns, _ in read.values["layers", "CUDA0", "busy"] if begin_ns <= time_ns < end_ns]


def test_a_trial_that_never_answered_is_a_group_whose_devices_were_not_observed():
    read = pftrace(failed_trial())
    assert not read.values
    assert ("all-on-one", "RPC0", "not observed") in read.slices


def test_equal_trials_give_equal_bytes():
    first, second = (as_pftrace([timeline(*stand_in_trial(), TOKEN)], {1: ClockAnchor(1, 2)}) for _ in range(2))
    assert first == second


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>alert(1)</script>", "<script>alert(1)</script>"),
        ("a\x1b[31mb\x00c\u202ed\ne", "abcd e"),
        ("模型", "模型"),
        ("", ""),
        ("x" * 5000, "x" * 5000),
    ],
)
def test_names_that_others_chose_are_text_on_one_line_and_nothing_else(name, shown):
    hostile = replace(TOKEN, names=tuple(name for _ in TOKEN.names))
    trial, series = stand_in_trial(name)
    read = pftrace((trial, series, hostile))
    texts = [part for path in read.paths for part in path]
    texts += [
        text for slices in read.slices.values() for _, _, text, facts in slices for text in (text, *facts.values())
    ]
    for text in texts:
        assert not isinstance(text, str) or not any(ord(character) < 32 or character == "\u202e" for character in text)
    assert read.paths[0] == (shown,)
    assert (shown or "unnamed") in {text for _, _, text, _ in read.slices[shown, "RPC2"]}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)), max_size=30))
def test_spans_that_overlap_come_back_as_they_were(pairs):
    rows = [(COMPUTE, "RPC0", T + at, T + at + length, {"layers": (i, i)}) for i, (at, length) in enumerate(pairs)]
    read = pftrace((*failed_trial("x"), named_spans(rows)))
    expected = sorted((begin_ns, end_ns, f"layer {more['layers'][0]}") for _, _, begin_ns, end_ns, more in rows)
    assert sorted(intervals(read.slices["x", "RPC0"])) == expected
    tracks = read.paths.count(("x", "RPC0"))
    deepest = max((sum(b <= at < e for b, e, _ in expected) for at, _, _ in expected), default=1)
    assert tracks <= max(deepest, 1) + 1
