"""The experiments that ship: every hypothesis can be tested, but the one that is there to show why it cannot."""

from __future__ import annotations

from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.core.refutation.hypothesis import Again, Comparison, Threshold
from k3prof.core.refutation.verdict import Verdict
from k3prof.store.config import Overrides
from k3prof.workflows.hypotheses import prepare_refutation
from k3prof.workflows.plan_refutation import planned
from k3prof.workflows.refute import RefutationOptions


def verdicts(folder: Path, build: Build, tmp_path: Path) -> dict[str, Verdict]:
    """What is thought of the shipped hypotheses before anything has run, on the demo model."""
    prepared = prepare_refutation(folder, Overrides(model="demo:k3", devices="rpc:3", build=build.bin_dir))
    plan = planned(prepared, tmp_path / "none.sqlite", RefutationOptions())
    assert plan.round is not None
    assert plan.round.is_again
    return {verdict.hypothesis.id: verdict for verdict in plan.verdicts}


def test_those_for_the_demo_are_of_every_kind_and_one_changes_two_things_at_once(
    repository: Path, build: Build, tmp_path: Path
) -> None:
    found = verdicts(repository / "placements", build, tmp_path)
    assert len(found) >= 8
    kinds = [type(verdict.hypothesis.test) for verdict in found.values()]
    assert {Again, Comparison, Threshold} == set(kinds)
    confounded = [name for name, verdict in found.items() if verdict.is_final]
    assert confounded == ["fewer-experts-off-the-host"]
    assert "n-cpu-moe" in found[confounded[0]].reasons[0]
    assert "override-kv" in found[confounded[0]].reasons[0]


def test_those_of_the_first_user_can_all_be_tested(repository: Path, build: Build, tmp_path: Path) -> None:
    found = verdicts(repository / "placements" / "a40", build, tmp_path)
    assert len(found) >= 6
    assert not any(verdict.is_final for verdict in found.values())


@pytest.mark.parametrize("folder", ["placements", "placements/a40"])
def test_each_says_why_it_is_predicted_and_what_follows(
    repository: Path, build: Build, tmp_path: Path, folder: str
) -> None:
    for verdict in verdicts(repository / folder, build, tmp_path).values():
        hypothesis = verdict.hypothesis
        assert hypothesis.claim
        assert hypothesis.because
        assert hypothesis.if_refuted or hypothesis.if_supported or isinstance(hypothesis.test, Comparison)
