from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from k3prof.core.spans import SpanKind, Spans
from k3prof.core.timeline import ClockAnchor, Series
from k3prof.core.trial import Command, TrialRecord
from k3prof.errors import ConfigError
from k3prof.store.trace import Trace
from k3prof.workflows.export import export_timeline
from tests.doubles.named_spans import named_spans
from tests.doubles.pftrace import read_pftrace
from tests.doubles.trials import MS, START_NS, stand_in_trial

UNIX_NS = 1_790_000_000_000_000_000
T = START_NS + 2_000 * MS
SPLITS = named_spans(
    [
        (
            SpanKind.COMPUTE,
            f"RPC{turn % 3}",
            T + turn * 7_000_003,
            T + turn * 7_000_003 + 6_999_999,
            {"layers": (turn, turn)},
        )
        for turn in range(300)
    ]
)


def write_trace(path: Path, *trials: tuple[TrialRecord, tuple[Series, ...], Spans, ClockAnchor]) -> Path:
    """Write trials into a trace, a sweep for each, the last of which asks for all of them."""
    with Trace.writable(path) as trace:
        for trial, series, spans, anchor in trials:
            asked = [(one.spec.placement, one.spec.configuration) for one, *_ in trials]
            sweep = trace.begin_sweep(anchor, {}, {}, asked)
            number = trace.begin_trial(
                sweep, trial.spec, trial.devices, Command((), {}), predicted=None, started_ns=trial.started_ns
            )
            trace.add_requests(number, trial.requests)
            trace.add_samples(number, series)
            trace.add_spans(number, spans)
            trace.finish_trial(number, trial.outcome, trial.ended_ns or 0, {})
    return path


def placement(name: str, build: str) -> tuple[TrialRecord, tuple[Series, ...]]:
    trial, series = stand_in_trial(name, repeat=1)
    return replace(trial, spec=replace(trial.spec, build=build)), series


def test_every_placement_is_a_group_with_its_own_splits_on_the_wall_clock(tmp_path):
    rebooted = ClockAnchor(START_NS - 7, UNIX_NS + 3_600_000_000_000)
    path = write_trace(
        tmp_path / "t.sqlite",
        (*placement("even", "a"), SPLITS, ClockAnchor(START_NS, UNIX_NS)),
        (*placement("uneven", "b"), SPLITS, rebooted),
    )
    output = tmp_path / "t.pftrace"
    assert sorted(export_timeline(path, output, None)) == ["even", "uneven"]
    read = read_pftrace(output.read_bytes())
    assert {one[0] for one in read.paths} == {"even", "uneven"}
    for name, shift_ns in (("even", UNIX_NS - START_NS), ("uneven", rebooted.unix_ns - rebooted.monotonic_ns)):
        for device in range(3):
            slices = [(begin, end, what) for begin, end, what, _ in read.slices[name, f"RPC{device}"]]
            begins = T + shift_ns + 7_000_003 * np.arange(device, 300, 3)
            expected = [
                (int(begin), int(begin) + 6_999_999, f"layer {turn}")
                for begin, turn in zip(begins, range(device, 300, 3), strict=True)
            ]
            assert slices == expected


def test_one_placement_may_be_chosen(tmp_path):
    path = write_trace(
        tmp_path / "t.sqlite",
        (*placement("even", "a"), SPLITS, ClockAnchor(START_NS, UNIX_NS)),
        (*placement("uneven", "b"), SPLITS, ClockAnchor(START_NS, UNIX_NS)),
    )
    output = tmp_path / "t.pftrace"
    assert export_timeline(path, output, "uneven") == ["uneven"]
    assert {one[0] for one in read_pftrace(output.read_bytes()).paths} == {"uneven"}


def test_equal_traces_give_equal_files(tmp_path):
    path = write_trace(tmp_path / "t.sqlite", (*placement("even", "a"), SPLITS, ClockAnchor(START_NS, UNIX_NS)))
    for name in ("a.pftrace", "b.pftrace"):
        export_timeline(path, tmp_path / name, None)
    assert (tmp_path / "a.pftrace").read_bytes() == (tmp_path / "b.pftrace").read_bytes()


def test_the_kinds_of_files_are_named(tmp_path):
    with pytest.raises(ConfigError) as caught:
        export_timeline(tmp_path / "t.sqlite", tmp_path / "t.gif", None)
    assert caught.value.hint == "one of .html, .png, .svg, .pftrace"
