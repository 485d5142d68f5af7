"""Requests in a trace: one row each, arrivals and token counts as arrays."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import asdict

import numpy as np
from pydantic import TypeAdapter

from k3prof.core.trial import RequestRecord, RequestStatus, ServerTimings, Workload
from k3prof.store.trace_file import TraceFile, as_blob

_TIMINGS = TypeAdapter(ServerTimings)


def add_requests(db: sqlite3.Connection, trial: int, requests: Iterable[RequestRecord]) -> None:
    """Write requests of a trial."""
    db.executemany(
        "INSERT INTO requests (trial, workload, role, repetition, stream, sent_ns, ended_ns, arrivals, tokens,"
        " timings, status, reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        [
            (
                trial,
                one.workload.name,
                one.role,
                one.repetition,
                one.stream,
                one.sent_ns,
                one.ended_ns,
                as_blob(one.arrivals_ns, "<i8"),
                as_blob(one.tokens, "<i8"),
                json.dumps(asdict(one.timings)),
                one.status,
                one.reason,
            )
            for one in requests
        ],
    )


def read_requests(file: TraceFile, trial: int) -> Iterator[RequestRecord]:
    """Yield the requests of a trial in the order of writing."""
    rows = file.rows(
        "SELECT workload, role, repetition, stream, sent_ns, arrivals, tokens, ended_ns, timings, status, reason"
        " FROM requests WHERE trial = ? ORDER BY id",
        trial,
    )
    for workload, role, repetition, stream, sent_ns, arrivals, tokens, ended_ns, timings, status, reason in rows:
        yield RequestRecord(
            workload=Workload.parse(workload),
            role=role,
            repetition=repetition,
            stream=stream,
            sent_ns=sent_ns,
            arrivals_ns=np.frombuffer(arrivals, "<i8"),
            tokens=np.frombuffer(tokens, "<i8"),
            ended_ns=ended_ns,
            timings=_TIMINGS.validate_json(timings),
            status=RequestStatus(status),
            reason=reason,
        )
