"""Trials in a trace: what was asked, what was started, how it ended."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence

from pydantic import TypeAdapter

from k3prof.core.device import Device
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.trial import Caveat, Command, Failure, Outcome, TrialRecord, TrialSpec, TrialStatus
from k3prof.store.requests import read_requests
from k3prof.store.trace_file import TraceFile

_SPEC = TypeAdapter(TrialSpec)
_DEVICES = TypeAdapter(tuple[Device, ...])
_COMMAND = TypeAdapter(Command)
_PREDICTED = TypeAdapter(tuple[PlannedBuffer, ...] | None)


def add_trial(
    db: sqlite3.Connection,
    sweep: int,
    spec: TrialSpec,
    devices: Sequence[Device],
    command: Command,
    *,
    predicted: Sequence[PlannedBuffer] | None,
    started_ns: int,
) -> int:
    """Write a trial that starts now and return its number."""
    row = db.execute(
        "INSERT INTO trials (sweep, configuration, spec, devices, command, predicted, started_ns, status)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
        (
            sweep,
            spec.configuration,
            _SPEC.dump_json(spec).decode(),
            _DEVICES.dump_json(tuple(devices)).decode(),
            _COMMAND.dump_json(command).decode(),
            _PREDICTED.dump_json(None if predicted is None else tuple(predicted)).decode(),
            started_ns,
            TrialStatus.RUNNING,
        ),
    )
    return int(row.lastrowid or 0)


def add_caveats(db: sqlite3.Connection, trial: int, caveats: Iterable[Caveat]) -> None:
    """Write reasons to doubt a trial's figures."""
    db.executemany(
        "INSERT INTO caveats VALUES (?, ?, ?, ?)", [(trial, one.code, one.message, one.remedy) for one in caveats]
    )


def add_events(db: sqlite3.Connection, trial: int, events: Iterable[DeviceEvent]) -> None:
    """Write what happened to a trial's devices."""
    db.executemany(
        "INSERT INTO events VALUES (?, ?, ?, ?, ?, ?)",
        [(trial, one.time_ns, one.device, one.kind, one.detail, one.number) for one in events],
    )


def read_events(file: TraceFile, trial: int) -> list[DeviceEvent]:
    """Return what happened to a trial's devices, in order; nothing from a trace of version 1."""
    rows = file.rows_since(
        2, "SELECT time_ns, device, kind, detail, number FROM events WHERE trial = ? ORDER BY time_ns, rowid", trial
    )
    return [
        DeviceEvent(time_ns, device, EventKind(kind), detail, number) for time_ns, device, kind, detail, number in rows
    ]


def finish_trial(
    db: sqlite3.Connection, trial: int, outcome: Outcome, ended_ns: int, logs: Mapping[str, bytes]
) -> None:
    """Write how a trial ended, with the whole logs of its programs."""
    db.executemany(
        "INSERT OR REPLACE INTO logs VALUES (?, ?, ?)",
        [(trial, program, zlib.compress(text)) for program, text in logs.items()],
    )
    db.execute(
        "UPDATE trials SET ended_ns = ?, status = ?, failure = ?, message = ?, evidence = ? WHERE id = ?",
        (ended_ns, outcome.status, outcome.failure, outcome.message, outcome.evidence, trial),
    )


def read_trials(file: TraceFile, configuration: str | None) -> list[TrialRecord]:
    """Return trials in order of their start, of one configuration or of all."""
    rows = file.rows(
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
            requests=tuple(read_requests(file, number)),
            caveats=tuple(
                Caveat(*row) for row in file.rows("SELECT code, message, remedy FROM caveats WHERE trial = ?", number)
            ),
        )
        for number, spec, devices, started_ns, ready_ns, ended_ns, status, failure, message, evidence in rows
    ]


def read_command(file: TraceFile, trial: int) -> Command:
    """Return what was started for a trial."""
    ((text,),) = file.rows("SELECT command FROM trials WHERE id = ?", trial)
    return _COMMAND.validate_json(text)


def read_predicted(file: TraceFile, trial: int) -> tuple[PlannedBuffer, ...] | None:
    """Return the buffers that were predicted before a trial started; None when nothing was."""
    ((text,),) = file.rows("SELECT predicted FROM trials WHERE id = ?", trial)
    return _PREDICTED.validate_json(text)


def read_log(file: TraceFile, trial: int, program: str) -> str | None:
    """Return the whole log of one of a trial's programs, undecodable bytes replaced; None when there is none."""
    rows = file.rows("SELECT text FROM logs WHERE trial = ? AND program = ?", trial, program)
    return zlib.decompress(rows[0][0]).decode(errors="replace") if rows else None
