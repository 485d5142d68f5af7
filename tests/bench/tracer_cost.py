"""What tracing splits costs: decode speed, time per record, bytes per record."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.metrics import decode_rate
from k3prof.core.spans import Spans, SplitMode, concatenate
from k3prof.core.trial import Workload
from k3prof.llama.client import Client
from k3prof.llama.split_ring import SplitRing
from k3prof.llama.splits import split_tracer
from k3prof.store.schema import TABLES
from k3prof.store.spans import add_spans
from tests.bench.effort import Effort
from tests.bench.figure import Figure
from tests.bench.ratio import Ratio, interleaved, ratio
from tests.bench.serving import Served, served
from tests.doubles.traced_build import RECORDS_PER_PASS, compile_build, running, told

STAND_INS = "rpc:3"
TG64 = Workload("tg", 64)
_PATIENCE_S = 60.0
_PASSES = 20_000


@dataclass(frozen=True)
class TracerCost:
    """What the split tracer costs.

    Attributes:
        model: What was decoded.
        exact: Decode speed, traced exactly over not traced.
        light: Decode speed, traced lightly over not traced.
        spans_per_token: Spans that a token makes when it is traced exactly.
        record_ns: What a record costs the thread that makes it.
        ring_bytes: Size of a record on its way.
        stored_bytes: Size of a span in a trace.
    """

    model: str
    exact: Ratio
    light: Ratio
    spans_per_token: float
    record_ns: float
    ring_bytes: float
    stored_bytes: float

    @property
    def about(self) -> str:
        """Say how it was measured."""
        return (
            f"Split tracer: {TG64.name} of {self.model} on {STAND_INS}, {self.exact.blocks} blocks of ABBA or BAAB; "
            f"records of {_PASSES * RECORDS_PER_PASS:,} calls that do nothing."
        )

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        return [
            Figure("exactly traced / untraced tok/s", str(self.exact)),
            Figure("lightly traced / untraced tok/s", str(self.light)),
            Figure("traced records", f"{1e9 / self.record_ns:,.0f} a second; {self.spans_per_token:.0f} a token"),
            Figure("bytes a record", f"{self.ring_bytes:.0f} in the ring, {self.stored_bytes:.1f} in the trace"),
        ]


def measure(build: Build, effort: Effort) -> TracerCost:
    """Decode on one server, traced and untraced in turn, and let a server that does nothing write records."""
    with served(build, effort.model, STAND_INS, TG64, {}, split_tracer(build)) as server:
        decoding = _Decoding(server)
        decoding.rate(SplitMode.OFF)
        untraced = partial(decoding.rate, SplitMode.OFF)
        light = interleaved(effort.blocks, partial(decoding.rate, SplitMode.LIGHT), untraced)
        decoding.seen.clear()
        exact = interleaved(effort.blocks, partial(decoding.rate, SplitMode.EXACT), untraced)
    spans = concatenate(decoding.seen)
    record_ns, ring_bytes = _records()
    return TracerCost(
        model=effort.model,
        exact=ratio(exact),
        light=ratio(light),
        spans_per_token=len(spans) / (2 * effort.blocks * TG64.tokens),
        record_ns=record_ns,
        ring_bytes=ring_bytes,
        stored_bytes=_stored_bytes(decoding.seen) / len(spans),
    )


class _Decoding:
    """Decodes on one server; what was seen of it lies in `seen`."""

    def __init__(self, server: Served) -> None:
        self.seen: list[Spans] = []
        self._ring = server.ring
        self._client = Client(server.url, _PATIENCE_S)

    def rate(self, mode: SplitMode) -> float:
        self._ring.watch(mode)
        requests = self._client.run(TG64, "measure", 0)
        self._ring.watch(SplitMode.OFF)
        if len(spans := self._ring.drain()):
            self.seen.append(spans)
        rate = decode_rate(requests)
        if rate is None:
            raise RuntimeError(f"the server did not decode: {requests[0].status} {requests[0].reason}")
        return rate


def _records() -> tuple[float, float]:
    """Return what a record costs in ns, the program's start and end excluded, and its bytes in the ring."""
    with tempfile.TemporaryDirectory(prefix="k3prof-bench-") as name:
        folder = Path(name)
        build = compile_build(folder / "build")
        seconds = {mode: _run_s(build, folder, mode) for mode in (SplitMode.OFF, SplitMode.LIGHT)}
        capacity = 1000
        larger, smaller = (SplitRing(folder / "ring", capacity=n).path.stat().st_size for n in (2 * capacity, capacity))
    spent_s = seconds[SplitMode.LIGHT] - seconds[SplitMode.OFF]
    return max(spent_s, 1e-9) * 1e9 / (_PASSES * RECORDS_PER_PASS), (larger - smaller) / capacity


def _run_s(build: Build, folder: Path, mode: SplitMode) -> float:
    ring = SplitRing(folder / "ring", capacity=_PASSES * RECORDS_PER_PASS)
    ring.watch(mode)
    begin_s = time.perf_counter()
    with running(build, ring.path, _PASSES) as process:
        told(process)
        return time.perf_counter() - begin_s


def _stored_bytes(chunks: Sequence[Spans]) -> int:
    database = sqlite3.connect(":memory:")
    database.executescript(TABLES)
    for chunk in chunks:
        add_spans(database, 1, chunk)
    ((size,),) = database.execute("SELECT sum(length(columns) + length(devices) + length(names)) FROM spans")
    database.close()
    return int(size)
