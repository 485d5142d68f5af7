"""One variable at a time, on the real server: what changes its settings, what only follows, what leaves no trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.core.refutation.effective import Effective, effective
from k3prof.core.refutation.guard import asked_differences, guard
from k3prof.core.trial import TrialRecord, Workload
from k3prof.llama.logs import read_log
from k3prof.store.trace import Trace
from tests.workflows.test_sweep import Sweeper

pytestmark = pytest.mark.server

TG = Workload("tg", 8)
SWEEP = """
model = "demo:k3-tiny"
devices = "rpc:2"
workloads = ["tg8"]
repeat = 1
[flags]
ctx-size = 512
"""
PLACEMENTS = {
    "even": "",
    "again": '[env]\nGGML_TRACELESS = "1"\n',  # a variable that nothing reads: a second start of the same
    "experts": "[flags]\nn-cpu-moe = 2\n",
    "fit": '[flags]\nfit = "on"\n',
    "flash": '[flags]\nflash-attn = "off"\n',
    "key": '[flags]\noverride-kv = "kimi-k3.expert_used_count=int:1"\n',
    "batch": "[flags]\nbatch-size = 256\n",
    "cache": '[flags]\ncache-type-k = "q8_0"\ncache-type-v = "q8_0"\n',
    "context": "[flags]\nctx-size = 1024\n",
    "threads": "[flags]\nthreads = 2\n",
    "ubatch": "[flags]\nubatch-size = 64\n",
    "uneven": "[flags]\ntensor-split = [2, 1]\n",
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory, build: Build) -> dict[str, tuple[TrialRecord, Effective]]:
    folder = tmp_path_factory.mktemp("effective")
    experiment = folder / "mine"
    experiment.mkdir()
    (experiment / "sweep.toml").write_text(SWEEP)
    for name, text in PLACEMENTS.items():
        (experiment / f"{name}.toml").write_text(text)
    sweeper = Sweeper(folder, experiment, build)
    done = sweeper.run()
    assert done.returncode == 0, done.stderr
    return read(sweeper.trace)


def read(path: Path) -> dict[str, tuple[TrialRecord, Effective]]:
    with Trace.readable(path) as trace:
        hosts = trace.hosts()
        found = {}
        for trial in trace.trials():
            log = trace.log(trial.id)
            assert log is not None
            found[trial.spec.placement] = (
                trial,
                effective(trial, read_log(log), hosts[trial.id], trace.series(trial.id)),
            )
        return found


def obstacle(ran: dict[str, tuple[TrialRecord, Effective]], name: str) -> str:
    (even, before), (other, after) = ran["even"], ran[name]
    return guard(asked_differences(even.spec, other.spec, TG, TG), None, [before], [after])


def test_two_starts_of_the_same_server_ran_with_the_same(ran: dict[str, tuple[TrialRecord, Effective]]) -> None:
    assert ran["even"][1] == ran["again"][1]
    assert len(ran["even"][1].settings) > 15
    assert len(ran["even"][1].consequences) > 8


@pytest.mark.parametrize(
    "name", ["batch", "cache", "context", "experts", "flash", "key", "threads", "ubatch", "uneven"]
)
def test_a_change_that_the_server_made_is_sound(ran: dict[str, tuple[TrialRecord, Effective]], name: str) -> None:
    assert obstacle(ran, name) == ""


def test_a_variable_that_nothing_reads_did_not_take(ran: dict[str, tuple[TrialRecord, Effective]]) -> None:
    assert obstacle(ran, "again").startswith("the change did not take: nothing in the server's log shows env.")


def test_a_search_that_changed_nothing_did_not_take(ran: dict[str, tuple[TrialRecord, Effective]]) -> None:
    assert obstacle(ran, "fit").startswith("the change did not take: nothing in the server's log shows fit")


def test_the_experts_that_were_asked_for_are_those_that_were_used(
    ran: dict[str, tuple[TrialRecord, Effective]],
) -> None:
    assert ran["key"][1].settings["experts used"] == "1"
    assert ran["even"][1].settings["experts used"] != "1"
