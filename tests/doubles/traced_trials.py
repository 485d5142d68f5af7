"""Trials with split spans whose every nanosecond is known: K3's baton over three stand-ins, token after token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from k3prof.core.spans import COLUMNS, UNKNOWN, SpanKind, Spans, concatenate
from k3prof.core.timeline import Series
from k3prof.core.trial import RequestRecord, ServerTimings, TrialRecord, Workload
from tests.doubles.trials import MS, START_NS, stand_in_trial

US = 1_000
BUSY_NS = {"RPC0": 6_400 * US, "RPC1": 6_700 * US, "RPC2": 5_100 * US, "CPU": 10 * US}
"""For how long each device computes in a token."""


def token_spans(node: str = "node_1602", *, finished: bool = True, pace: float = 1.0) -> Spans:
    """Return the spans of one token, its begin being 0: 20 ms, each boundary going there, back, and there again."""

    def one(kind: SpanKind, device: str, begin_us: int, end_us: int, **columns: Any) -> Spans:
        values = dict.fromkeys(("source", "bytes", "first_layer", "last_layer", "first_node", "last_node"), UNKNOWN)
        values |= {"kind": kind, "begin_ns": int(begin_us * US * pace), "end_ns": int(end_us * US * pace)}
        values |= {"device": devices.index(device) if device else UNKNOWN, "finished": True, "nodes": 0, **columns}
        return Spans(
            **{name: np.array([values[name]], kind) for name, kind in COLUMNS.items()}, devices=devices, names=names
        )

    def work(device: str, begin_us: int, end_us: int, nodes: int, first: int = UNKNOWN, last: int = UNKNOWN) -> Spans:
        columns = {"nodes": nodes, "first_layer": first, "last_layer": last, "first_node": 0, "last_node": 1}
        return one(SpanKind.COMPUTE, device, begin_us, end_us, finished=finished or device == "CPU", **columns)

    def copy(source: str, device: str, begin_us: int, end_us: int) -> Spans:
        columns = {"source": devices.index(source), "bytes": 2048, "first_node": 1}
        return one(SpanKind.COPY, device, begin_us, end_us, **columns)

    devices, names = tuple(BUSY_NS), ("norm-0", node)
    return concatenate(
        [
            one(SpanKind.PASS, "", 0, 20_000, nodes=4776),
            work("CPU", 0, 10, 1),
            copy("CPU", "RPC0", 20, 60),
            one(SpanKind.SUBMIT, "RPC0", 60, 500, nodes=1602, first_layer=0, last_layer=8),
            work("RPC0", 500, 6_500, 1602, 0, 8),
            copy("RPC0", "RPC1", 6_510, 6_590),
            work("RPC1", 6_600, 6_700, 3),
            work("RPC0", 6_800, 7_200, 18, 8, 8),
            copy("RPC0", "RPC1", 7_210, 7_390),
            work("RPC1", 7_400, 13_600, 1674, 9, 17),
            copy("RPC1", "RPC2", 13_610, 13_690),
            work("RPC2", 13_700, 13_800, 3),
            work("RPC1", 13_900, 14_300, 18, 17, 17),
            copy("RPC1", "RPC2", 14_310, 14_490),
            work("RPC2", 14_500, 19_500, 1457, 18, 25),
            one(SpanKind.WAIT, "RPC2", 19_500, 20_000, finished=False),
        ]
    )


def repeated(token: Spans, begins_ns: np.ndarray) -> Spans:
    """Return a token's spans once for each of the begins."""
    tiled = {name: np.tile(getattr(token, name), begins_ns.size) for name in COLUMNS}
    shift_ns = np.repeat(begins_ns, len(token))
    return token.replace(**tiled | {name: tiled[name] + shift_ns for name in ("begin_ns", "end_ns")})


def traced_trial(
    placement: str = "even", node: str = "node_1602", *, finished: bool = True, repeat: int = 3
) -> tuple[TrialRecord, tuple[Series, ...], Spans]:
    """Return a trial on stand-ins, each measured token of which was traced: its pass takes 20 ms of about 30."""
    trial, series = stand_in_trial(placement, repeat=repeat)
    token = token_spans(node, finished=finished)
    begins_ns = [
        request.arrivals_ns[:-1] + MS
        for request in trial.requests
        if request.role == "measure" and request.workload.kind == "tg"
    ]
    begins_ns += [
        np.array([request.sent_ns + MS])
        for request in trial.requests
        if request.role == "measure" and request.workload.kind == "pp"
    ]
    return trial, series, concatenate([repeated(token, one) for one in begins_ns])


def ten_minutes(spans: int = 1_000_000) -> tuple[TrialRecord, tuple[Series, ...], Spans]:
    """Return a trial that generated for ten minutes, with so many spans."""
    trial, _ = stand_in_trial(repeat=1)
    tokens = -(-spans // len(token_spans()))
    token_ns = 600_000 * MS // tokens
    begins_ns = START_NS + 2_000 * MS + token_ns * np.arange(tokens, dtype=np.int64)
    arrivals_ns = np.append(begins_ns, begins_ns[-1] + token_ns)
    request = RequestRecord(
        Workload("tg", tokens + 1),
        "measure",
        0,
        0,
        int(begins_ns[0]) - MS,
        arrivals_ns,
        np.ones(arrivals_ns.size, np.int64),
        int(arrivals_ns[-1]),
        ServerTimings(),
    )
    whole = replace(trial, requests=(request,), ended_ns=int(arrivals_ns[-1]) + MS)
    return whole, (), repeated(token_spans(pace=token_ns / (25 * MS)), begins_ns)
