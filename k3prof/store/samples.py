"""Samples in a trace: blocks of times and readings, each continuing the one before for its device and counter."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

import numpy as np

from k3prof.core.timeline import Counter, Series
from k3prof.store.trace_file import TraceFile, as_blob


def add_samples(db: sqlite3.Connection, trial: int, series: Iterable[Series]) -> None:
    """Write samples of a trial."""
    db.executemany(
        "INSERT INTO samples VALUES (?, ?, ?, ?, ?, ?)",
        [
            (trial, one.device, one.counter, one.period_ns, as_blob(one.time_ns, "<i8"), as_blob(one.value, "<f8"))
            for one in series
            if one.time_ns.size
        ],
    )


def read_samples(file: TraceFile, trial: int) -> list[Series]:
    """Return everything sampled during a trial, one series per device and counter."""
    rows = file.rows(
        "SELECT device, counter, period_ns, time, value FROM samples WHERE trial = ? ORDER BY device, counter, rowid",
        trial,
    )
    chunks: dict[tuple[str, str, int], list[tuple[bytes, bytes]]] = {}
    for device, counter, period_ns, time_blob, value_blob in rows:
        chunks.setdefault((device, counter, period_ns), []).append((time_blob, value_blob))
    return [
        Series(
            device,
            Counter(counter),
            period_ns,
            np.frombuffer(b"".join(time_blob for time_blob, _ in blobs), "<i8"),
            np.frombuffer(b"".join(value_blob for _, value_blob in blobs), "<f8"),
        )
        for (device, counter, period_ns), blobs in chunks.items()
    ]
