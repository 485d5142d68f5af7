"""Hypotheses tested: the rounds that they still need are run, and after each one all of them are judged."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Protocol

from rich.console import Console

from k3prof.collectors.host_facts import host_facts
from k3prof.collectors.host_settings import host_settings
from k3prof.core.experiment import flag_text
from k3prof.core.ops.op_shares import op_shares
from k3prof.core.refutation.effort import expected_seconds
from k3prof.core.refutation.gather import splits_for
from k3prof.core.refutation.leg import LegPlace, would_fail_again
from k3prof.core.refutation.leg_metrics import Need
from k3prof.core.refutation.schedule import PlannedRound, next_round
from k3prof.core.refutation.verdict import Verdict
from k3prof.core.spans import SplitMode
from k3prof.core.timeline import ClockAnchor
from k3prof.core.trial import Caveat, Outcome, TrialSpec, TrialStatus
from k3prof.errors import K3profError
from k3prof.reporters import formats
from k3prof.reporters.refutation_input import RefutationReport
from k3prof.reporters.sweep_display import SweepDisplay
from k3prof.store.trace import Trace
from k3prof.workflows.bandwidth import known_bandwidth, measure
from k3prof.workflows.context_cost import known_bandwidths
from k3prof.workflows.hypotheses import PreparedRefutation, metric_of
from k3prof.workflows.judging import HYPOTHESES, judged
from k3prof.workflows.legs import BANDWIDTHS, LegReader
from k3prof.workflows.ops import profile_ops
from k3prof.workflows.progress import LegTracker
from k3prof.workflows.refutation_report import report_on
from k3prof.workflows.run_trial import Patience, TrialListener, run_trial
from k3prof.workflows.sweep import host_record, settings_of, termination_interrupts

EVERY_VERDICT_IS_FINAL = "every verdict is final"
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Budget:
    """What may be spent on one session; None where nothing limits it.

    Attributes:
        seconds: Time.
        usd: Money, by the machine's price per hour.
        blocks: Blocks per hypothesis, those of earlier sessions among them.
    """

    seconds: float | None = None
    usd: float | None = None
    blocks: int | None = None


@dataclass(frozen=True)
class RefutationOptions:
    """How to test hypotheses.

    Attributes:
        budget: When to stop although not every verdict is final.
        retry_failed: Start placements again that failed in earlier sessions.
        seed: What the order of each round is drawn with.
        patience: How long to wait for a server without a sign of progress.
    """

    budget: Budget = dataclasses.field(default_factory=Budget)
    retry_failed: bool = False
    seed: int = 0
    patience: Patience = dataclasses.field(default_factory=Patience)


class RefutationListener(TrialListener, Protocol):
    """Who wants to know how a test of hypotheses goes."""

    def on_round(self, planned: PlannedRound, verdicts: Sequence[Verdict], round_s: float | None) -> None:
        """A round begins; the verdicts so far, and how long it will probably take."""

    def on_leg(self, place: LegPlace) -> None:
        """A leg begins."""

    def on_outcome(self, place: LegPlace, outcome: Outcome) -> None:
        """A leg has ended."""


def refute(prepared: PreparedRefutation, trace: Trace, options: RefutationOptions, listener: RefutationListener) -> str:
    """Run what is missing until every verdict is final or the budget is spent.

    Returns:
        What ended it.

    Raises:
        MachineError: The devices do not start.
        TraceError: The trace cannot be written any more.
    """
    session = _Session(prepared, trace, options, listener)
    try:
        with termination_interrupts():
            return session.run()
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        session.keep_verdicts()


class _Session:
    def __init__(
        self, prepared: PreparedRefutation, trace: Trace, options: RefutationOptions, listener: RefutationListener
    ) -> None:
        self._prepared = prepared
        self._trace = trace
        self._options = options
        self._listener = listener
        self._reader = LegReader(trace, forget_failed=options.retry_failed)
        self._price_per_hour = prepared.first.experiment.settings.price_per_hour
        self._begun_s = time.monotonic()
        self._kept = {verdict.hypothesis.digest: verdict for _, verdict in trace.verdicts()}
        self._sweep = self._begin()

    def run(self) -> str:
        """Run rounds until something ends it; return what."""
        for mode in self._prepared.sweeps:
            while True:
                verdicts = self.keep_verdicts()
                planned = following_round(mode, verdicts, [place for _, place in self._trace.legs()], self._options)
                if planned is None:
                    break
                if spent := self._spent(planned):
                    return spent
                self._listener.on_round(planned, verdicts, self._expected_seconds(planned))
                self._run_round(mode, planned)
        if all(verdict.is_final for verdict in self.keep_verdicts()):
            return EVERY_VERDICT_IS_FINAL
        if self._options.budget.blocks is not None:
            return f"--max-blocks {self._options.budget.blocks} is spent"
        return "too many rounds were void"

    def keep_verdicts(self) -> list[Verdict]:
        """Judge, and store each verdict that says something else than the last one on the same hypothesis."""
        verdicts = judged(self._trace, self._reader, self._prepared.asked)
        for verdict in verdicts:
            before = self._kept.get(verdict.hypothesis.digest)
            if before is None or _says(before) != _says(verdict):
                self._trace.add_verdict(verdict, time.time_ns())
                self._kept[verdict.hypothesis.digest] = verdict
        return verdicts

    def _begin(self) -> int:
        """Note the session and its hypotheses, before anything runs."""
        trace, prepared = self._trace, self._prepared
        first = prepared.first
        for one in prepared.sweeps.values():
            for build in one.builds:
                trace.add_build(build)
        model = first.model
        trace.add_model(model.fingerprint, model.header)
        settings = settings_of(first) | {
            HYPOTHESES: [one.digest for one in prepared.hypotheses],
            BANDWIDTHS: self._bandwidths(),
        }
        asked = [
            (spec.placement, spec.configuration)
            for mode, one in prepared.sweeps.items()
            for spec in one.specs
            if spec.placement in prepared.placements_of(mode)
        ]
        sweep = trace.begin_sweep(ClockAnchor(time.monotonic_ns(), time.time_ns()), settings, host_record(), asked)
        for hypothesis in prepared.hypotheses:
            trace.register_hypothesis(hypothesis, sweep)
        return sweep

    def _bandwidths(self) -> dict[str, dict[str, object]]:
        """Return how fast each device's memory can be read; the host's is measured now if a hypothesis needs it."""
        facts = host_facts()
        if self._prepared.needs(Need.BANDWIDTH) and known_bandwidth(facts) is None:
            measure(facts, host_settings(), lambda *_: None)
        return known_bandwidths(self._prepared.first.devices)

    def _spent(self, planned: PlannedRound) -> str:
        """Return which budget the next round would exceed; empty when it would not."""
        budget, elapsed_s = self._options.budget, time.monotonic() - self._begun_s
        expected_s = elapsed_s + (self._expected_seconds(planned) or 0.0)
        if budget.seconds is not None and expected_s > budget.seconds:
            return f"--max-time {formats.seconds(budget.seconds)} is spent"
        if budget.usd is not None and expected_s / 3600 * (self._price_per_hour or 0.0) > budget.usd:
            return f"--max-cost {formats.usd(budget.usd)} is spent"
        return ""

    def _expected_seconds(self, planned: PlannedRound) -> float | None:
        return expected_seconds([leg.placement for leg in planned.legs], self._reader.legs())

    def _run_round(self, mode: SplitMode, planned: PlannedRound) -> None:
        sweep = self._prepared.sweeps[mode]
        doomed: set[str] = set()
        for place in planned.legs:
            if place.placement in doomed:
                continue
            spec = replace(
                self._prepared.asked.specs[mode][place.placement], workloads=planned.workloads[place.placement]
            )
            self._listener.on_leg(place)
            finished = run_trial(
                spec,
                sweep.predicted[spec.placement],
                sweep.rigs[spec.placement],
                self._trace,
                self._sweep,
                patience=self._options.patience,
                listener=self._listener,
            )
            self._trace.add_leg(finished.id, place)
            if would_fail_again(finished.outcome):
                doomed.add(place.placement)
            if finished.outcome.status is TrialStatus.OK and self._needs_ops(spec.placement):
                self._profile_ops(finished.id, spec)
            self._listener.on_outcome(place, finished.outcome)

    def _needs_ops(self, placement: str) -> bool:
        return any(
            Need.OPS in metric_of(one).needs and placement in {arm.placement for arm in one.arms}
            for one in self._prepared.hypotheses
        )

    def _profile_ops(self, trial: int, spec: TrialSpec) -> None:
        overrides = spec.flags.get("override-kv", "")
        try:
            report = profile_ops(
                spec.model_path,
                build=self._prepared.first.rigs[spec.placement].build.name,
                overrides=flag_text(overrides).split(",") if overrides else (),
            )
        except K3profError as error:
            self._trace.add_caveats(trial, [Caveat("ops-not-profiled", error.message, error.hint)])
            return
        self._trace.add_op_shares(trial, op_shares(report.profiles[0]))


def _says(verdict: Verdict) -> tuple[object, ...]:
    """Return what makes a verdict worth keeping beside an earlier one."""
    return verdict.ruling, verdict.magnitude, verdict.is_final, verdict.reasons if verdict.is_final else ()


def refute_and_report(
    prepared: PreparedRefutation, path: Path, options: RefutationOptions, console: Console
) -> RefutationReport:
    """Test hypotheses, showing the progress on a console, and return the report on them.

    Raises:
        MachineError: The devices do not start.
        TraceError: The trace cannot be written.
    """
    with Trace.writable(path) as trace:
        with SweepDisplay(console) as display:
            tell = partial(console.print, markup=False, highlight=False, soft_wrap=True)
            tracker = LegTracker(display, prepared.first.experiment.settings.price_per_hour, tell)
            stopped_by = refute(prepared, trace, options, tracker)
        reader = LegReader(trace)
        return report_on(trace, reader, judged(trace, reader, prepared.asked), stopped_by)


def default_trace(folder: Path) -> Path:
    """Return where the trace of an experiment's hypotheses goes: `traces/FOLDER-refute.sqlite`."""
    return Path("traces") / f"{folder.resolve().name or 'experiment'}-refute.sqlite"


def following_round(
    mode: SplitMode, verdicts: Sequence[Verdict], places: Sequence[LegPlace], options: RefutationOptions
) -> PlannedRound | None:
    """Return the next round of legs that are traced in one way; None when there is none, or the blocks are spent.

    Args:
        mode: The way of tracing.
        verdicts: Those so far.
        places: Of all legs of the trace.
        options: How hypotheses are tested.
    """
    of_mode = [one for one in verdicts if splits_for(metric_of(one.hypothesis)) is mode]
    most = options.budget.blocks
    if most is not None:
        of_mode = [one for one in of_mode if len(one.evidence.blocks) < most]
    rounds = [list(of_round) for _, of_round in groupby(places, key=lambda place: place.round)]
    return next_round(of_mode, rounds, options.seed)
