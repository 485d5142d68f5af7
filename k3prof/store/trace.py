"""The trace: one SQLite file that holds everything asked, done and seen. Only this module knows how.

Each method commits before it returns, so that a killed process loses at most the call it was in.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from k3prof.core.build import Build
from k3prof.core.device import Device
from k3prof.core.events import DeviceEvent
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.refutation.hypothesis import Hypothesis
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.verdict import Verdict
from k3prof.core.spans import Spans
from k3prof.core.timeline import ClockAnchor, Series
from k3prof.core.trial import Caveat, Command, Outcome, RequestRecord, TrialRecord, TrialSpec
from k3prof.core.weights.model import Model
from k3prof.store.refutation import (
    RegisteredHypothesis,
    add_hypothesis,
    add_leg,
    add_op_shares,
    add_verdict,
    next_round,
    read_hypotheses,
    read_legs,
    read_op_shares,
    read_verdicts,
)
from k3prof.store.requests import add_requests
from k3prof.store.samples import add_samples, read_samples
from k3prof.store.spans import add_spans, read_spans
from k3prof.store.sweeps import SweepRecord, add_sweep, read_anchors, read_last_sweep, read_of_each_trial
from k3prof.store.trace_file import TraceFile
from k3prof.store.trials import (
    add_caveats,
    add_events,
    add_trial,
    finish_trial,
    read_command,
    read_events,
    read_log,
    read_predicted,
    read_trials,
)

_BUILD = TypeAdapter(Build)
_MODEL = TypeAdapter(Model)


class Trace:
    """An open trace. Methods may be called from several threads."""

    def __init__(self, file: TraceFile) -> None:
        self._file = file

    def __enter__(self) -> Trace:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @classmethod
    def writable(cls, path: Path) -> Trace:
        """Open a trace to add to it, making it if it is not there; see `TraceFile.writable`."""
        return cls(TraceFile.writable(path))

    @classmethod
    def readable(cls, path: Path) -> Trace:
        """Open a finished or growing trace to read it; see `TraceFile.readable`."""
        return cls(TraceFile.readable(path))

    @property
    def path(self) -> Path:
        """Where it lies."""
        return self._file.path

    def close(self) -> None:
        """Close the file and let other sweeps write to it."""
        self._file.close()

    def begin_sweep(
        self,
        anchor: ClockAnchor | None,
        settings: Mapping[str, object],
        host: Mapping[str, object],
        asked: Sequence[tuple[str, str]],
    ) -> int:
        """Note an invocation and return its number; trials that a killed one left running become interrupted."""
        with self._file.writing() as db:
            return add_sweep(db, anchor, settings, host, asked)

    def add_build(self, build: Build) -> None:
        """Note a build that trials refer to."""
        with self._file.writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO builds VALUES (?, ?)", (build.identity, _BUILD.dump_json(build).decode())
            )

    def add_model(self, fingerprint: str, model: Model) -> None:
        """Note what the header of a model says that trials refer to."""
        with self._file.writing() as db:
            db.execute(
                "INSERT OR REPLACE INTO models VALUES (?, ?)", (fingerprint, zlib.compress(_MODEL.dump_json(model)))
            )

    def begin_trial(
        self,
        sweep: int,
        spec: TrialSpec,
        devices: Sequence[Device],
        command: Command,
        *,
        predicted: Sequence[PlannedBuffer] | None,
        started_ns: int,
    ) -> int:
        """Note a trial that starts now, with the buffers that were predicted for it, and return its number."""
        with self._file.writing() as db:
            return add_trial(db, sweep, spec, devices, command, predicted=predicted, started_ns=started_ns)

    def mark_ready(self, trial: int, ready_ns: int) -> None:
        """Note when the server had loaded its model."""
        with self._file.writing() as db:
            db.execute("UPDATE trials SET ready_ns = ? WHERE id = ?", (ready_ns, trial))

    def add_requests(self, trial: int, requests: Sequence[RequestRecord]) -> None:
        """Add the requests of one repetition, all or none of them."""
        with self._file.writing() as db:
            add_requests(db, trial, requests)

    def add_samples(self, trial: int, series: Sequence[Series]) -> None:
        """Append samples; each series continues what was added for its device and counter before."""
        with self._file.writing() as db:
            add_samples(db, trial, series)

    def add_spans(self, trial: int, spans: Spans) -> None:
        """Append what the split tracer saw."""
        if len(spans):
            with self._file.writing() as db:
                add_spans(db, trial, spans)

    def add_caveats(self, trial: int, caveats: Sequence[Caveat]) -> None:
        """Add reasons to doubt a trial's figures."""
        with self._file.writing() as db:
            add_caveats(db, trial, caveats)

    def add_events(self, trial: int, events: Sequence[DeviceEvent]) -> None:
        """Add what happened to a trial's devices."""
        with self._file.writing() as db:
            add_events(db, trial, events)

    def finish_trial(self, trial: int, outcome: Outcome, ended_ns: int, logs: Mapping[str, bytes]) -> None:
        """Note how a trial ended, with the whole logs of its programs."""
        with self._file.writing() as db:
            finish_trial(db, trial, outcome, ended_ns, logs)

    def register_hypothesis(self, hypothesis: Hypothesis, sweep: int) -> None:
        """Note a hypothesis before it is tested; one that is judged alike keeps its first date."""
        with self._file.writing() as db:
            add_hypothesis(db, hypothesis, sweep)

    def add_leg(self, trial: int, place: LegPlace) -> None:
        """Note that a trial is a leg of a round."""
        with self._file.writing() as db:
            add_leg(db, trial, place)

    def add_verdict(self, verdict: Verdict, unix_ns: int) -> None:
        """Note a verdict on a registered hypothesis; see `store.refutation.add_verdict`."""
        with self._file.writing() as db:
            add_verdict(db, verdict, unix_ns)

    def add_op_shares(self, trial: int, shares: Mapping[str, float]) -> None:
        """Note the shares of a pass that ops took in a trial."""
        with self._file.writing() as db:
            add_op_shares(db, trial, shares)

    def last_sweep(self) -> SweepRecord:
        """Return the latest invocation.

        Raises:
            TraceError: There was none yet.
        """
        return read_last_sweep(self._file)

    def anchors(self) -> dict[int, ClockAnchor]:
        """Return what dates the monotonic times of trials, by their numbers; those that nothing dates are left out."""
        return read_anchors(self._file)

    def hosts(self) -> dict[int, Mapping[str, Any]]:
        """Return the facts of the machine that each trial ran on, by the trial's number."""
        return read_of_each_trial(self._file, "host")

    def settings(self) -> dict[int, Mapping[str, Any]]:
        """Return the settings, as given, that each trial ran under, by the trial's number."""
        return read_of_each_trial(self._file, "settings")

    def builds(self) -> list[Build]:
        """Return every build that trials refer to."""
        return [
            _BUILD.validate_json(text) for (text,) in self._file.rows("SELECT record FROM builds ORDER BY identity")
        ]

    def trials(self, configuration: str | None = None) -> list[TrialRecord]:
        """Return trials in order of their start, of one configuration or of all."""
        return read_trials(self._file, configuration)

    def events(self, trial: int) -> list[DeviceEvent]:
        """Return what happened to a trial's devices, in order of time."""
        return read_events(self._file, trial)

    def series(self, trial: int) -> list[Series]:
        """Return everything sampled during a trial, one series per device and counter."""
        return read_samples(self._file, trial)

    def spans(self, trial: int, begin_ns: int | None = None, end_ns: int | None = None) -> Spans:
        """Return what the split tracer saw during a trial, or what of it reaches into an interval."""
        return read_spans(self._file, trial, begin_ns, end_ns)

    def command(self, trial: int) -> Command:
        """Return what was started for a trial."""
        return read_command(self._file, trial)

    def predicted(self, trial: int) -> tuple[PlannedBuffer, ...] | None:
        """Return the buffers that were predicted before a trial started; None when nothing was."""
        return read_predicted(self._file, trial)

    def model(self, fingerprint: str) -> Model | None:
        """Return what the header of a model says; None when the trace does not hold it."""
        rows = self._file.rows("SELECT record FROM models WHERE fingerprint = ?", fingerprint)
        return _MODEL.validate_json(zlib.decompress(rows[0][0])) if rows else None

    def log(self, trial: int, program: str = "llama-server") -> str | None:
        """Return the whole log of one of a trial's programs, undecodable bytes replaced; None when there is none."""
        return read_log(self._file, trial, program)

    def registered(self) -> list[RegisteredHypothesis]:
        """Return all hypotheses in the order of their registration."""
        return read_hypotheses(self._file)

    def legs(self) -> list[tuple[int, LegPlace]]:
        """Return the trials that are legs, in the order of rounds and of places in them."""
        return read_legs(self._file)

    def next_round(self) -> int:
        """Return the number of the round after the last one."""
        return next_round(self._file)

    def verdicts(self) -> list[tuple[int, Verdict]]:
        """Return all verdicts with their dates in unix nanoseconds, the oldest first."""
        return read_verdicts(self._file)

    def op_shares(self, trial: int) -> dict[str, float]:
        """Return the shares of a pass that ops took in a trial; empty when they were not profiled."""
        return read_op_shares(self._file, trial)
