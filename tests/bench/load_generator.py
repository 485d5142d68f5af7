"""The client in a process of its own, accounting for its processor time: `python -m tests.bench.load_generator`.

It runs the workloads that its arguments name, one after another, and prints one JSON object for each.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict, dataclass

from k3prof.core.metrics import decode_rate
from k3prof.core.trial import RequestRecord, Workload
from k3prof.llama.client import Client

_SILENCE_PATIENCE_S = 60.0


@dataclass(frozen=True)
class Load:
    """What one repetition of a workload cost its client.

    Attributes:
        workload: Its name.
        tokens: Tokens that arrived after the first event.
        processor_ns: Processor time of the whole client process while they arrived.
        wall_ns: The time in which they arrived.
        client_tok_s: Tokens per second by arrival times.
        server_tok_s: Tokens per second by the server's own timings; None for several streams.
    """

    workload: str
    tokens: int
    processor_ns: int
    wall_ns: int
    client_tok_s: float
    server_tok_s: float | None


class Account:
    """Reads the clocks of wall and processor at the first event and when the last token is there, and not between."""

    def __init__(self, expected: int) -> None:
        self._left = expected
        self._begin = (0, 0)
        self.tokens = self.wall_ns = self.processor_ns = 0

    def on_tokens(self, count: int) -> None:
        self._left -= count
        if self._begin == (0, 0):
            self._begin = (time.monotonic_ns(), time.process_time_ns())
            self.tokens = self._left
        elif self._left == 0:
            self.wall_ns = time.monotonic_ns() - self._begin[0]
            self.processor_ns = time.process_time_ns() - self._begin[1]


def run(url: str, workload: Workload) -> Load:
    """Run a workload once."""
    account = Account(workload.tokens * workload.streams)
    requests = Client(url, _SILENCE_PATIENCE_S, account.on_tokens).run(workload, "measure", 0)
    if any(one.reason for one in requests) or account.wall_ns == 0:
        raise RuntimeError(f"{workload.name} failed: {', '.join(sorted({one.reason for one in requests}))}")
    return Load(
        workload.name,
        account.tokens,
        account.processor_ns,
        account.wall_ns,
        account.tokens * 1e9 / account.wall_ns,
        _server_rate(requests),
    )


def _server_rate(requests: list[RequestRecord]) -> float | None:
    return decode_rate(requests) if len(requests) == 1 else None


if __name__ == "__main__":
    for name in sys.argv[2:]:
        print(json.dumps(asdict(run(sys.argv[1], Workload.parse(name)))), flush=True)
