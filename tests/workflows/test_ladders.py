"""Ladders on the real llama-server: what fits is measured, with prompts that no level has seen; the rest is named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.core.layout.level_fit import LEVEL_SKIPPED
from k3prof.store.trace import Trace
from k3prof.workflows.results import read_results
from tests.workflows.test_sweep import Sweeper

pytestmark = pytest.mark.server

SWEEP = """
model = "demo:k3-tiny"
devices = "rpc:2"
workloads = ["tg4 x2,4", "tg4@d0,64,128,4k"]
repeat = 2
[flags]
ctx-size = 1024
"""


@pytest.fixture(scope="module")
def ladders(tmp_path_factory: pytest.TempPathFactory, build: Build) -> Sweeper:
    folder = tmp_path_factory.mktemp("ladders")
    experiment = folder / "mine"
    experiment.mkdir()
    (experiment / "sweep.toml").write_text(SWEEP)
    (experiment / "even.toml").write_text("")
    return Sweeper(folder, experiment, build)


def test_a_sweep_measures_the_levels_that_fit_and_names_the_one_that_does_not(ladders: Sweeper) -> None:
    planned = ladders.run("--dry-run")
    assert "# left out: tg4@d4096: needs 4101 tokens of context, a slot has 256" in planned.stdout
    done = ladders.run("--format", "json")
    assert done.returncode == 0, done.stderr
    assert "note: left out: tg4@d4096: needs 4101 tokens of context" in done.stderr
    (found,) = json.loads(done.stdout)["placements"]
    (streams,), (depth,) = found["ladders"]["by_streams"], found["ladders"]["by_depth"]
    assert [one["streams"] for one in streams["levels"]] == [1, 2, 4]
    assert [one["depth"] for one in depth["levels"]] == [0, 64, 128]
    assert all(one["rate_tok_per_s"]["n"] == 2 for one in streams["levels"])
    assert all(one["ms_per_token"]["n"] == 2 for one in depth["levels"])
    assert [one["code"] for one in found["caveats"] if one["code"] == LEVEL_SKIPPED] == [LEVEL_SKIPPED]
    again = ladders.run("--dry-run")
    assert "even: nothing left to do" in again.stdout


def test_no_level_finds_a_prompt_in_the_cache_that_an_earlier_one_left_there(ladders: Sweeper) -> None:
    with Trace.readable(ladders.trace) as trace:
        requests = [request for trial in trace.trials() for request in trial.requests]
    assert {request.workload.name for request in requests if request.role == "measure"} == {
        "tg4",
        "tg4 x2",
        "tg4 x4",
        "tg4@d64",
        "tg4@d128",
    }
    assert [request.timings.cache_n for request in requests] == [0] * len(requests)
    assert [request.timings.prompt_n for request in requests] == [
        1 + (request.workload.depth if request.role == "measure" else 0) for request in requests
    ]


def test_the_bytes_of_context_are_those_that_the_server_allocated(ladders: Sweeper) -> None:
    with Trace.readable(ladders.trace) as trace:
        (summary,) = read_results(trace).summaries
    assert summary.context_cost is not None
    assert summary.proof is not None
    allocated = {term.device: term.actual_mib for term in summary.proof.memory if term.kind == "KV cache"}
    assert allocated == pytest.approx(
        {device: n_bytes * 1024 / 2**20 for device, n_bytes in summary.context_cost.bytes_by_device.items()}, abs=0.01
    )


def test_a_depth_written_alone_is_refused_as_ever(ladders: Sweeper, tmp_path: Path) -> None:
    done = ladders.run("--dry-run", "--workload", "tg4@d4k")
    assert done.returncode == 2
    assert "1024 tokens are too few for tg4@d4096, which needs 4101" in done.stderr


def test_a_ladder_of_which_nothing_fits_is_refused_with_the_first_level(ladders: Sweeper) -> None:
    done = ladders.run("--dry-run", "--workload", "tg4@d2k,4k")
    assert done.returncode == 2
    assert "even.toml: nothing is left to measure: tg4@d2048: needs 2053 tokens of context" in done.stderr
    assert "set ctx-size to at least 2304" in done.stderr
