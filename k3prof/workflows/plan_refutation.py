"""What testing hypotheses would run next: found out without starting or writing anything."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from k3prof.core.refutation.effort import expected_seconds
from k3prof.core.refutation.gather import Leg, gather
from k3prof.core.refutation.judge import judge
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.schedule import PlannedRound
from k3prof.core.refutation.verdict import Verdict
from k3prof.core.spans import SplitMode
from k3prof.reporters.refutation_plan import RefutationPlan
from k3prof.store.trace import Trace
from k3prof.workflows.hypotheses import PreparedRefutation, question
from k3prof.workflows.legs import LegReader
from k3prof.workflows.refute import RefutationOptions, following_round
from k3prof.workflows.sweep import planned_command


def planned(prepared: PreparedRefutation, path: Path, options: RefutationOptions) -> RefutationPlan:
    """Return what testing hypotheses would run next, without starting or writing anything."""
    legs: list[Leg] = []
    places: list[LegPlace] = []
    since: dict[str, int] = {}
    newest = 0
    if path.exists():
        with Trace.readable(path) as trace:
            legs = LegReader(trace, forget_failed=options.retry_failed).legs()
            places = [place for _, place in trace.legs()]
            since = {one.hypothesis.digest: one.trials_before for one in trace.registered()}
            newest = max((trial.id for trial in trace.trials()), default=0)
    cases = [
        (one, gather(asked, legs))
        for one in prepared.hypotheses
        if (asked := question(one, prepared.asked, since.get(one.digest, newest))) is not None
    ]
    verdicts = judge(cases)
    mode, following = _first_round(prepared, verdicts, places, options)
    return RefutationPlan(
        verdicts=verdicts,
        round=following,
        seconds_per_round=None
        if following is None
        else expected_seconds([leg.placement for leg in following.legs], legs),
        price_per_hour=prepared.first.experiment.settings.price_per_hour,
        commands={}
        if following is None
        else {
            name: planned_command(prepared.sweeps[mode], prepared.asked.specs[mode][name])
            for name in following.placements
        },
        trace=str(path),
    )


def _first_round(
    prepared: PreparedRefutation, verdicts: Sequence[Verdict], places: Sequence[LegPlace], options: RefutationOptions
) -> tuple[SplitMode, PlannedRound | None]:
    for mode in prepared.sweeps:
        if (following := following_round(mode, verdicts, places, options)) is not None:
            return mode, following
    return SplitMode.OFF, None
