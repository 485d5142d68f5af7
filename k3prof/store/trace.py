"""The trace: one SQLite file that holds everything asked, done and seen. Only this module knows how.

Each method commits before it returns, so that a killed process loses at most the call it was in.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter

from k3prof.core.build import Build
from k3prof.core.device import Device
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.spans import Spans
from k3prof.core.timeline import ClockAnchor, Series
from k3prof.core.trial import (
    Caveat,
    Command,
    Failure,
    Outcome,
    RequestRecord,
    TrialRecord,
    TrialSpec,
    TrialStatus,
)
from k3prof.core.weights.model import Model
from k3prof.errors import TraceError
from k3prof.store.requests import add_requests, read_requests
from k3prof.store.samples import add_samples, read_samples
from k3prof.store.spans import add_spans, read_spans
from k3prof.store.trace_file import TraceFile

_SPEC = TypeAdapter(TrialSpec)
_DEVICES = TypeAdapter(tuple[Device, ...])
_BUILD = TypeAdapter(Build)


_COMMAND = TypeAdapter(Command)
_MODEL = TypeAdapter(Model)
_PREDICTED = TypeAdapter(tuple[PlannedBuffer, ...] | None)


@dataclass(frozen=True)
class SweepRecord:
    """One invocation of a sweep.

    Attributes:
        id: Its number in the trace.
        anchor: One instant on both clocks; None when the date is not known.
        settings: The settings as given.
        host: Facts of the machine.
        asked: Placements and the hashes of their configurations, in the order of asking.
    """

    id: int
    anchor: ClockAnchor | None
    settings: Mapping[str, object]
    host: Mapping[str, object]
    asked: tuple[tuple[str, str], ...]


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
            db.execute(
                "UPDATE trials SET status = ?, message = ? WHERE status = ?",
                (TrialStatus.INTERRUPTED, "the sweep ended before the trial did", TrialStatus.RUNNING),
            )
            row = db.execute(
                "INSERT INTO sweeps (monotonic_ns, unix_ns, settings, host, asked) VALUES (?, ?, ?, ?, ?)",
                (
                    anchor.monotonic_ns if anchor else 0,
                    anchor.unix_ns if anchor else 0,
                    json.dumps(settings),
                    json.dumps(host),
                    json.dumps(asked),
                ),
            )
            return int(row.lastrowid or 0)

    def add_build(self, build: Build) -> None:
        """Note a build that trials refer to."""
        with self._file.writing() as db:
            db.execute("INSERT OR REPLACE INTO builds VALUES (?, ?)", (build.identity, _text(_BUILD.dump_json(build))))

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
            row = db.execute(
                "INSERT INTO trials (sweep, configuration, spec, devices, command, predicted, started_ns, status)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    sweep,
                    spec.configuration,
                    _text(_SPEC.dump_json(spec)),
                    _text(_DEVICES.dump_json(tuple(devices))),
                    _text(_COMMAND.dump_json(command)),
                    _text(_PREDICTED.dump_json(None if predicted is None else tuple(predicted))),
                    started_ns,
                    TrialStatus.RUNNING,
                ),
            )
            return int(row.lastrowid or 0)

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
            db.executemany(
                "INSERT INTO caveats VALUES (?, ?, ?, ?)",
                [(trial, one.code, one.message, one.remedy) for one in caveats],
            )

    def finish_trial(self, trial: int, outcome: Outcome, ended_ns: int, logs: Mapping[str, bytes]) -> None:
        """Note how a trial ended, with the whole logs of its programs."""
        with self._file.writing() as db:
            db.executemany(
                "INSERT OR REPLACE INTO logs VALUES (?, ?, ?)",
                [(trial, program, zlib.compress(text)) for program, text in logs.items()],
            )
            db.execute(
                "UPDATE trials SET ended_ns = ?, status = ?, failure = ?, message = ?, evidence = ? WHERE id = ?",
                (ended_ns, outcome.status, outcome.failure, outcome.message, outcome.evidence, trial),
            )

    def last_sweep(self) -> SweepRecord:
        """Return the latest invocation.

        Raises:
            TraceError: There was none yet.
        """
        rows = self._file.rows(
            "SELECT id, monotonic_ns, unix_ns, settings, host, asked FROM sweeps ORDER BY id DESC LIMIT 1"
        )
        if not rows:
            raise TraceError(f"{self._file.path}: holds no sweep yet")
        number, monotonic_ns, unix_ns, settings, host, asked = rows[0]
        return SweepRecord(
            number,
            ClockAnchor(monotonic_ns, unix_ns) if unix_ns else None,
            json.loads(settings),
            json.loads(host),
            tuple((placement, configuration) for placement, configuration in json.loads(asked)),
        )

    def anchors(self) -> dict[int, ClockAnchor]:
        """Return what dates the monotonic times of trials, by their numbers; those that nothing dates are left out."""
        rows = self._file.rows(
            "SELECT trials.id, monotonic_ns, unix_ns FROM trials JOIN sweeps ON sweeps.id = trials.sweep"
            " WHERE unix_ns ORDER BY trials.id"
        )
        return {trial: ClockAnchor(monotonic_ns, unix_ns) for trial, monotonic_ns, unix_ns in rows}

    def builds(self) -> list[Build]:
        """Return every build that trials refer to."""
        return [
            _BUILD.validate_json(text) for (text,) in self._file.rows("SELECT record FROM builds ORDER BY identity")
        ]

    def trials(self, configuration: str | None = None) -> list[TrialRecord]:
        """Return trials in order of their start, of one configuration or of all."""
        rows = self._file.rows(
            "SELECT id, spec, devices, started_ns, ready_ns, ended_ns, status, failure, message, evidence FROM trials"
            " WHERE configuration = coalesce(?, configuration) ORDER BY id",
            configuration,
        )
        return [
            TrialRecord(
                id=number,
                spec=_SPEC.validate_json(spec),
                devices=_DEVICES.validate_json(devices),
                started_ns=started_ns,
                ready_ns=ready_ns,
                ended_ns=ended_ns,
                outcome=Outcome(TrialStatus(status), Failure(failure) if failure else None, message, evidence),
                requests=tuple(read_requests(self._file, number)),
                caveats=tuple(
                    Caveat(*row)
                    for row in self._file.rows("SELECT code, message, remedy FROM caveats WHERE trial = ?", number)
                ),
            )
            for number, spec, devices, started_ns, ready_ns, ended_ns, status, failure, message, evidence in rows
        ]

    def series(self, trial: int) -> list[Series]:
        """Return everything sampled during a trial, one series per device and counter."""
        return read_samples(self._file, trial)

    def spans(self, trial: int, begin_ns: int | None = None, end_ns: int | None = None) -> Spans:
        """Return what the split tracer saw during a trial, or what of it reaches into an interval."""
        return read_spans(self._file, trial, begin_ns, end_ns)

    def command(self, trial: int) -> Command:
        """Return what was started for a trial."""
        return _COMMAND.validate_json(self._file.rows("SELECT command FROM trials WHERE id = ?", trial)[0][0])

    def predicted(self, trial: int) -> tuple[PlannedBuffer, ...] | None:
        """Return the buffers that were predicted before a trial started; None when nothing was."""
        ((text,),) = self._file.rows("SELECT predicted FROM trials WHERE id = ?", trial)
        return _PREDICTED.validate_json(text)

    def model(self, fingerprint: str) -> Model | None:
        """Return what the header of a model says; None when the trace does not hold it."""
        rows = self._file.rows("SELECT record FROM models WHERE fingerprint = ?", fingerprint)
        return _MODEL.validate_json(zlib.decompress(rows[0][0])) if rows else None

    def log(self, trial: int, program: str = "llama-server") -> str | None:
        """Return the whole log of one of a trial's programs, undecodable bytes replaced; None when there is none."""
        rows = self._file.rows("SELECT text FROM logs WHERE trial = ? AND program = ?", trial, program)
        return zlib.decompress(rows[0][0]).decode(errors="replace") if rows else None


def _text(json_bytes: bytes) -> str:
    return json_bytes.decode()
