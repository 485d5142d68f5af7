"""How far a sweep or a test of hypotheses is, told to the display while it runs."""

from __future__ import annotations

import statistics
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from k3prof.core.plan import seconds_left
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.schedule import PlannedRound
from k3prof.core.refutation.verdict import Verdict
from k3prof.core.timeline import Counter, PhaseKind, Series, busy_steps
from k3prof.core.trial import Outcome, TrialSpec, TrialStatus, Workload
from k3prof.llama.server import Loading
from k3prof.reporters.live import FinishedStep, ProgressRow, SweepProgress
from k3prof.reporters.refutation_plan import effort, leg_name, round_line
from k3prof.reporters.sweep_display import SweepDisplay

_MEASURED_EARLIER = "measured earlier"


@dataclass
class _Step:
    """A part of a trial that goes on: loading, or a workload with its warm-ups and repetitions."""

    name: str
    begin_s: float
    phase: str = ""
    phase_begin_s: float = 0.0
    tokens: int = 0
    rates: list[float] = field(default_factory=list)


class TrialTracker:
    """A `TrialListener` that keeps the display up to date: one row per trial, by its name.

    Args:
        display: What shows it.
        price_per_hour: What the machine costs in USD; None when it has no price.
        noun: What a row stands for.
    """

    def __init__(self, display: SweepDisplay, price_per_hour: float | None, noun: str) -> None:
        self._display = display
        self._price_per_hour = price_per_hour
        self._noun = noun
        self._begin_s = time.monotonic()
        self._trial_begin_s = self._begin_s
        self._durations_s: list[float] = []
        self._rows: dict[str, ProgressRow] = {}
        self._running = ""
        self._step: _Step | None = None
        self._lock = threading.RLock()

    def plan(self, waiting: Iterable[str], finished: Iterable[str]) -> None:
        """Note what will be run, and what was measured earlier."""
        done = {name: ProgressRow(name, TrialStatus.OK, note=_MEASURED_EARLIER) for name in finished}
        self._rows = done | {name: ProgressRow(name) for name in waiting}
        self._show()

    def begin(self, name: str) -> None:
        """Note that a trial begins."""
        with self._lock:
            self._running = name
            self._trial_begin_s = time.monotonic()
            self._rows[name] = ProgressRow(name, TrialStatus.RUNNING)
            self._step = None
        self._show()

    def end(self, outcome: Outcome) -> None:
        """Note that the trial has ended."""
        with self._lock:
            self._finish_step()
            self._step = None
            self._durations_s.append(time.monotonic() - self._trial_begin_s)
            rate = next((step.rate for step in reversed(self._rows[self._running].finished)), None)
            self._change(status=outcome.status, phase="", rate=rate, note=outcome.message, busy_frac={})
            self._running = ""
        self._show()

    def on_phase(self, kind: PhaseKind, workload: Workload | None, repetition: int) -> None:
        """Note that a phase begins."""
        with self._lock:
            name = str(kind) if workload is None else workload.name
            if self._step is None or self._step.name != name:
                self._finish_step()
                self._step = _Step(name, time.monotonic())
            self._step.phase = _phase_text(kind, workload, repetition)
            self._step.phase_begin_s, self._step.tokens = time.monotonic(), 0
            self._change(phase=self._step.phase, rate=None)
        self._show()

    def on_rate(self, tokens_per_s: float) -> None:
        """Note what a measured repetition yielded."""
        with self._lock:
            if self._step is not None:
                self._step.rates.append(tokens_per_s)

    def on_loading(self, loading: Loading) -> None:
        """Note how much the server has read."""
        read = "" if loading.read_bytes is None else f", {loading.read_bytes / 2**30:.1f} GiB read"
        with self._lock:
            self._change(phase=f"load {loading.elapsed_s:.0f} s{read}")

    def on_tokens(self, count: int) -> None:
        """Count tokens that have arrived. Called for every event of every stream: it must cost next to nothing."""
        if self._step is not None:
            self._step.tokens += count

    def on_samples(self, series: list[Series]) -> None:
        """Note the latest busy shares, and draw: samples come a few times a second."""
        with self._lock:
            row = self._rows.get(self._running)
            if row is None:
                return
            latest = {one.device: share for one in series if (share := _latest_share(one)) is not None}
            self._change(busy_frac={**row.busy_frac, **latest}, rate=self._rate())
        self._show()

    def _rate(self) -> float | None:
        step = self._step
        if step is None or step.tokens < 2:
            return None
        return step.tokens / (time.monotonic() - step.phase_begin_s)

    def _finish_step(self) -> None:
        if self._step is not None:
            row = self._rows[self._running]
            rate = statistics.median(self._step.rates) if self._step.rates else None
            done = FinishedStep(self._step.name, time.monotonic() - self._step.begin_s, rate)
            self._change(finished=(*row.finished, done))

    def _change(self, **changes: object) -> None:
        if self._running:
            self._rows[self._running] = replace(self._rows[self._running], **changes)  # type: ignore[arg-type]

    def _show(self) -> None:
        with self._lock:
            elapsed_s = time.monotonic() - self._begin_s
            left = sum(row.status in (None, TrialStatus.RUNNING) for row in self._rows.values())
            left_s = seconds_left(self._durations_s, left)
            if left_s is not None and self._running:
                left_s = max(left_s - (time.monotonic() - self._trial_begin_s), 0.0)
            cost_usd = None if self._price_per_hour is None else self._price_per_hour * elapsed_s / 3600
            rows = tuple(self._rows.values())
            self._display.show(SweepProgress(rows, elapsed_s, left_s, cost_usd, self._noun))


class ProgressTracker(TrialTracker):
    """A `SweepListener` that keeps the display up to date."""

    def __init__(self, display: SweepDisplay, price_per_hour: float | None) -> None:
        super().__init__(display, price_per_hour, "placement")

    def on_plan(self, waiting: list[TrialSpec], finished: list[str]) -> None:
        """Note what will be run, and which placements have nothing left to do."""
        self.plan([spec.placement for spec in waiting], finished)

    def on_trial(self, spec: TrialSpec) -> None:
        """Note that a trial begins."""
        self.begin(spec.placement)

    def on_outcome(self, _: TrialSpec, outcome: Outcome) -> None:
        """Note that a trial has ended."""
        self.end(outcome)


class LegTracker(TrialTracker):
    """A `RefutationListener` that keeps the display up to date, a round at a time.

    Args:
        display: What shows it.
        price_per_hour: What the machine costs in USD; None when it has no price.
        tell: Prints a line that stays.
    """

    def __init__(self, display: SweepDisplay, price_per_hour: float | None, tell: Callable[[str], None]) -> None:
        super().__init__(display, price_per_hour, "leg")
        self._tell = tell
        self._legs: tuple[LegPlace, ...] = ()

    def on_round(self, planned: PlannedRound, verdicts: Sequence[Verdict], round_s: float | None) -> None:
        """Tell what the round runs and how long it takes, and show its legs."""
        self._tell(f"{round_line(planned, verdicts)} · {effort(round_s, verdicts, self._price_per_hour)}")
        self.plan([leg_name(leg, planned.legs) for leg in planned.legs], ())
        self._legs = planned.legs

    def on_leg(self, place: LegPlace) -> None:
        """Note that a leg begins."""
        self.begin(leg_name(place, self._legs))

    def on_outcome(self, _: LegPlace, outcome: Outcome) -> None:
        """Note that a leg has ended."""
        self.end(outcome)


def _phase_text(kind: PhaseKind, workload: Workload | None, repetition: int) -> str:
    if workload is None:
        return str(kind)
    uncounted = kind in (PhaseKind.WARMUP, PhaseKind.UNTRACED)
    return f"{kind if uncounted else workload.name} {repetition + 1}"


def _latest_share(series: Series) -> float | None:
    if series.counter not in (Counter.CPU_TIME_NS, Counter.BUSY_FRAC):
        return None
    edges_ns, shares = busy_steps(series, int(series.time_ns[0]), int(series.time_ns[-1]) + 1)
    if not shares.size:
        return None
    return float((shares * (edges_ns[1:] - edges_ns[:-1])).sum() / (edges_ns[-1] - edges_ns[0]))
