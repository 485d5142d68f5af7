"""Traced sweeps: the real llama-server with the split tracer in it, driven as a user would."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import psutil
import pytest

from k3prof.core.build import Build
from k3prof.core.spans import SpanKind, Spans, SplitMode, busy_ns, splits_per_pass
from k3prof.core.summary import phases
from k3prof.core.timeline import PhaseKind
from k3prof.core.trial import TrialStatus
from k3prof.llama.split_ring import CAPACITY
from k3prof.llama.splits import SplitTracer, compiled_tracer
from k3prof.store.trace import Trace
from k3prof.workflows.split_tracing import SplitTracing, TrialTracer, plan_tracing
from tests.doubles.traced_build import RECORDS_PER_PASS, compile_build, running, told
from tests.workflows.test_sweep import Sweeper

pytestmark = pytest.mark.server

SWEEP = """
model = "demo:k3-tiny"
devices = "rpc:2"
workloads = ["tg16"]
repeat = 2
[flags]
ctx-size = 512
"""


@pytest.fixture
def sweeper(tmp_path: Path, build: Build) -> Sweeper:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "even.toml").write_text("")
    return Sweeper(tmp_path, folder, build)


def test_a_traced_sweep_keeps_the_spans_of_measured_tokens_and_says_what_tracing_cost(sweeper: Sweeper) -> None:
    done = sweeper.run("--splits", "exact")
    assert done.returncode == 0, done.stderr
    assert "time per token with the exact split tracer on: tg16" in " ".join(done.stdout.split())
    with Trace.readable(sweeper.trace) as trace:
        (trial,) = trace.trials()
        spans, command = trace.spans(trial.id), trace.command(trial.id)
    assert trial.spec.splits is SplitMode.EXACT
    assert command.env["K3PROF_SPLITS"]
    assert [caveat.code for caveat in trial.caveats if caveat.code.startswith("sp")] == ["splits-traced"]
    roles = [request.role for request in trial.requests if request.role != "warmup"]
    assert roles == ["measure", "untraced", "untraced", "measure"]
    decoding = [phase for phase in phases(trial) if phase.kind is PhaseKind.DECODE]
    assert len(decoding) == 2
    for phase in decoding:
        seen = spans.reaching_into(phase.begin_ns, phase.end_ns)
        assert len(set(splits_per_pass(seen).tolist()[1:-1])) == 1
        busy = busy_ns(seen, ["RPC0", "RPC1"], phase.begin_ns, phase.end_ns)
        assert all(0 < (ns or 0) < phase.end_ns - phase.begin_ns for ns in busy.values())
    for phase in phases(trial):
        if phase.kind is PhaseKind.UNTRACED:
            # The server may still be saying what the request before was about.
            assert not len(spans.of_kind(SpanKind.PASS).reaching_into(phase.begin_ns, phase.end_ns))


def test_traced_and_untraced_figures_are_never_put_together(sweeper: Sweeper) -> None:
    assert sweeper.run("--splits", "light").returncode == 0
    again = sweeper.run()
    assert again.returncode == 0
    assert "measured earlier" not in again.stderr
    with Trace.readable(sweeper.trace) as trace:
        light, untraced = trace.trials()
        assert len(trace.spans(light.id))
        assert not len(trace.spans(untraced.id))
    assert light.spec.configuration != untraced.spec.configuration
    assert {request.role for request in untraced.requests} == {"warmup", "measure"}
    assert sweeper.run("--splits", "light").stderr.count("measured earlier") == 1


def test_without_a_compiler_the_sweep_goes_on_and_says_why_nothing_is_traced(
    sweeper: Sweeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CC", raising=False)
    done = sweeper.run("--splits", "exact", "--repeat", "1")
    assert done.returncode == 0, done.stderr
    assert "note: splits are not traced: no C compiler here: looked for cc, gcc, clang" in done.stderr
    assert "hint: install a C++ compiler" in done.stderr
    with Trace.readable(sweeper.trace) as trace:
        (trial,) = trace.trials()
    assert trial.outcome.status is TrialStatus.OK
    assert trial.spec.splits is SplitMode.OFF
    assert "splits-not-traced" in {caveat.code for caveat in trial.caveats}


def test_the_plan_shows_the_environment_that_traces(sweeper: Sweeper) -> None:
    planned = json.loads(sweeper.run("--splits", "exact", "--dry-run", "--format", "json").stdout)
    env = planned["trials"][0]["command"]["env"]
    assert Path(env["LD_PRELOAD"]).is_file()
    assert env["K3PROF_SPLITS"] == "RING"


def test_the_spans_of_a_server_that_dies_are_kept_to_the_last(sweeper: Sweeper) -> None:
    with sweeper.start("--splits", "exact", "--workload", "tg400", "--repeat", "1") as sweep:
        server = measured_server(sweep.pid, sweeper.trace)
        os.kill(server, signal.SIGKILL)
        sweep.communicate(timeout=120)
    with Trace.readable(sweeper.trace) as trace:
        (trial,) = trace.trials()
        spans = trace.spans(trial.id)
    assert trial.outcome.status is TrialStatus.FAILED
    (cut,) = [request for request in trial.requests if request.role == "measure"]
    assert (spans.of_kind(SpanKind.PASS).end_ns <= cut.arrivals_ns[-1]).sum() >= cut.tokens.sum()


def measured_server(sweep: int, path: Path) -> int:
    """Wait until the sweep has stored spans, and return the process of its llama-server."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        if path.exists() and (trials := stored(path)):
            with Trace.readable(path) as trace:
                if len(trace.spans(trials[0])):
                    names = {child.name(): child.pid for child in psutil.Process(sweep).children(recursive=True)}
                    return names["llama-server"]
        time.sleep(0.05)
    raise AssertionError("no spans were stored within a minute")


def stored(path: Path) -> list[int]:
    with Trace.readable(path) as trace:
        return [trial.id for trial in trace.trials()]


def test_records_that_nobody_read_in_time_are_counted_beside_those_that_were(tmp_path: Path) -> None:
    kept: list[Spans] = []
    tracer = TrialTracer(SplitTracing(SplitMode.LIGHT, SplitTracer(compiled_tracer())), tmp_path, (), kept.append)
    tracer.switch(on=True)
    passes = CAPACITY // RECORDS_PER_PASS + 1000
    with running(compile_build(tmp_path / "build"), Path(tracer.env["K3PROF_SPLITS"]), passes) as process:
        told(process)
    tracer.drain(final=True)
    assert sum(map(len, kept)) == CAPACITY
    (caveat,) = tracer.caveats
    lost = passes * RECORDS_PER_PASS - CAPACITY
    assert caveat.code == "spans-lost"
    assert f"{lost:,} of the split tracer's records were lost, 8.4 % of all" in caveat.message


def test_nothing_is_tried_where_nothing_is_to_be_traced(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "no-such-cc")
    assert plan_tracing(SplitMode.OFF, build).caveat is None
    caveat = plan_tracing(SplitMode.EXACT, build).caveat
    assert caveat is not None
    assert "CC: no-such-cc: no such compiler" in caveat.message
