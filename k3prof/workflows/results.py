"""What a trace's latest sweep found, read back and summarized."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from k3prof.core.evidence.proof import Proof, prove
from k3prof.core.summary import PlacementSummary, merge, summarize_trial
from k3prof.core.timeline import Series
from k3prof.core.trial import Outcome, TrialRecord, TrialStatus
from k3prof.core.trial_ledgers import trial_ledgers
from k3prof.llama.logs import read_log
from k3prof.store.sweeps import SweepRecord
from k3prof.store.trace import Trace
from k3prof.workflows.context_cost import trial_context_cost

_NOT_RUN = Outcome(TrialStatus.INTERRUPTED, message="not run yet")


@dataclass(frozen=True, eq=False)
class PlacementResult:
    """One placement of the latest sweep, with all trials of its present configuration.

    Attributes:
        summary: Its figures.
        trials: Its trials, oldest first, each with what was sampled while it ran.
    """

    summary: PlacementSummary
    trials: tuple[tuple[TrialRecord, tuple[Series, ...]], ...]


@dataclass(frozen=True, eq=False)
class SweepResult:
    """The latest sweep of a trace.

    Attributes:
        sweep: What was asked.
        placements: What came of it, in the order of asking.
    """

    sweep: SweepRecord
    placements: tuple[PlacementResult, ...]

    @property
    def summaries(self) -> list[PlacementSummary]:
        """The figures of each placement."""
        return [placement.summary for placement in self.placements]


def read_results(trace: Trace) -> SweepResult:
    """Return what the latest sweep found; trials of configurations that it did not ask for are left out.

    Raises:
        TraceError: The trace holds no sweep, or cannot be read.
    """
    sweep = trace.last_sweep()
    builds = {build.identity: build.name for build in trace.builds()}
    return SweepResult(sweep, tuple(_read(trace, placement, key, builds) for placement, key in sweep.asked))


def _read(trace: Trace, placement: str, configuration: str, builds: Mapping[str, str]) -> PlacementResult:
    trials = tuple((trial, tuple(trace.series(trial.id))) for trial in trace.trials(configuration))
    if not trials:
        return PlacementResult(PlacementSummary(placement, _NOT_RUN, None, (), ()), ())
    summaries = [
        summarize_trial(trial, series, _prove(trace, trial), trial_ledgers(trial, partial(trace.spans, trial.id)))
        for trial, series in trials
    ]
    latest = trials[-1][0]
    cost = trial_context_cost(latest, trace.model(latest.spec.model), trace.settings()[latest.id])
    merged = replace(merge(summaries), build=builds.get(latest.spec.build, ""), context_cost=cost)
    return PlacementResult(merged, trials)


def _prove(trace: Trace, trial: TrialRecord) -> Proof | None:
    log = trace.log(trial.id)
    if log is None:
        return None
    return prove(trial.spec.flags, trial.devices, trace.predicted(trial.id), read_log(log))
