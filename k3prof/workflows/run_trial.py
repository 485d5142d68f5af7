"""One trial: devices and a server started, watched, warmed up, measured, stopped; everything into the trace."""

from __future__ import annotations

import os
import secrets
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from k3prof.core.evidence.proof import prove
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.metrics import METRICS
from k3prof.core.plan import (
    MOST_WARMUPS,
    PLATEAU_WINDOW,
    WARMUP_BUDGET_S,
    has_plateaued,
    warmup_workload,
)
from k3prof.core.plausibility import failed_requests, judge
from k3prof.core.spans import Spans
from k3prof.core.timeline import PhaseKind, Series
from k3prof.core.tracing_cost import arms, cost_caveat, tracing_costs
from k3prof.core.trial import (
    Caveat,
    Command,
    Failure,
    Outcome,
    RequestRecord,
    RequestStatus,
    TrialSpec,
    TrialStatus,
    Workload,
)
from k3prof.llama.client import Client, Role
from k3prof.llama.command import server_env
from k3prof.llama.devices import RunningDevices, free_port, running_devices
from k3prof.llama.logs import read_log
from k3prof.llama.server import Loading, Server, ServerFailedError, running_server
from k3prof.store.trace import Trace
from k3prof.workflows.observe import Observer, gpus_of, processes_of
from k3prof.workflows.rig import Rig
from k3prof.workflows.split_tracing import TrialTracer

_DEATH_PATIENCE_S = 5.0


@dataclass(frozen=True)
class Patience:
    """How long to wait without a sign of progress.

    Attributes:
        load_s: For a server that loads its model.
        request_s: For a request's next token or progress report.
    """

    load_s: float = 600.0
    request_s: float = 1800.0


@dataclass(frozen=True)
class FinishedTrial:
    """A trial that has ended.

    Attributes:
        id: Its number in the trace.
        outcome: How it ended.
    """

    id: int
    outcome: Outcome


class TrialListener(Protocol):
    """Who wants to know how a trial goes, as it goes. Calls come from the measuring thread and must return at once."""

    def on_phase(self, kind: PhaseKind, workload: Workload | None, repetition: int) -> None:
        """Loading begins, or a warm-up of a workload, or a measured repetition of it."""

    def on_rate(self, tokens_per_s: float) -> None:
        """A repetition was measured."""

    def on_loading(self, loading: Loading) -> None:
        """The server is still loading."""

    def on_tokens(self, count: int) -> None:
        """Tokens have arrived."""

    def on_samples(self, series: list[Series]) -> None:
        """Samples have been taken."""


def run_trial(
    spec: TrialSpec,
    predicted: Sequence[PlannedBuffer] | None,
    rig: Rig,
    trace: Trace,
    sweep: int,
    *,
    patience: Patience,
    listener: TrialListener,
    foreseen: Sequence[Caveat] = (),
) -> FinishedTrial:
    """Run one trial and store all of it.

    A trial whose server did something else than was asked is void. Whatever happens to the server is the trial's
    outcome. An interruption is stored as one, and goes on. What was foreseen is stored with its caveats.

    Raises:
        MachineError: The devices do not start.
        TraceError: The trace cannot be written any more.
    """
    started_ns = time.monotonic_ns()
    with tempfile.TemporaryDirectory(prefix="k3prof-") as name:
        folder = Path(name)
        with running_devices(rig.devices, rig.build, folder) as devices:
            trial = _Trial(spec, predicted, rig, devices, trace, patience, listener, folder, _caveats=list(foreseen))
            return trial.run(sweep, started_ns)


@dataclass
class _Trial:
    _spec: TrialSpec
    _predicted: Sequence[PlannedBuffer] | None
    _rig: Rig
    _devices: RunningDevices
    _trace: Trace
    _patience: Patience
    _listener: TrialListener
    _folder: Path
    _tracer: TrialTracer = field(init=False)
    _gpus: Observer = field(init=False)
    _number: int = 0
    _caveats: list[Caveat] = field(default_factory=list)
    _requests: list[RequestRecord] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._tracer = TrialTracer(self._rig.tracing, self._folder, self._devices.endpoints, self._keep_spans)
        self._gpus = Observer(gpus_of(self._rig.devices), self._keep_samples)

    def run(self, sweep: int, started_ns: int) -> FinishedTrial:
        port, alias, log = free_port(), f"k3prof-{secrets.token_hex(8)}", self._folder / "llama-server.log"
        config_home = self._folder / "config"
        config_home.mkdir()
        argv = self._rig.argv(self._spec, self._devices.endpoints, port, alias)
        own_env = {**self._spec.env, **self._tracer.env}
        env = server_env(os.environ, self._rig.devices.env, own_env, config_home)
        command = Command(tuple(argv), {**self._rig.devices.env, **own_env})
        self._number = self._trace.begin_trial(
            sweep,
            self._spec,
            self._rig.devices.devices,
            command,
            predicted=self._predicted,
            started_ns=started_ns,
        )
        outcome = Outcome(TrialStatus.INTERRUPTED, message="interrupted by the user")
        try:
            self._listener.on_phase(PhaseKind.LOAD, None, 0)
            with self._gpus, running_server(argv, env, port, alias, log) as server:
                outcome = self._serve(server)
            outcome = self._certified(outcome, log.read_text(errors="replace"))
        except ServerFailedError as error:
            outcome = error.outcome
        finally:
            self._tracer.drain(final=True)
            self._trace.add_caveats(self._number, [*self._caveats, *self._gpus.caveats, *self._tracing_caveats()])
            self._trace.add_events(self._number, self._gpus.events)
            logs = {"llama-server": log, **self._devices.logs}
            self._trace.finish_trial(self._number, outcome, time.monotonic_ns(), _read_logs(logs))
        return FinishedTrial(self._number, outcome)

    def _serve(self, server: Server) -> Outcome:
        pids = {**self._devices.pids, "CPU": server.pid}
        self._gpus.own_pids.update(pids.values())
        with Observer(processes_of(pids), self._keep_samples, self._tracer.drain) as observer:
            server.wait_until_ready(self._patience.load_s, self._listener.on_loading)
            self._trace.mark_ready(self._number, time.monotonic_ns())
            client = Client(server.url, self._patience.request_s, self._listener.on_tokens)
            failures = [failure for one in self._spec.workloads if (failure := self._measure(server, client, one))]
        self._caveats += observer.caveats
        if len(failures) == len(self._spec.workloads):
            return Outcome(TrialStatus.FAILED, Failure.REQUEST, failures[0])
        return Outcome(TrialStatus.OK)

    def _certified(self, outcome: Outcome, log: str) -> Outcome:
        """Return the outcome of a trial that ran: void where its log shows something else than was asked."""
        proof = prove(self._spec.flags, self._rig.devices.devices, self._predicted, read_log(log))
        self._caveats += proof.caveats
        return proof.certificate.outcome() if outcome.status is TrialStatus.OK else outcome

    def _measure(self, server: Server, client: Client, workload: Workload) -> str:
        """Warm up and measure one workload; return why it could not be measured, or nothing."""
        self._warm_up(server, client, workload)
        for repetition in range(self._spec.repeat):
            for arm in arms(repetition, self._spec.splits):
                counts = arm == "measure"
                self._listener.on_phase(PhaseKind.PREFILL if counts else PhaseKind.UNTRACED, workload, repetition)
                requests = self._repeat(server, client, workload, arm, repetition)
                if counts and (rate := METRICS[workload.kind].compute(requests)) is not None:
                    self._listener.on_rate(rate)
                if bad := failed_requests(requests):
                    self._caveats.append(Caveat(f"request-{bad[0].status}", f"{workload.name}: {bad[0].reason}"))
                    if bad[0].status is RequestStatus.REFUSED:
                        return f"{workload.name}: {bad[0].reason}"
        return ""

    def _warm_up(self, server: Server, client: Client, workload: Workload) -> None:
        short, metric = warmup_workload(workload), METRICS[workload.kind]
        rates: list[float] = []
        give_up_s = time.monotonic() + WARMUP_BUDGET_S
        for repetition in range(MOST_WARMUPS):
            if len(rates) >= PLATEAU_WINDOW and time.monotonic() > give_up_s:
                break
            self._listener.on_phase(PhaseKind.WARMUP, workload, repetition)
            requests = self._repeat(server, client, short, "warmup", repetition)
            rate = metric.compute(requests)
            if rate is None:
                return
            rates.append(rate)
            if has_plateaued(rates):
                return
        shown = ", ".join(f"{rate:.1f}" for rate in rates)
        self._caveats.append(
            Caveat(
                "no-plateau",
                f"{workload.name}: no plateau after {len(rates)} warm-ups: {shown} tok/s",
                "look for other load on this machine with `k3prof doctor`, or raise --repeat",
            )
        )

    def _repeat(
        self, server: Server, client: Client, workload: Workload, role: Role, repetition: int
    ) -> list[RequestRecord]:
        self._tracer.switch(on=role == "measure")
        requests = [judge(request) for request in client.run(workload, role, repetition)]
        self._tracer.switch(on=False)
        self._requests += requests
        self._trace.add_requests(self._number, requests)
        if any(request.status is RequestStatus.CUT for request in requests):
            server.raise_if_dead(_DEATH_PATIENCE_S)
        return requests

    def _tracing_caveats(self) -> list[Caveat]:
        cost = cost_caveat(self._spec.splits, tracing_costs(self._requests))
        return [caveat for caveat in (self._rig.tracing.caveat, cost) if caveat is not None] + self._tracer.caveats

    def _keep_spans(self, spans: Spans) -> None:
        self._trace.add_spans(self._number, spans)

    def _keep_samples(self, series: list[Series]) -> None:
        self._trace.add_samples(self._number, series)
        self._listener.on_samples(series)


def _read_logs(paths: Mapping[str, Path]) -> dict[str, bytes]:
    return {program: path.read_bytes() for program, path in paths.items() if path.exists()}
