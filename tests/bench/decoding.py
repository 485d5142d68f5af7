"""Decoding on one server, sampled as a trial samples or left alone."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field

import numpy as np
import psutil

from k3prof.collectors.process import Process
from k3prof.collectors.sampler import MACHINE
from k3prof.core.metrics import decode_rate
from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import Workload
from k3prof.llama.client import Client
from k3prof.workflows.observe import Observer, processes_of
from tests.bench.serving import Served

_FIRST_SAMPLE_PATIENCE_S = 30.0
_SILENCE_PATIENCE_S = 60.0


@dataclass
class Watch:
    """What was seen of the sampler while the server decoded.

    Attributes:
        spent_ns: The sampler's processor time.
        wall_ns: The time in which it spent that.
        interval_ns: Time between its samples.
        late_ns: How late each sample of that time was.
    """

    spent_ns: int = 0
    wall_ns: int = 0
    interval_ns: int = 0
    late_ns: list[float] = field(default_factory=list)


class Decoding:
    """Decodes one workload again and again; each run returns its tokens per second by the server's clock."""

    def __init__(self, server: Served, workload: Workload) -> None:
        self.watch = Watch()
        self._server = server
        self._workload = workload
        self._client = Client(server.url, _SILENCE_PATIENCE_S)

    def unsampled(self) -> float:
        requests = self._client.run(self._workload, "measure", 0)
        rate = decode_rate(requests)
        if rate is None:
            raise RuntimeError(f"the server did not decode: {requests[0].status} {requests[0].reason}")
        return rate

    def sampled(self) -> float:
        samples: list[Series] = []
        sampling = threading.Event()

        def keep(series: list[Series]) -> None:
            samples.extend(series)
            sampling.set()

        before = set(psutil.Process().children())
        with Observer(processes_of(self._server.pids), keep):
            (sampler,) = set(psutil.Process().children()) - before
            # Starting a sampler is no part of what sampling costs.
            if not sampling.wait(_FIRST_SAMPLE_PATIENCE_S):
                raise TimeoutError("the sampler never sent a sample")
            account = Process(sampler.pid)
            begin_ns, spent_ns = time.monotonic_ns(), account.processor_time_ns()
            rate = self.unsampled()
            end_ns, spent_until_ns = time.monotonic_ns(), account.processor_time_ns()
            account.close()
        if spent_ns is None or spent_until_ns is None:
            raise RuntimeError("the sampler ended while it was sampling")
        self.watch.spent_ns += spent_until_ns - spent_ns
        self.watch.wall_ns += end_ns - begin_ns
        self._note_lateness(samples, begin_ns, end_ns)
        return rate

    def _note_lateness(self, samples: list[Series], begin_ns: int, end_ns: int) -> None:
        for one in samples:
            if one.device == MACHINE and one.counter is Counter.LATENESS_NS:
                first, last = np.searchsorted(one.time_ns, [begin_ns, end_ns])
                self.watch.late_ns += one.value[first:last].tolist()
                self.watch.interval_ns = one.period_ns
