"""What asking costs: the client's processor time for a token, and how far its clock is from the server's."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.trial import Workload
from tests.bench.effort import Effort
from tests.bench.figure import Figure
from tests.bench.load_generator import Load
from tests.bench.ratio import Ratio, paired_ratio
from tests.bench.serving import served

MODEL = "demo:k3-tiny"
TG64 = Workload("tg", 64)
STREAMS = (1, 8, 32)

_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Share:
    """The client's part in a token.

    Attributes:
        streams: Requests in flight at once.
        tokens: Tokens that it rests on.
        processor_us: The client's processor time for one token, in microseconds.
        wall_us: Time from one token to the next of any stream, in microseconds.
    """

    streams: int
    tokens: int
    processor_us: float
    wall_us: float

    @property
    def frac(self) -> float:
        """Processor time over wall time."""
        return self.processor_us / self.wall_us


@dataclass(frozen=True)
class ClientShare:
    """What the client costs.

    Attributes:
        shares: Its share of a token, for each number of streams.
        speed: Tokens per second by arrivals at the client over those by the server's own timings, at one stream.
    """

    shares: tuple[Share, ...]
    speed: Ratio

    @property
    def about(self) -> str:
        """Say how it was measured."""
        tokens = ", ".join(str(one.tokens) for one in self.shares)
        streams = ", ".join(str(one.streams) for one in self.shares)
        return (
            f"Client: {TG64.name} of {MODEL} on the host with {streams} streams, {tokens} tokens; processor time of "
            "its process over wall time, while tokens arrive. The model is fast, which makes the client's part large."
        )

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        shares = [
            Figure(
                f"client's part, {one.streams} stream{'s' if one.streams > 1 else ''}",
                f"{one.frac:.2%}: {one.processor_us:.0f} of {one.wall_us:.0f} µs",
            )
            for one in self.shares
        ]
        return [*shares, Figure("client's / server's tok/s", str(self.speed))]


def measure(build: Build, effort: Effort) -> ClientShare:
    """Ask one server on the host for tokens, with few and many streams in turn, from a process of its own."""
    workloads = [replace(TG64, streams=streams) for streams in STREAMS]
    # As many tokens with few streams as with many.
    rising = [one.name for one in workloads for _ in range(STREAMS[-1] // one.streams)]
    asked = [name for turn in range(effort.loads) for name in (rising if turn % 2 == 0 else reversed(rising))]
    warmup = [one.name for one in workloads]
    # One thread that does not spin leaves a processor to the client, as a GPU would.
    with served(build, MODEL, "cpu", workloads[-1], {"threads": 1, "poll": 0}) as server:
        loads = _generate(server.url, [*warmup, *asked])[len(warmup) :]
    pairs = [(one.client_tok_s, one.server_tok_s) for one in loads if one.server_tok_s is not None]
    return ClientShare(tuple(_share(workload, loads) for workload in workloads), paired_ratio(pairs))


def _generate(url: str, workloads: Sequence[str]) -> list[Load]:
    argv = [sys.executable, "-m", "tests.bench.load_generator", url, *workloads]
    printed = subprocess.run(argv, cwd=_REPOSITORY, stdout=subprocess.PIPE, text=True, check=True).stdout
    return [Load(**json.loads(line)) for line in printed.splitlines()]


def _share(workload: Workload, loads: Sequence[Load]) -> Share:
    ours = [one for one in loads if one.workload == workload.name]
    tokens = sum(one.tokens for one in ours)
    return Share(
        streams=workload.streams,
        tokens=tokens,
        processor_us=sum(one.processor_ns for one in ours) / tokens / 1e3,
        wall_us=sum(one.wall_ns for one in ours) / tokens / 1e3,
    )
