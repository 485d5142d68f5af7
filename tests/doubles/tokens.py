"""Decode tokens as the split tracer sees them, every nanosecond chosen by the test."""

from __future__ import annotations

from collections.abc import Sequence

from k3prof.core.ledger import Ledger, Observed, ledger
from k3prof.core.spans import SpanKind, Spans, concatenate
from k3prof.core.trial import Workload
from tests.doubles.spans import span

Row = tuple[SpanKind, str, int, int]
"""Kind, device, begin and end."""

TG = Workload("tg", 8)
MS = 1_000_000
TOKEN_NS = 20 * MS
_PING_PONG = (
    (SpanKind.COMPUTE, "CPU", 0.0, 0.5),
    (SpanKind.COPY, "RPC0", 0.5, 0.75),
    (SpanKind.SUBMIT, "RPC0", 0.75, 1.25),
    (SpanKind.COMPUTE, "RPC0", 1.25, 6.25),
    (SpanKind.COMPUTE, "RPC1", 6.5, 7.0),
    (SpanKind.COMPUTE, "RPC0", 7.0, 8.0),
    (SpanKind.COPY, "RPC1", 8.0, 9.0),
    (SpanKind.COMPUTE, "RPC1", 9.0, 16.0),
    (SpanKind.WAIT, "RPC1", 18.5, 18.75),
)
"""One token of 20 ms on two devices, in milliseconds: its pass lasts for 18 ms, then llama-server samples."""


def spans_of(rows: Sequence[Row], *, finished: bool = True) -> Spans:
    """Return rows as spans; what the host computes has always finished."""
    return concatenate([span(*row, finished=finished or row[1] == "CPU") for row in rows])


def pass_rows(begin_ns: int) -> list[Row]:
    """Return the rows of a token whose pass begins then."""
    rows = [
        (kind, device, begin_ns + int(begin * MS), begin_ns + int(end * MS)) for kind, device, begin, end in _PING_PONG
    ]
    return [(SpanKind.PASS, "", begin_ns, begin_ns + 18 * MS), *rows]


def decode(tokens: int = 8, begin_ns: int = 1000 * MS, missing: Sequence[int] = (), finished: bool = True) -> Observed:
    """Return that many tokens, one after another, some of whose records were lost."""
    rows = [row for at in range(tokens) if at not in missing for row in pass_rows(begin_ns + at * TOKEN_NS)]
    return Observed(begin_ns, begin_ns + tokens * TOKEN_NS, tokens, spans_of(rows, finished=finished))


def known_ledger(finished: bool = True) -> Ledger:
    """Return the ledger of eight such tokens."""
    found = ledger(TG, ("RPC0", "RPC1"), [decode(finished=finished)])
    assert found is not None
    return found
