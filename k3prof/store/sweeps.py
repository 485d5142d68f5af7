"""Sweeps in a trace: when each was started, with which settings, on which host."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from k3prof.core.timeline import ClockAnchor
from k3prof.core.trial import TrialStatus
from k3prof.errors import TraceError
from k3prof.store.trace_file import TraceFile


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


def add_sweep(
    db: sqlite3.Connection,
    anchor: ClockAnchor | None,
    settings: Mapping[str, object],
    host: Mapping[str, object],
    asked: Sequence[tuple[str, str]],
) -> int:
    """Write an invocation and return its number; trials that a killed one left running become interrupted."""
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


def read_last_sweep(file: TraceFile) -> SweepRecord:
    """Return the latest invocation.

    Raises:
        TraceError: There was none yet.
    """
    rows = file.rows("SELECT id, monotonic_ns, unix_ns, settings, host, asked FROM sweeps ORDER BY id DESC LIMIT 1")
    if not rows:
        raise TraceError(f"{file.path}: holds no sweep yet")
    number, monotonic_ns, unix_ns, settings, host, asked = rows[0]
    return SweepRecord(
        number,
        ClockAnchor(monotonic_ns, unix_ns) if unix_ns else None,
        json.loads(settings),
        json.loads(host),
        tuple((placement, configuration) for placement, configuration in json.loads(asked)),
    )


def read_anchors(file: TraceFile) -> dict[int, ClockAnchor]:
    """Return what dates the monotonic times of trials, by their numbers; those that nothing dates are left out."""
    rows = file.rows(
        "SELECT trials.id, monotonic_ns, unix_ns FROM trials JOIN sweeps ON sweeps.id = trials.sweep"
        " WHERE unix_ns ORDER BY trials.id"
    )
    return {trial: ClockAnchor(monotonic_ns, unix_ns) for trial, monotonic_ns, unix_ns in rows}


def read_of_each_trial(file: TraceFile, column: Literal["settings", "host"]) -> dict[int, Mapping[str, Any]]:
    """Return the settings or the host of the sweep that each trial belongs to, by the trial's number.

    Trials of one sweep share one object.
    """
    sweeps = {number: json.loads(text) for number, text in file.rows(f"SELECT id, {column} FROM sweeps")}  # noqa: S608
    return {trial: sweeps[sweep] for trial, sweep in file.rows("SELECT id, sweep FROM trials ORDER BY id")}
