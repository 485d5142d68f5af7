"""Where the time of a token goes: each nanosecond of a phase under one heading, held against the client's clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from statistics import median_low

import numpy as np
from numpy.typing import NDArray

from k3prof.core.device import HOST
from k3prof.core.spans import SpanKind, Spans, computing, union
from k3prof.core.trial import Workload

_STALL = 3
"""So many times the median of what no record tells of, in a pass or between two: beyond that it is no usual work."""


class LineKind(StrEnum):
    """What a line of a ledger counts. Where two would claim a moment, the one that stands first here gets it."""

    DEVICE = "device"
    """One device computes, and no other."""
    AT_ONCE = "at once"
    """Several compute, the host perhaps among them; counted once."""
    HOST_COMPUTE = "host compute"
    """The host alone computes part of the graph: experts that were left to it, the embedding."""
    COPIES = "copies"
    """A tensor is on its way, and nothing computes."""
    SCHEDULER = "scheduler"
    """The rest of a pass: splits are handed out, devices asked whether they are through."""
    BETWEEN = "sampling and HTTP"
    """Between two passes: llama-server samples, sends the token, sets up the next pass."""
    UNEXPLAINED = "unexplained"
    """What is left of the client's time."""


@dataclass(frozen=True)
class LedgerLine:
    """One heading.

    Attributes:
        name: For people; a device's line is called after it.
        kind: What it counts.
        ms_per_token: Milliseconds of a token; None where it cannot be told from others, which leaves it unexplained.
        share: The same, as a share of the token's time.
    """

    name: str
    kind: LineKind
    ms_per_token: float | None
    share: float | None


@dataclass(frozen=True)
class Crossings:
    """How a forward pass goes from device to device; the median pass.

    Attributes:
        splits: Stretches of the graph, each on one device or the host.
        devices: Devices that compute any of them, without the host.
        handovers: How often a device follows another.
        returns: Hand-overs beyond the one that each further device needs: a boundary was crossed back.
        host_turns: How often the host computes something between two splits of devices.
    """

    splits: int
    devices: int
    handovers: int
    returns: int
    host_turns: int


@dataclass(frozen=True)
class Ledger:
    """The time of a token in one phase of one workload.

    Attributes:
        workload: `tg` for decode, `pp` for prefill.
        lines: They sum to `token_ms`; the last is what is unexplained.
        token_ms: What the client measured.
        tokens: Over how many tokens this is the mean.
        busy_ms: For how long each device computes per token, alone or not; None where that is not known.
        crossings: How a pass goes from device to device.
    """

    workload: Workload
    lines: tuple[LedgerLine, ...]
    token_ms: float
    tokens: int
    busy_ms: Mapping[str, float | None]
    crossings: Crossings

    @property
    def explained_ms(self) -> float:
        """Milliseconds of a token that stand under a heading."""
        return self.token_ms - (self.lines[-1].ms_per_token or 0.0)

    @property
    def closes_by_frac(self) -> float:
        """What is unexplained, as a share of the token's time: 0 is a ledger that closes."""
        return self.lines[-1].share or 0.0

    @property
    def device_times_known(self) -> bool:
        """Whether it is known when devices had finished; a light trace sees only when they were asked to begin."""
        return None not in self.busy_ms.values()

    def ms(self, kind: LineKind, name: str | None = None) -> float | None:
        """Return the milliseconds under all lines of a kind, or one of them; None where that is not known."""
        found = [line.ms_per_token for line in self.lines if line.kind is kind and name in (None, line.name)]
        known = [ms for ms in found if ms is not None]
        return sum(known) if len(known) == len(found) else None


@dataclass(frozen=True, eq=False)
class Observed:
    """One repetition of a phase.

    Attributes:
        begin_ns: Its begin by the client's clock, which is the tracer's, too.
        end_ns: Its end.
        tokens: Tokens that came of it, over all streams.
        spans: What the split tracer saw.
    """

    begin_ns: int
    end_ns: int
    tokens: int
    spans: Spans

    def seen(self) -> Spans:
        """Return the spans of the phase, cut at its limits."""
        spans = self.spans.reaching_into(self.begin_ns, self.end_ns)
        return spans.replace(
            begin_ns=np.maximum(spans.begin_ns, self.begin_ns), end_ns=np.minimum(spans.end_ns, self.end_ns)
        )


@dataclass(frozen=True, eq=False)
class _Division:
    """A repetition's nanoseconds, divided."""

    alone: Mapping[str, int]
    at_once: int
    copies: int
    scheduling: int
    rest_of_passes: NDArray[np.int64]
    at_edges: int
    between_passes: NDArray[np.int64]
    busy: Mapping[str, int | None]


def ledger(workload: Workload, devices: Sequence[str], repetitions: Iterable[Observed]) -> Ledger | None:
    """Return the ledger over all repetitions of a phase; None where no pass was traced.

    Every moment counts once, under the first of `LineKind` that claims it. What no record tells of is the scheduler's
    in a pass, and sampling and HTTP between two, up to three times what is usual there, the median; what exceeds that,
    such as the place of a lost record or a pause of the whole machine, is unexplained. Where some splits are not known
    to have ended, neither the devices' time nor what would hide it (copies, scheduler) can be told: all unexplained.

    Args:
        workload: The workload.
        devices: The devices in the order of the lines. The host is added.
        repetitions: The repetitions, in any order.
    """
    seen = [one for one in repetitions if one.tokens and len(one.seen().of_kind(SpanKind.PASS))]
    if not seen:
        return None
    computed_on = (one.spans.devices[at] for one in seen for at in np.unique(one.spans.device) if at >= 0)
    names = sorted(dict.fromkeys([*devices, *computed_on, HOST.name]), key=lambda name: name == HOST.name)
    parts = [_divide(one, names) for one in seen]
    tokens = sum(one.tokens for one in seen)
    total_ns = sum(one.end_ns - one.begin_ns for one in seen)
    busy = {name: _sum(part.busy[name] for part in parts) for name in names}
    told = None not in busy.values()
    claimed = list(_claims(parts, names, told=told))
    left_ns = total_ns - sum(ns or 0 for _, _, ns in claimed)
    return Ledger(
        workload,
        tuple(
            LedgerLine(name, kind, None if ns is None else ns / tokens / 1e6, None if ns is None else ns / total_ns)
            for name, kind, ns in [*claimed, ("unexplained", LineKind.UNEXPLAINED, left_ns)]
        ),
        total_ns / tokens / 1e6,
        tokens,
        {name: None if ns is None else ns / tokens / 1e6 for name, ns in busy.items()},
        _crossings([one.spans for one in seen]),
    )


def _claims(
    parts: Sequence[_Division], names: Sequence[str], *, told: bool
) -> Iterator[tuple[str, LineKind, int | None]]:
    """Yield each line but the last: name, kind, nanoseconds; `told`: whether devices are known to have finished."""
    for name in names:
        if name != HOST.name:
            yield name, LineKind.DEVICE, sum(part.alone[name] for part in parts) if told else None
    if told and (at_once := sum(part.at_once for part in parts)):
        yield "at once", LineKind.AT_ONCE, at_once
    yield HOST.name, LineKind.HOST_COMPUTE, sum(part.alone[HOST.name] for part in parts)
    yield "copies", LineKind.COPIES, sum(part.copies for part in parts) if told else None
    scheduler = sum(part.scheduling for part in parts) + _usual(part.rest_of_passes for part in parts)
    yield "scheduler", LineKind.SCHEDULER, scheduler if told else None
    between = sum(part.at_edges for part in parts) + _usual(part.between_passes for part in parts)
    yield "sampling and HTTP", LineKind.BETWEEN, between


def _divide(observed: Observed, names: Sequence[str]) -> _Division:
    spans = observed.seen()
    work = {name: computing(spans, name, observed.begin_ns, observed.end_ns) for name in names}
    claims = [_intervals(spans.of_kind(SpanKind.COMPUTE).on(name)) for name in names]
    passes, copies = _intervals(spans.of_kind(SpanKind.PASS)), _intervals(spans.of_kind(SpanKind.COPY))
    scheduling = _intervals(spans.where(np.isin(spans.kind, [SpanKind.SUBMIT, SpanKind.WAIT])))
    limits = np.array([observed.begin_ns, observed.end_ns], np.int64)
    edges_ns = np.unique(
        np.concatenate([limits, *(one for pair in [*claims, passes, copies, scheduling] for one in pair)])
    )
    begin_ns, lengths_ns = edges_ns[:-1], np.diff(edges_ns)
    computes = np.array([_covers(one, begin_ns) for one in claims])
    how_many = computes.sum(axis=0)
    copying, busy_host, in_pass = (_covers(one, begin_ns) for one in (copies, scheduling, passes))
    unseen = (how_many == 0) & ~copying & ~busy_host
    passes_begun = np.searchsorted(passes[0], begin_ns, "right")
    in_passes_ns, stretches_ns = np.zeros((2, passes[0].size + 1), np.int64)
    np.add.at(in_passes_ns, passes_begun[unseen & in_pass], lengths_ns[unseen & in_pass])
    np.add.at(stretches_ns, passes_begun[unseen & ~in_pass], lengths_ns[unseen & ~in_pass])
    return _Division(
        {name: int(lengths_ns[one & (how_many == 1)].sum()) for name, one in zip(names, computes, strict=True)},
        int(lengths_ns[how_many > 1].sum()),
        int(lengths_ns[(how_many == 0) & copying].sum()),
        int(lengths_ns[(how_many == 0) & ~copying & busy_host].sum()),
        in_passes_ns[1:],
        int(stretches_ns[0] + stretches_ns[-1]),
        stretches_ns[1:-1],
        {name: None if one is None else int((one[1] - one[0]).sum()) for name, one in work.items()},
    )


def _intervals(spans: Spans) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return when any of the spans was under way."""
    return union(spans.begin_ns, spans.end_ns)


def _covers(intervals: tuple[NDArray[np.int64], NDArray[np.int64]], at_ns: NDArray[np.int64]) -> NDArray[np.bool_]:
    begun, ended = (np.searchsorted(edges, at_ns, "right") for edges in intervals)
    return begun > ended


def _usual(lengths_ns: Iterable[NDArray[np.int64]]) -> int:
    """Return the sum of lengths, of each at most three times the median."""
    found_ns = np.concatenate(list(lengths_ns))
    return int(np.minimum(found_ns, int(_STALL * np.median(found_ns))).sum()) if found_ns.size else 0


def _sum(values: Iterable[int | None]) -> int | None:
    found = list(values)
    known = [value for value in found if value is not None]
    return sum(known) if len(known) == len(found) else None


def _crossings(traced: Sequence[Spans]) -> Crossings:
    paths = [path for spans in traced for path in _paths(spans)]
    found = [_follow(path) for path in paths] or [(0, 0, 0, 0, 0)]
    return Crossings(*(median_low(values) for values in zip(*found, strict=True)))


def _paths(spans: Spans) -> Iterator[list[str]]:
    """Yield the devices of each pass's splits, in order."""
    passes, work = spans.of_kind(SpanKind.PASS), spans.of_kind(SpanKind.COMPUTE)
    first, behind = np.searchsorted(work.begin_ns, passes.begin_ns), np.searchsorted(work.begin_ns, passes.end_ns)
    for begin, end in zip(first.tolist(), behind.tolist(), strict=True):
        yield [spans.devices[at] for at in work.device[begin:end].tolist() if at >= 0]


def _follow(path: Sequence[str]) -> tuple[int, int, int, int, int]:
    turns = [name for name, _ in groupby(path)]
    visits = [name for name, _ in groupby(name for name in turns if name != HOST.name)]
    handovers, devices = max(len(visits) - 1, 0), len(set(visits))
    return len(path), devices, handovers, len(visits) - devices, turns[1:-1].count(HOST.name)
