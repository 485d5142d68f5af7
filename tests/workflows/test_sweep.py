"""Whole sweeps: the real llama-server on real stand-ins, driven as a user would, through a process of its own."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from k3prof.core.build import Build
from k3prof.core.trial import Failure, RequestStatus, TrialStatus
from k3prof.errors import TraceError
from k3prof.store.trace import Trace
from k3prof.workflows.results import read_results
from tests.doubles.scripted_build import rebuild
from tests.llama.test_child import eventually

pytestmark = pytest.mark.server

SWEEP = """
model = "demo:k3-tiny"
devices = "rpc:2"
workloads = ["pp64", "tg16"]
repeat = 2
price_per_hour = 2.2
[flags]
ctx-size = 512
"""

PLACEMENTS = {
    "even": "",
    "experts": "[flags]\nn-cpu-moe = 2\n",
    "impossible": '[flags]\nsplit-mode = "tensor"\n',  # which llama.cpp refuses for kimi-k3
    "uneven": "[flags]\ntensor-split = [2, 1]\n",
    # Fit has work to do, and gives up since the split is set already.
    "void": '[flags]\nfit = "on"\nfit-target = 9999999\ntensor-split = [1, 2]\n',
}


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "sweep.toml").write_text(SWEEP)
    for name, text in PLACEMENTS.items():
        (folder / f"{name}.toml").write_text(text)
    return folder


class Sweeper:
    """Runs `k3prof sweep` in a folder, on a build, and knows which servers it leaves."""

    def __init__(self, folder: Path, experiment: Path, build: Build) -> None:
        self.folder = folder
        self.trace = folder / "traces" / f"{experiment.name}.sqlite"
        self._command = [sys.executable, "-m", "k3prof", "sweep", str(experiment), "--build", build.bin_dir]

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._command, *options], cwd=self.folder, capture_output=True, text=True, timeout=300, check=False
        )

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*self._command, *options], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def statuses(self) -> dict[str, TrialStatus]:
        with Trace.readable(self.trace) as trace:
            return {one.placement: one.outcome.status for one in read_results(trace).summaries}


@pytest.fixture
def sweeper(tmp_path: Path, experiment: Path, build: Build) -> Sweeper:
    return Sweeper(tmp_path, experiment, build)


def programs_of(parent: int) -> list[psutil.Process]:
    return [one for one in psutil.Process(parent).children(recursive=True) if one.is_running()]


def test_a_sweep_measures_what_runs_records_what_fails_and_resumes_to_nothing(sweeper: Sweeper) -> None:
    first = sweeper.run("--format", "json")
    assert first.returncode == 0, first.stderr
    found = {one["placement"]: one for one in json.loads(first.stdout)["placements"]}
    assert list(found) == ["even", "experts", "impossible", "uneven", "void"]
    with Trace.readable(sweeper.trace) as trace:
        result = read_results(trace)
        trials = trace.trials()
        for placement in result.placements:
            summary = placement.summary
            if summary.placement == "impossible":
                assert summary.outcome.status is TrialStatus.FAILED
                assert summary.outcome.failure is not None
                assert summary.outcome.message
                continue
            if summary.placement == "void":
                assert summary.outcome.status is TrialStatus.VOID
                assert "tensor_split already set by user" in summary.outcome.evidence
                continue
            assert summary.outcome.status is TrialStatus.OK
            assert summary.proof is not None
            assert [term.agrees for term in summary.proof.memory if term.predicted_mib is not None].count(True) >= 6
            assert not any(term.agrees is False for term in summary.proof.memory)
            ((trial, series),) = placement.trials
            for workload in summary.workloads:
                assert workload.rate is not None
                assert workload.rate.n == 2
                assert workload.parallelism is not None
                assert set(workload.busy_frac) == {"RPC0", "RPC1", "CPU"}
            measured = [request for request in trial.requests if request.role == "measure"]
            assert [request.status for request in measured] == [RequestStatus.OK] * 4
            for request in measured:
                assert int(request.tokens.sum()) == request.timings.predicted_n
            assert {one.device for one in series} >= {"RPC0", "RPC1", "CPU", "host", "sampler"}
            log = trace.log(trial.id)
            assert log is not None
            assert "model buffer size" in log
    page = sweeper.trace.with_suffix(".html").read_text()
    assert "tensor_split already set by user" in page
    assert "Failed, void or interrupted" in page
    files = {path.suffix for path in sweeper.trace.parent.iterdir()}
    assert files == {".sqlite", ".png", ".html"}

    second = sweeper.run()
    assert second.returncode == 0
    assert "measured earlier" in second.stderr
    with Trace.readable(sweeper.trace) as trace:
        assert [one.id for one in trace.trials()] == [one.id for one in trials]


def test_the_servers_own_rate_and_the_clients_agree(sweeper: Sweeper) -> None:
    assert sweeper.run("--only", "even", "--workload", "tg64").returncode == 0
    with Trace.readable(sweeper.trace) as trace:
        (trial,) = trace.trials()
    for request in trial.requests:
        if request.role == "measure":
            assert request.timings.predicted_ms is not None
            seen_ms = (request.arrivals_ns[-1] - request.arrivals_ns[0]) / 1e6
            assert seen_ms == pytest.approx(request.timings.predicted_ms, rel=0.25, abs=3)


def test_streams_run_at_once_in_slots_of_their_own(sweeper: Sweeper) -> None:
    assert sweeper.run("--only", "even", "--workload", "tg32 x3").returncode == 0
    with Trace.readable(sweeper.trace) as trace:
        (trial,) = trace.trials()
        assert "--parallel 3" in " ".join(trace.command(trial.id).argv)
    first = [one for one in trial.requests if one.role == "measure" and one.repetition == 0]
    assert [one.stream for one in first] == [0, 1, 2]
    assert max(one.arrivals_ns[0] for one in first) < min(one.arrivals_ns[-1] for one in first)


def test_a_workload_added_later_is_all_that_is_measured(sweeper: Sweeper, experiment: Path) -> None:
    assert sweeper.run("--only", "even").returncode == 0
    (experiment / "sweep.toml").write_text(SWEEP.replace('"tg16"]', '"tg16", "tg8@d32"]'))
    assert sweeper.run("--only", "even").returncode == 0
    with Trace.readable(sweeper.trace) as trace:
        _, added = trace.trials()
        assert [one.name for one in added.spec.workloads] == ["tg8@d32"]
        (summary,) = read_results(trace).summaries
    assert [one.workload.name for one in summary.workloads] == ["pp64", "tg16", "tg8@d32"]
    assert {request.timings.prompt_n for request in added.requests if request.role == "measure"} == {33}


def test_killed_three_times_at_random_it_still_comes_to_a_complete_trace(sweeper: Sweeper) -> None:
    chance = random.Random(20260727)
    left_behind: list[psutil.Process] = []
    finished: set[str] = set()
    for _ in range(3):
        process = sweeper.start()
        time.sleep(chance.uniform(2.0, 6.0))
        left_behind += programs_of(process.pid) if process.poll() is None else []
        process.kill()
        process.communicate()
        statuses = sweeper.statuses() if sweeper.trace.exists() else {}
        now = {name for name, status in statuses.items() if status is not TrialStatus.INTERRUPTED}
        assert finished <= now
        finished = now
    assert eventually(lambda: not any(one.is_running() and one.status() != "zombie" for one in left_behind))
    last = sweeper.run()
    assert last.returncode == 0, last.stderr
    assert set(sweeper.statuses().values()) == {TrialStatus.OK, TrialStatus.FAILED, TrialStatus.VOID}
    with Trace.readable(sweeper.trace) as trace:
        for summary in read_results(trace).summaries:
            if summary.outcome.status is TrialStatus.OK:
                assert all(one.rate is not None and one.rate.n == 2 for one in summary.workloads)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_interruption_stops_cleanly_and_keeps_what_was_measured(sweeper: Sweeper, number: signal.Signals) -> None:
    process = sweeper.start("--repeat", "200")
    assert eventually(lambda: _requests(sweeper) > 8, 60)
    servers = programs_of(process.pid)
    assert any("llama-server" in one.name() for one in servers)
    process.send_signal(number)
    output, errors = process.communicate(timeout=90)
    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert "goes on from here" in errors
    assert "even" in output
    assert not any(one.is_running() for one in servers)
    with Trace.readable(sweeper.trace) as trace:
        (trial,) = trace.trials()
        assert trial.outcome.status is TrialStatus.INTERRUPTED
        assert len(trial.requests) > 8
        assert trace.log(trial.id)


def test_a_server_that_dies_in_mid_run_is_a_result_and_the_sweep_goes_on(sweeper: Sweeper) -> None:
    process = sweeper.start("--repeat", "50", "--only", "e*")
    assert eventually(lambda: _requests(sweeper) > 8, 60)
    (server,) = (one for one in programs_of(process.pid) if one.name() == "llama-server")
    server.kill()
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    with Trace.readable(sweeper.trace) as trace:
        died, ran = trace.trials()
    assert (died.outcome.status, died.outcome.failure) == (TrialStatus.FAILED, Failure.KILLED)
    assert "SIGKILL" in died.outcome.message
    assert any(request.status is RequestStatus.OK for request in died.requests)
    assert ran.outcome.status is TrialStatus.OK


def test_a_stand_in_that_dies_is_a_lost_device(sweeper: Sweeper) -> None:
    process = sweeper.start("--repeat", "50", "--only", "even")
    assert eventually(lambda: _requests(sweeper) > 8, 60)
    stand_ins = [one for one in programs_of(process.pid) if one.name() == "ggml-rpc-server"]
    assert len(stand_ins) == 2
    stand_ins[1].kill()
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 1, errors
    with Trace.readable(sweeper.trace) as trace:
        (trial,) = trace.trials()
    assert (trial.outcome.status, trial.outcome.failure) == (TrialStatus.FAILED, Failure.DEVICE_LOST)


def test_a_silent_server_is_stalled_and_a_slow_one_that_makes_progress_is_not(
    sweeper: Sweeper, experiment: Path, tmp_path: Path, build: Build
) -> None:
    slow_then_real = """#!/bin/sh
for argument in "$@"; do case "$argument" in --help|--version|--list-devices) exec {real} "$@";; esac; done
case "$*" in *n-cpu-moe*) sleep 600;; esac
for step in 1 2 3 4 5 6; do sleep 0.7; echo "loading $step" >&2; done
exec {real} "$@"
"""
    folder = tmp_path / "slow-build"
    shutil.copytree(build.bin_dir, folder, symlinks=True)
    real = Path(build.bin_dir) / "llama-server"
    (folder / "llama-server").unlink()
    (folder / "llama-server").write_text(slow_then_real.format(real=real))
    (folder / "llama-server").chmod(0o755)
    done = sweeper.run("--build", str(folder), "--stall-timeout", "2", "--only", "e*")
    assert done.returncode == 0, done.stderr
    with Trace.readable(sweeper.trace) as trace:
        by_name = {one.spec.placement: one.outcome for one in trace.trials()}
    assert by_name["even"].status is TrialStatus.OK
    assert (by_name["experts"].status, by_name["experts"].failure) == (TrialStatus.FAILED, Failure.STALLED)


def test_an_override_may_name_a_stand_in_as_its_device(sweeper: Sweeper, experiment: Path) -> None:
    (experiment / "moved.toml").write_text('[flags]\noverride-tensor = ["ffn_.*_exps=RPC1"]\n')
    done = sweeper.run("--only", "moved", "--workload", "tg8", "--format", "json")
    assert done.returncode == 0, done.stderr
    ((found),) = json.loads(done.stdout)["placements"]
    terms = {(one["device"], one["kind"]): one for one in found["proof"]["memory"]}
    moved, left = terms["RPC1", "model"], terms["RPC0", "model"]
    assert moved["agrees"]
    assert left["agrees"]
    assert moved["actual_mib"] > 1.3 * left["actual_mib"]


def test_a_dry_run_prints_the_commands_and_starts_and_writes_nothing(sweeper: Sweeper) -> None:
    done = sweeper.run("--dry-run")
    assert done.returncode == 0
    assert "--split-mode tensor" in done.stdout
    assert done.stdout.index("1/5 even") < done.stdout.index("4/5 uneven")
    assert not sweeper.trace.exists()
    plan = json.loads(sweeper.run("--dry-run", "--format", "json").stdout)
    assert plan["trials"][1]["command"]["argv"][-2:] == ["--n-cpu-moe", "2"]


def test_one_sweep_compares_two_builds_and_resumes_to_nothing(
    sweeper: Sweeper, experiment: Path, tmp_path: Path, build: Build
) -> None:
    rebuilt = rebuild(build, tmp_path / "rebuilt", str(tmp_path / "rebuilt"))
    assert rebuilt.identity != build.identity
    (experiment / "even-rebuilt.toml").write_text(f'build = "{rebuilt.bin_dir}"\n')

    plan = json.loads(sweeper.run("--only", "even*", "--dry-run", "--format", "json").stdout)
    planned = {one["placement"]: (one["build"], one["command"]["argv"]) for one in plan["trials"]}
    assert planned["even"][0] == build.bin_dir
    assert planned["even-rebuilt"][0] == rebuilt.bin_dir
    assert planned["even"][1][1:] == planned["even-rebuilt"][1][1:]
    assert plan["stand_ins"][rebuilt.bin_dir]["RPC1"][0] == f"{rebuilt.bin_dir}/ggml-rpc-server"

    first = sweeper.run("--only", "even*", "--format", "json")
    assert first.returncode == 0, first.stderr
    found = {one["placement"]: one["build"] for one in json.loads(first.stdout)["placements"]}
    assert found == {"even": build.bin_dir, "even-rebuilt": rebuilt.bin_dir}
    with Trace.readable(sweeper.trace) as trace:
        trials = trace.trials()
        ran = {trial.spec.placement: (trial.spec.build, trace.command(trial.id).argv[0]) for trial in trials}
        assert {one.identity for one in trace.builds()} == {build.identity, rebuilt.identity}
    assert ran == {
        "even": (build.identity, f"{build.bin_dir}/llama-server"),
        "even-rebuilt": (rebuilt.identity, f"{rebuilt.bin_dir}/llama-server"),
    }
    assert all(trial.outcome.status is TrialStatus.OK for trial in trials)

    second = sweeper.run("--only", "even*")
    assert second.returncode == 0
    assert second.stderr.count("measured earlier") == 2
    with Trace.readable(sweeper.trace) as trace:
        assert [one.id for one in trace.trials()] == [one.id for one in trials]


def test_two_sweeps_into_one_trace_are_kept_apart(sweeper: Sweeper) -> None:
    process = sweeper.start("--repeat", "50", "--only", "even")
    assert eventually(lambda: _requests(sweeper) > 0, 60)
    second = sweeper.run()
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=60)
    assert second.returncode == 1
    assert second.stderr.startswith(f"error: {Path('traces') / 'mine.sqlite'}: another sweep is writing to it")


@pytest.mark.parametrize(
    ("options", "message", "code"),
    [
        (["--model", "missing.gguf"], "missing.gguf", 2),
        (["--model", "sweep.toml"], "sweep.toml", 2),
        (["--devices", "rpc:99"], "rpc:99", 2),
        (["--only", "nothing*"], "nothing*", 2),
        (["--repeat", "0"], "repeat", 2),
        (["--workload", "fast"], "fast", 2),
        (["--trace", "/proc/nothing/a.sqlite"], "/proc/nothing", 1),
        (["--trace", "mine/sweep.toml"], "is no k3prof trace", 1),
        (["--workload", "tg600"], "ctx-size", 2),
    ],
)
def test_bad_input_is_one_clear_error_and_starts_nothing(
    sweeper: Sweeper, options: list[str], message: str, code: int
) -> None:
    (sweeper.folder / "sweep.toml").write_text("not a model")
    done = sweeper.run(*options)
    assert done.returncode == code, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("error: ") >= 1
    assert not sweeper.trace.exists()


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ('override-tensor = "blk=CUDA7"', "impossible.toml: flags.override-tensor"),
        ('override-tensor = "nothing_like_it=CPU"', "impossible.toml: flags.override-tensor"),
        ('device = ["RPC0", "RPC5"]', "impossible.toml: flags.device"),
        ('override-kv = "qwen3moe.expert_used_count=int:2"', "impossible.toml: flags.override-kv"),
        ("tensor-split = [1, 1, 1]", "impossible.toml: flags.tensor-split"),
        ("n-cpu-moee = 1", "impossible.toml: flags.n-cpu-moee"),
    ],
)
def test_what_cannot_be_laid_out_is_refused_before_anything_starts(
    sweeper: Sweeper, experiment: Path, flag: str, message: str
) -> None:
    (experiment / "impossible.toml").write_text(f"[flags]\n{flag}\n")
    done = sweeper.run()
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not sweeper.trace.exists()


def test_a_truncated_model_is_refused_before_anything_starts(sweeper: Sweeper, tmp_path: Path) -> None:
    from k3prof.llama.demo_model import demo_model

    whole = demo_model("demo:k3-tiny").read_bytes()
    (tmp_path / "cut.gguf").write_bytes(whole[: len(whole) // 2])
    done = sweeper.run("--model", "cut.gguf")
    assert done.returncode == 2
    assert "cut.gguf" in done.stderr
    assert not sweeper.trace.exists()


def _requests(sweeper: Sweeper) -> int:
    try:
        with Trace.readable(sweeper.trace) as trace:
            return sum(len(one.requests) for one in trace.trials())
    except TraceError:
        return 0
