"""Hypotheses in a trace: registered before they are tested, the legs that test them, and the verdicts."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import to_json

from k3prof.core.refutation.hypothesis import Hypothesis
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.verdict import Verdict
from k3prof.errors import TraceError
from k3prof.store.trace_file import TraceFile

Record = TypeVar("Record")

_HYPOTHESIS = TypeAdapter(Hypothesis)
_VERDICT = TypeAdapter(Verdict)
_SINCE = 2
"""The first version of traces that holds any of this."""


@dataclass(frozen=True)
class RegisteredHypothesis:
    """A hypothesis as the trace holds it, with the proof that it was there first.

    Attributes:
        hypothesis: What was registered, in the words of the last time.
        unix_ns: The date of that.
        monotonic_ns: The same instant on the clock of trials, which starts anew with each boot.
        sweep: The sweep that registered it.
        trials_before: How many trials the trace held then.
    """

    hypothesis: Hypothesis
    unix_ns: int
    monotonic_ns: int
    sweep: int
    trials_before: int


def add_hypothesis(db: sqlite3.Connection, hypothesis: Hypothesis, sweep: int) -> None:
    """Write a hypothesis with the time of now; one that is judged alike keeps its time, and gets the new words."""
    db.execute(
        "INSERT INTO hypotheses SELECT ?, ?, ?, ?, ?, count(*) FROM trials WHERE true"
        " ON CONFLICT (digest) DO UPDATE SET record = excluded.record",
        (hypothesis.digest, _json(hypothesis), time.time_ns(), time.monotonic_ns(), sweep),
    )


def read_hypotheses(file: TraceFile) -> list[RegisteredHypothesis]:
    """Return all hypotheses in the order of their registration."""
    rows = file.rows_since(
        _SINCE,
        "SELECT record, registered_unix_ns, registered_monotonic_ns, sweep, trials_before FROM hypotheses"
        " ORDER BY rowid",
    )
    return [RegisteredHypothesis(_read(file, _HYPOTHESIS, record), *rest) for record, *rest in rows]


def add_leg(db: sqlite3.Connection, trial: int, place: LegPlace) -> None:
    """Write which leg a trial is."""
    db.execute(
        "INSERT INTO legs VALUES (?, ?, ?, ?, ?)", (trial, place.round, place.position, place.placement, place.twin)
    )


def read_legs(file: TraceFile) -> list[tuple[int, LegPlace]]:
    """Return the trials that are legs, in the order of rounds and of places in them."""
    rows = file.rows_since(
        _SINCE, "SELECT trial, round, position, placement, twin FROM legs ORDER BY round, position, trial"
    )
    return [
        (trial, LegPlace(number, position, placement, bool(twin))) for trial, number, position, placement, twin in rows
    ]


def next_round(file: TraceFile) -> int:
    """Return the number of the round after the last one."""
    rows = file.rows_since(_SINCE, "SELECT max(round) + 1 FROM legs HAVING count(*)")
    return int(rows[0][0]) if rows else 0


def add_verdict(db: sqlite3.Connection, verdict: Verdict, unix_ns: int) -> None:
    """Write a verdict.

    Raises:
        ValueError: Its hypothesis was never registered.
    """
    digest = verdict.hypothesis.digest
    if not db.execute("SELECT 1 FROM hypotheses WHERE digest = ?", (digest,)).fetchone():
        raise ValueError(f"{verdict.hypothesis.id}: judged without having been registered")
    db.execute(
        "INSERT INTO verdicts (hypothesis, judged_unix_ns, blocks, record) VALUES (?, ?, ?, ?)",
        (digest, unix_ns, verdict.effect.blocks if verdict.effect else 0, _json(verdict)),
    )


def read_verdicts(file: TraceFile) -> list[tuple[int, Verdict]]:
    """Return all verdicts with their dates, in the order of writing."""
    rows = file.rows_since(_SINCE, "SELECT judged_unix_ns, record FROM verdicts ORDER BY id")
    return [(unix_ns, _read(file, _VERDICT, record)) for unix_ns, record in rows]


def add_op_shares(db: sqlite3.Connection, trial: int, shares: Mapping[str, float]) -> None:
    """Write the shares of a pass that ops took in a trial; a name that is there already gets the new share."""
    db.executemany(
        "INSERT OR REPLACE INTO op_shares VALUES (?, ?, ?)", [(trial, name, frac) for name, frac in shares.items()]
    )


def read_op_shares(file: TraceFile, trial: int) -> dict[str, float]:
    """Return the shares of a pass by name; empty when ops were not profiled."""
    return dict(file.rows_since(_SINCE, "SELECT name, frac FROM op_shares WHERE trial = ? ORDER BY name", trial))


def _json(record: object) -> str:
    # An infinite end of a band as text: JSON has no word for it, and pydantic would write null.
    return to_json(record, inf_nan_mode="strings").decode()


def _read(file: TraceFile, adapter: TypeAdapter[Record], text: str) -> Record:
    try:
        return adapter.validate_json(text)
    except ValidationError as error:
        raise TraceError(f"{file.path}: holds a damaged {error.title.lower()}", "measure into another trace") from error
