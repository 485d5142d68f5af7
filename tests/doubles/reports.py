"""A sweep's whole report input: placements that ran, one that failed, one that was cut short."""

from __future__ import annotations

from k3prof.core.build import Build
from k3prof.core.summary import summarize_trial
from k3prof.core.timeline import ClockAnchor
from k3prof.core.trial import Caveat, Command, Failure, TrialStatus
from k3prof.reporters.report_input import ReportInput
from tests.doubles.trials import START_NS, failed_trial, stand_in_trial

BUILD = Build(
    name="default",
    bin_dir="/home/someone/.cache/k3prof/builds/default/bin",
    version="0.5.0-dev (build 1, commit 0c1e570)",
    commit="0c1e570",
    compiler="GNU 14.2.0 for Linux x86_64",
    cmake_flags=("-DGGML_RPC=ON", "-DBUILD_SHARED_LIBS=ON"),
    source="llama_cpp_python-0.3.36.tar.gz",
    sha256="0c1e570aa41b22d3" * 4,
    shared_libraries=True,
)
SETTINGS = 'model = "demo:k3"\ndevices = "rpc:3"\nworkloads = ["pp512", "tg128"]\nrepeat = 3\n'
NO_PLATEAU = Caveat(
    "no-plateau",
    "tg128 was still getting faster when the warm-up ended: 27.1, 29.8, 31.0 tok/s",
    "raise warmup in sweep.toml",
)


def report_input(name: str = "even", title: str = "placements", evidence: str | None = None) -> ReportInput:
    said = {} if evidence is None else {"evidence": evidence}
    observed = [
        stand_in_trial(name, (8, 6, 7), 30, number=1),
        stand_in_trial("uneven", (12, 4, 4), 29, number=2, caveats=(NO_PLATEAU,)),
        stand_in_trial("experts-8", (6, 5, 5), 24, number=3),
        failed_trial("all-on-one", number=4, **said),
        failed_trial(
            "autofit",
            number=5,
            failure=Failure.STALLED,
            message="the server said nothing for 60 s while loading",
            evidence="load_tensors: loading model tensors, this can take a while... (mmap = true)",
            status=TrialStatus.FAILED,
        ),
    ]
    trials = [trial for trial, _ in observed]
    return ReportInput(
        title=title,
        summaries=[summarize_trial(trial, series) for trial, series in observed],
        trials=trials,
        series={trial.id: series for trial, series in observed},
        spans={},
        commands={trial.id: Command(command(trial.spec.placement), trial.spec.env) for trial in trials},
        builds=[BUILD],
        host={
            "processor": "AMD EPYC, 2 cores",
            "memory": "24.0 GiB",
            "kernel": "Linux 6.12",
            "cgroup quota": "2 cores",
        },
        settings=SETTINGS,
        anchor=ClockAnchor(START_NS, 1_790_000_000_000_000_000),
    )


def command(placement: str) -> tuple[str, ...]:
    return (
        "/home/someone/.cache/k3prof/builds/default/bin/llama-server",
        *("--model", "/home/someone/.cache/k3prof/models/kimi-k3-demo.gguf", "--alias", placement),
        *("--rpc", "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003", "--tensor-split", "1,1,1", "--ctx-size", "4096"),
    )
