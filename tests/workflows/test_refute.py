"""Hypotheses tested for real: llama-server on stand-ins, driven as a user would, through processes of their own."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from k3prof.core.build import Build
from k3prof.core.refutation.verdict import Ruling
from k3prof.core.trial import TrialStatus
from k3prof.store.trace import Trace

pytestmark = pytest.mark.server

SWEEP = """
model = "demo:k3-tiny"
devices = "rpc:2"
workloads = ["tg16"]
repeat = 1
price_per_hour = 2.2
[flags]
ctx-size = 512
"""

PLACEMENTS = {
    "even": "",
    "experts": "[flags]\nn-cpu-moe = 2\n",
    "experts-uneven": "[flags]\nn-cpu-moe = 2\ntensor-split = [2, 1]\n",
    "impossible": '[flags]\nsplit-mode = "tensor"\n',  # which llama.cpp refuses for kimi-k3
    "wrong-prefix": '[flags]\noverride-kv = "llama.expert_used_count=int:1"\n',
}

# Far from what can be measured, so that the noise of a busy machine changes no verdict.
HYPOTHESES = """
[rules]
alpha = 0.2
looks = [3]

[[hypothesis]]
id = "same-again"
claim = "the same placement differs from itself"
because = "it may"
metric = "tg"
again = "even"
smallest = 4.0

[[hypothesis]]
id = "host-is-faster"
claim = "the host computes experts ten times as fast"
because = "it is a fine host"
metric = "tg"
baseline = "even"
candidate = "experts"
predict = [10.0, 20.0]
smallest = 4.0
if_refuted = "leave them on the devices"

[[hypothesis]]
id = "takes-turns"
claim = "not both devices are busy all the time"
because = "layers come one after the other"
metric = "parallelism"
of = "even"
at_most = 1.9

[[hypothesis]]
id = "two-at-once"
claim = "experts on the host are faster on an uneven split"
because = "why not"
metric = "tg"
baseline = "even"
candidate = "experts-uneven"
predict = [4.0, 9.0]
smallest = 4.0

[[hypothesis]]
id = "wrong-key"
claim = "one expert is faster than four"
because = "it is less work"
metric = "tg"
baseline = "even"
candidate = "wrong-prefix"
predict = [4.0, 9.0]
smallest = 4.0

[[hypothesis]]
id = "does-not-start"
claim = "tensor parallelism is faster"
because = "both devices work at once"
metric = "tg"
baseline = "even"
candidate = "impossible"
predict = [4.0, 9.0]
smallest = 4.0
"""


@dataclass(frozen=True)
class Refuter:
    """Runs `k3prof refute` on an experiment of its own."""

    folder: Path
    build: Build

    @property
    def experiment(self) -> Path:
        return self.folder / "mine"

    @property
    def trace(self) -> Path:
        return self.folder / "traces" / "mine-refute.sqlite"

    def write(self, hypotheses: str = HYPOTHESES, placements: Mapping[str, str] = PLACEMENTS) -> None:
        self.experiment.mkdir(exist_ok=True)
        files = {"sweep": SWEEP, "hypotheses": hypotheses, **placements}
        for name, text in files.items():
            (self.experiment / f"{name}.toml").write_text(text)

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "k3prof", "refute", *options]

    def run(self, *options: str) -> subprocess.CompletedProcess[str]:
        asked = ("mine", "--build", self.build.bin_dir, *options)
        return self.call(*asked)

    def call(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*options), cwd=self.folder, capture_output=True, text=True, timeout=600, check=False
        )

    def verdicts(self, *options: str) -> dict[str, dict[str, Any]]:
        done = self.run("--format", "json", *options)
        assert done.returncode == 0, done.stderr
        return by_id(done.stdout)

    def copy(self, folder: Path) -> Refuter:
        """Return the same in another folder, with all that was measured."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Refuter(folder, self.build)

    def legs(self) -> int:
        with Trace.readable(self.trace) as trace:
            return len(trace.legs())


def by_id(text: str) -> dict[str, dict[str, Any]]:
    return {one["id"]: {**one["verdict"], "replaced": one["replaced"]} for one in json.loads(text)["hypotheses"]}


def rulings(verdicts: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    return {name: one["ruling"] for name, one in verdicts.items()}


@pytest.fixture(scope="module")
def refuted(tmp_path_factory: pytest.TempPathFactory, build: Build) -> Refuter:
    """An experiment whose hypotheses have been tested to the end."""
    refuter = Refuter(tmp_path_factory.mktemp("refuted"), build)
    refuter.write()
    done = refuter.run("--format", "json")
    assert done.returncode == 0, done.stderr
    (refuter.folder / "first.json").write_text(done.stdout)
    return refuter


@pytest.fixture
def copied(refuted: Refuter, tmp_path: Path) -> Refuter:
    return refuted.copy(tmp_path)


def test_each_hypothesis_gets_the_verdict_that_the_machine_and_the_files_leave_no_doubt_about(refuted: Refuter) -> None:
    found = by_id((refuted.folder / "first.json").read_text())
    assert rulings(found) == {
        "same-again": "refuted",
        "host-is-faster": "refuted",
        "takes-turns": "supported",
        "two-at-once": "inconclusive",
        "wrong-key": "inconclusive",
        "does-not-start": "inconclusive",
    }
    assert found["same-again"]["magnitude"] == "no effect"
    reasons = {name: " ".join(one["reasons"]) for name, one in found.items()}
    assert "n-cpu-moe (- → 2) and tensor-split (- → 2,1)" in reasons["two-at-once"]
    assert "the change did not take" in reasons["wrong-key"]
    assert "did you mean kimi-k3.expert_used_count?" in reasons["wrong-key"]
    assert reasons["does-not-start"].startswith("no data for impossible: ")


def test_what_cannot_be_tested_costs_no_server(refuted: Refuter) -> None:
    with Trace.readable(refuted.trace) as trace:
        started = {trial.spec.placement for trial in trace.trials()}
        assert started == {"even", "experts", "impossible"}
        failed = [trial for trial in trace.trials() if trial.outcome.status is TrialStatus.FAILED]
    assert {trial.spec.placement for trial in failed} == {"impossible"}
    assert len(failed) == 1  # the second start in the round would have ended alike


def test_every_leg_is_a_fresh_server_in_mirrored_order_and_a_a_comes_first(refuted: Refuter) -> None:
    with Trace.readable(refuted.trace) as trace:
        rounds: dict[int, list[tuple[str, bool]]] = {}
        for _, place in trace.legs():
            if place.placement != "impossible":
                rounds.setdefault(place.round, []).append((place.placement, place.twin))
    for legs in rounds.values():
        assert legs == legs[::-1]
    again = [number for number, legs in rounds.items() if any(twin for _, twin in legs)]
    assert again == [0, 1, 2]


def test_a_hypothesis_was_written_down_before_the_first_leg(refuted: Refuter) -> None:
    with Trace.readable(refuted.trace) as trace:
        first_ns = min(trial.started_ns for trial in trace.trials())
        assert all(one.trials_before == 0 and one.monotonic_ns < first_ns for one in trace.registered())
        assert len(trace.registered()) == 6


def test_the_same_command_again_runs_nothing_and_says_the_same(copied: Refuter) -> None:
    legs = copied.legs()
    assert copied.verdicts() == by_id((copied.folder / "first.json").read_text())
    assert copied.legs() == legs


def test_judging_again_from_the_file_alone_says_the_same(copied: Refuter) -> None:
    shutil.rmtree(copied.experiment)
    before = copied.trace.read_bytes()
    done = copied.call("--judge-only", str(copied.trace), "--format", "json", "-o", "again.html")
    assert done.returncode == 0, done.stderr
    assert by_id(done.stdout) == by_id((copied.folder / "first.json").read_text())
    assert copied.trace.read_bytes() == before
    assert "leave them on the devices" in (copied.folder / "again.html").read_text()


def test_a_prediction_that_is_changed_after_the_data_is_another_hypothesis(copied: Refuter) -> None:
    copied.write(HYPOTHESES.replace("predict = [10.0, 20.0]", "predict = [0.05, 0.24]"))
    changed = copied.verdicts("--max-blocks", "1", "--only", "host-is-faster")["host-is-faster"]
    assert changed["ruling"] == "inconclusive"  # the blocks that were seen before it was written do not count
    (past,) = changed["replaced"]
    assert past["verdict"]["ruling"] == "refuted"
    assert "changed after data was seen" in past["why"]
    assert "10" in past["why"]


def test_other_words_for_the_same_claim_change_nothing(copied: Refuter) -> None:
    legs = copied.legs()
    copied.write(HYPOTHESES.replace("it is a fine host", "it has many cores"))
    assert copied.verdicts("--only", "host-is-faster")["host-is-faster"]["ruling"] == "refuted"
    assert copied.legs() == legs


def test_a_placement_that_was_changed_is_measured_anew(copied: Refuter) -> None:
    legs = copied.legs()
    copied.write(placements={**PLACEMENTS, "experts": "[flags]\nn-cpu-moe = 1\n"})
    found = copied.verdicts("--only", "host-is-faster")
    assert found["host-is-faster"]["ruling"] == "refuted"
    assert copied.legs() > legs


def test_what_failed_is_started_again_when_asked_for(copied: Refuter) -> None:
    legs = copied.legs()
    found = copied.verdicts("--only", "does-not-start", "--retry-failed")
    assert found["does-not-start"]["reasons"][0].startswith("no data for impossible: ")
    assert copied.legs() > legs


def test_a_dry_run_says_what_comes_next_and_starts_nothing(tmp_path: Path, build: Build) -> None:
    refuter = Refuter(tmp_path, build)
    refuter.write()
    done = refuter.run("--dry-run")
    assert done.returncode == 0, done.stderr
    assert "two-at-once: ? inconclusive" in done.stdout
    assert "confounded by n-cpu-moe" in done.stdout
    assert "one placement against itself" in done.stdout
    assert "llama-server" in done.stdout
    assert not refuter.trace.exists()


def test_a_dry_run_after_all_is_decided_says_so(copied: Refuter) -> None:
    assert "every verdict is final" in copied.run("--dry-run").stdout


@pytest.mark.parametrize("option", [("--max-time", "1s"), ("--max-cost", "0.0025")])
def test_a_spent_budget_ends_it_between_rounds(tmp_path: Path, build: Build, option: tuple[str, str]) -> None:
    refuter = Refuter(tmp_path, build)
    refuter.write()
    found = refuter.verdicts(*option)
    assert rulings(found)["host-is-faster"] == "inconclusive"
    with Trace.readable(refuter.trace) as trace:
        assert {place.round for _, place in trace.legs()} == {0}  # the first round, since nothing was known before it
        assert len(trace.legs()) == 4


def test_an_interrupted_test_keeps_its_legs_and_goes_on(tmp_path: Path, build: Build) -> None:
    refuter = Refuter(tmp_path, build)
    refuter.write()
    asked = refuter.command("mine", "--build", build.bin_dir, "--only", "takes-turns")
    running = subprocess.Popen(asked, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    deadline_s = time.monotonic() + 120
    while time.monotonic() < deadline_s and not (refuter.trace.exists() and _has_legs(refuter)):
        time.sleep(0.2)
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode == 130, err
    assert "interrupted: the same command again goes on from here" in err
    kept = refuter.legs()
    assert kept >= 1
    assert rulings(refuter.verdicts("--only", "takes-turns"))["takes-turns"] == Ruling.SUPPORTED
    assert refuter.legs() > kept


def _has_legs(refuter: Refuter) -> bool:
    try:
        return refuter.legs() > 0
    except Exception:
        return False


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "refute takes one of"),
        (("mine", "--judge-only", "x.sqlite"), "refute takes one of"),
        (("--judge-only", "no.sqlite"), "no such trace"),
        (("mine", "-o", "report.txt"), "no report is of this kind"),
        (("mine", "--max-time", "soon"), "--max-time soon"),
        (("mine", "--only", "nothing"), "no hypothesis is named"),
        (("mine/even.toml",), "is one file"),
    ],
)
def test_what_cannot_be_asked_is_refused_without_a_traceback(
    tmp_path: Path, build: Build, options: tuple[str, ...], said: str
) -> None:
    refuter = Refuter(tmp_path, build)
    refuter.write()
    done = refuter.call(*options)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode in (1, 2)
