from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3prof.core.build import Build
from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.timeline import ClockAnchor, Counter, Series
from k3prof.core.trial import (
    Caveat,
    Command,
    Failure,
    Outcome,
    RequestRecord,
    RequestStatus,
    ServerTimings,
    TrialStatus,
    Workload,
)
from k3prof.errors import TraceError
from k3prof.llama.demo_model import demo_model
from k3prof.llama.gguf import read_model
from k3prof.store.trace import Trace
from tests.core.test_trial import SPEC

ANCHOR = ClockAnchor(123, 456)
COMMAND = Command(("/b/llama-server", "--port", "1"), {"CUDA_VISIBLE_DEVICES": "-1"})
DEVICES = (Device("RPC0", DeviceKind.STAND_IN, "stand-in"), HOST)
PREDICTED = (PlannedBuffer(BufferKind.KV, "RPC0[127.0.0.1:1]", "RPC0", 4096),)
BUILD = Build("default", "/b", "v (build 1, commit abc)", "abc", "GNU", ("-DX=ON",), "sdist", "f" * 64, True)


def begin(trace: Trace) -> tuple[int, int]:
    sweep = trace.begin_sweep(ANCHOR, {"model": "m"}, {"cores": 2}, [("even", SPEC.configuration)])
    return sweep, trace.begin_trial(sweep, SPEC, DEVICES, COMMAND, predicted=PREDICTED, started_ns=1000)


def series(values: list[float], start: int = 0, device: str = "RPC0") -> Series:
    time_ns = np.arange(start, start + len(values), dtype=np.int64)
    return Series(device, Counter.CPU_TIME_NS, 5_000_000, time_ns, np.array(values))


def request(repetition: int = 0, **changes: object) -> RequestRecord:
    fields = {
        "workload": Workload("tg", 128, 64, 2),
        "role": "measure",
        "repetition": repetition,
        "stream": 1,
        "sent_ns": 10,
        "arrivals_ns": np.array([20, 30], np.int64),
        "tokens": np.array([1, 2], np.int64),
        "ended_ns": 40,
        "timings": ServerTimings(prompt_n=65, prompt_ms=1.5, predicted_n=128, predicted_ms=None),
        "status": RequestStatus.CUT,
        "reason": "ReadError: x",
    }
    return RequestRecord(**{**fields, **changes})  # type: ignore[arg-type]


def test_everything_written_is_read_back_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "traces" / "a.sqlite"
    with Trace.writable(path) as trace:
        trace.add_build(BUILD)
        _, trial = begin(trace)
        trace.mark_ready(trial, 2000)
        trace.add_requests(trial, [request()])
        trace.add_samples(trial, [series([1.0, 2.5]), series([9.0], device="CPU")])
        trace.add_samples(trial, [series([3.0], start=2)])
        trace.add_caveats(trial, [Caveat("c", "m", "r")])
        outcome = Outcome(TrialStatus.FAILED, Failure.OUT_OF_MEMORY, "no", "line")
        trace.finish_trial(trial, outcome, 3000, {"llama-server": b"log \xff"})
    with Trace.readable(path) as trace:
        sweep = trace.last_sweep()
        assert (sweep.anchor, sweep.settings, sweep.host) == (ANCHOR, {"model": "m"}, {"cores": 2})
        assert sweep.asked == (("even", SPEC.configuration),)
        assert trace.builds() == [BUILD]
        (read,) = trace.trials(SPEC.configuration)
        assert (read.spec, read.devices) == (SPEC, DEVICES)
        assert read.spec.configuration == SPEC.configuration
        assert (read.started_ns, read.ready_ns, read.ended_ns, read.outcome) == (1000, 2000, 3000, outcome)
        assert read.caveats == (Caveat("c", "m", "r"),)
        (back,) = read.requests
        assert (back.workload, back.timings, back.status, back.reason) == (
            request().workload,
            request().timings,
            RequestStatus.CUT,
            "ReadError: x",
        )
        assert back.arrivals_ns.tolist() == [20, 30]
        assert back.tokens.tolist() == [1, 2]
        by_device = {one.device: one for one in trace.series(trial)}
        assert by_device["RPC0"].value.tolist() == [1.0, 2.5, 3.0]
        assert by_device["RPC0"].time_ns.tolist() == [0, 1, 2]
        assert by_device["CPU"].value.tolist() == [9.0]
        assert trace.command(trial) == COMMAND
        assert trace.predicted(trial) == PREDICTED
        assert trace.log(trial) == "log \N{REPLACEMENT CHARACTER}"
        assert trace.log(trial, "RPC0") is None


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    flags=st.dictionaries(
        st.text(min_size=1, max_size=8),
        st.one_of(
            st.booleans(),
            st.integers(-(2**53), 2**53),
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(max_size=8),
            st.lists(st.one_of(st.integers(-9, 9), st.text(max_size=3)), max_size=3).map(tuple),
        ),
        max_size=5,
    )
)
def test_a_configuration_survives_the_file_whatever_its_flags(tmp_path: Path, flags: dict) -> None:
    from dataclasses import replace

    spec = replace(SPEC, flags=flags)
    path = tmp_path / f"{spec.configuration}.sqlite"
    with Trace.writable(path) as trace:
        sweep = trace.begin_sweep(ANCHOR, {}, {}, [])
        trace.begin_trial(sweep, spec, DEVICES, COMMAND, predicted=None, started_ns=1)
        assert [one.spec.configuration for one in trace.trials(spec.configuration)][-1:] == [spec.configuration]


def test_a_killed_writer_loses_no_finished_trial_and_its_running_one_becomes_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from k3prof.core.trial import Outcome, TrialStatus
        from k3prof.store.trace import Trace
        from tests.store.test_trace import begin, request, series
        trace = Trace.writable(Path(sys.argv[1]))
        sweep, first = begin(trace)
        trace.finish_trial(first, Outcome(TrialStatus.OK), 2, {"llama-server": b"x"})
        _, second = begin(trace)
        number = 0
        print("ready", flush=True)
        while True:
            trace.add_requests(second, [request(number)])
            trace.add_samples(second, [series([1.0] * 50, start=number * 50)])
            number += 1
    """)
    writer = subprocess.Popen([sys.executable, "-c", script, str(path)], stdout=subprocess.PIPE)
    assert writer.stdout is not None
    assert writer.stdout.readline() == b"ready\n"
    threading.Event().wait(0.3)
    os.kill(writer.pid, signal.SIGKILL)
    writer.wait()
    with Trace.writable(path) as trace:
        trace.begin_sweep(ANCHOR, {}, {}, [])
        first, second = trace.trials()
        assert first.outcome.status is TrialStatus.OK
        assert second.outcome.status is TrialStatus.INTERRUPTED
        assert [one.repetition for one in second.requests] == list(range(len(second.requests)))
        assert len(second.requests) >= 1
        (samples,) = trace.series(second.id)
        assert samples.time_ns.size // 50 in (len(second.requests), len(second.requests) - 1)
        assert np.all(np.diff(samples.time_ns) == 1)


def test_a_second_sweep_into_the_same_trace_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Trace.writable(path), pytest.raises(TraceError, match=r"a\.sqlite: another sweep is writing") as caught:
        Trace.writable(path)
    assert "--trace" in caught.value.hint
    Trace.writable(path).close()


def test_a_growing_trace_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Trace.writable(path) as writer:
        _, trial = begin(writer)
        writer.add_samples(trial, [series([1.0])])
        with Trace.readable(path) as reader:
            assert len(reader.series(trial)) == 1


@pytest.mark.parametrize("opening", [Trace.writable, Trace.readable])
@pytest.mark.parametrize("content", [b"model = 1\n", b"\x00" * 100, b"GGUF", b"SQLite format 3\x00" + b"\x00" * 84])
def test_a_file_that_is_no_trace_is_refused_and_left_alone(tmp_path: Path, opening, content: bytes) -> None:
    path = tmp_path / "a.sqlite"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"a\.sqlite: "):
        opening(path)
    assert path.read_bytes() == content


@pytest.mark.parametrize("opening", [Trace.writable, Trace.readable])
def test_somebody_elses_database_is_refused_and_left_alone(tmp_path: Path, opening) -> None:
    path = tmp_path / "a.sqlite"
    with sqlite3.connect(path) as database:
        database.execute("CREATE TABLE notes (text)")
    database.close()
    before = path.read_bytes()
    with pytest.raises(TraceError, match="is no k3prof trace"):
        opening(path)
    assert path.read_bytes() == before


def test_a_trace_of_another_version_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    Trace.writable(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(TraceError, match="version 99; this k3prof reads versions 1 to 2"):
        Trace.readable(path)


def test_a_trace_that_is_not_there_or_not_writable_is_one_clear_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such trace"):
        Trace.readable(tmp_path / "none.sqlite")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(TraceError, match="cannot be opened: Not a directory"):
        Trace.writable(file / "a.sqlite")
    with pytest.raises(TraceError, match="cannot be opened: Is a directory"):
        Trace.writable(tmp_path)


def test_a_full_disk_is_one_clear_error_and_keeps_what_was_stored(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    with Trace.writable(path) as trace:
        _, trial = begin(trace)
        trace._file._connection.execute("PRAGMA max_page_count = 40")
        with pytest.raises(TraceError, match="disk is full") as caught:
            for number in range(1000):
                trace.add_samples(trial, [series([1.0] * 1000, start=number * 1000)])
        assert "kept" in caught.value.hint
        assert trace.series(trial)[0].time_ns.size % 1000 == 0


def test_a_finished_trace_is_one_plain_file_that_opens_read_only(tmp_path: Path) -> None:
    path = tmp_path / "t" / "a.sqlite"
    with Trace.writable(path) as trace:
        begin(trace)
    assert [one.name for one in path.parent.iterdir()] == ["a.sqlite"]
    assert path.read_bytes()[18:20] == b"\x01\x01"  # the file format's own mark of a rollback journal, not a WAL
    path.chmod(0o444)
    with Trace.readable(path) as trace:
        assert len(trace.trials()) == 1


def test_an_empty_file_becomes_a_trace_and_is_none_before(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    path.touch()
    with pytest.raises(TraceError, match="is empty"):
        Trace.readable(path)
    with Trace.writable(path) as trace:
        begin(trace)
    assert [one.name for one in tmp_path.iterdir()] == ["a.sqlite"]


def test_a_trace_is_whole_from_its_first_moment(tmp_path: Path) -> None:
    """Whoever looks while others make traces finds none, an empty file or a whole one, never a part."""
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from k3prof.store.trace import Trace
        for number in range(200):
            Trace.writable(Path(sys.argv[1]) / f"{number}.sqlite").close()
    """)
    maker = subprocess.Popen([sys.executable, "-c", script, str(tmp_path)])
    seen = 0
    while maker.poll() is None:
        newest = max(tmp_path.glob("*.sqlite"), key=lambda path: int(path.stem), default=None)
        if newest is not None:
            try:
                Trace.readable(newest).close()
                seen += 1
            except TraceError as error:
                assert "is empty" in error.message
    assert maker.returncode == 0
    assert seen > 0


@pytest.mark.parametrize("attempt", range(5))
def test_many_writers_at_once_are_admitted_one_at_a_time(tmp_path: Path, attempt: int) -> None:
    """All wait for one moment, so that they find the file missing, empty, replaced and locked."""
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from k3prof.errors import TraceError
        from k3prof.store.trace import Trace
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            with Trace.writable(Path(sys.argv[1])):
                print("in", flush=True)
                sys.stdin.readline()
        except TraceError as error:
            print(error.message, flush=True)
    """)
    command = [sys.executable, "-c", script, str(tmp_path / "a.sqlite")]
    writers = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(8)]
    for writer in writers:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    answers = [writer.stdout.readline() for writer in writers if writer.stdout is not None]
    for writer in writers:
        writer.communicate("\n")
    assert sum(answer == "in\n" for answer in answers) == 1
    assert all(answer == "in\n" or "another sweep is writing to it" in answer for answer in answers)


def test_a_model_is_read_back_with_every_tensor(tmp_path: Path) -> None:
    model = read_model(demo_model("k3-tiny"))
    with Trace.writable(tmp_path / "a.sqlite") as trace:
        trace.add_model("f", model)
        assert trace.model("f") == model
        assert trace.model("g") is None


def test_a_sweep_that_nothing_dates_has_no_anchor_and_its_trials_none(tmp_path: Path) -> None:
    with Trace.writable(tmp_path / "a.sqlite") as trace:
        _, dated = begin(trace)
        undated = trace.begin_trial(
            trace.begin_sweep(None, {}, {}, []), SPEC, (), COMMAND, predicted=None, started_ns=5
        )
        assert trace.last_sweep().anchor is None
        assert trace.anchors() == {dated: ANCHOR}
        assert undated != dated


def test_a_lock_on_a_file_that_was_replaced_meanwhile_admits_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.sqlite"
    path.touch()
    flock, first = fcntl.flock, []

    def overtaken(descriptor: int, operation: int) -> None:
        monkeypatch.setattr(fcntl, "flock", flock)
        path.unlink()
        first.append(Trace.writable(path))
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", overtaken)
    with pytest.raises(TraceError, match="another sweep is writing"):
        Trace.writable(path)
    with first[0] as trace:
        begin(trace)
    with Trace.readable(path) as trace:
        assert len(trace.trials()) == 1


def test_what_happened_to_devices_is_kept_with_its_trial(tmp_path: Path) -> None:
    events = [
        DeviceEvent(30, "CUDA1", EventKind.XID, "Xid 79: the GPU has fallen off the bus", 79),
        DeviceEvent(10, "CUDA0", EventKind.PEER, "CUDA1: over one PCIe switch"),
        DeviceEvent(20, "", EventKind.ECC, "uncorrectable"),
    ]
    with Trace.writable(tmp_path / "t.sqlite") as trace:
        (_, first), (_, second) = begin(trace), begin(trace)
        trace.add_events(first, events)
        assert trace.events(first) == sorted(events, key=lambda event: event.time_ns)
        assert trace.events(second) == []
