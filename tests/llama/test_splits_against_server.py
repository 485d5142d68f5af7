"""The split tracer in the real llama-server on real stand-ins, held against its log and the processes' clocks."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import pytest

from k3prof.core.build import Build
from k3prof.core.experiment import flag_text
from k3prof.core.spans import SpanKind, Spans, SplitMode, busy_ns, concurrency_ns, layers_by_device, splits_per_pass
from k3prof.core.trial import FlagValue, RequestRecord, RequestStatus, Workload
from k3prof.llama.client import Client
from k3prof.llama.command import measurement_flags, server_argv, server_env
from k3prof.llama.demo_model import demo_model
from k3prof.llama.devices import free_port, plan_devices, running_devices
from k3prof.llama.flag_help import read_vocabulary
from k3prof.llama.logs import read_log
from k3prof.llama.server import Server, running_server
from k3prof.llama.split_ring import SplitRing
from k3prof.llama.splits import split_tracer

pytestmark = pytest.mark.server

NOTHING = Workload("tg", 2)
TG32 = Workload("tg", 32)
STRETCHES = 8
"""Other load on this machine lengthens spans and not processor time; one stretch in so many is quiet enough."""


@dataclass
class Traced:
    """A running server with the tracer in it."""

    server: Server
    ring: SplitRing
    log: Path
    pids: dict[str, int]
    endpoints: tuple[str, ...]

    def generate(self, mode: SplitMode, workload: Workload = TG32) -> tuple[RequestRecord, Spans]:
        """Ask for a generation, traced or not, and return what was seen of it."""
        self.ring.drain()
        self.ring.watch(mode)
        (request,) = Client(self.server.url, 60.0).run(workload, "measure", 0)
        self.ring.watch(SplitMode.OFF)
        # The next request begins when this one has wholly ended in the server.
        Client(self.server.url, 60.0).run(NOTHING, "measure", 0)
        assert request.status is RequestStatus.OK, request.reason
        assert self.ring.lost == 0
        return request, self.ring.drain()

    def text(self, mode: SplitMode) -> str:
        """Return a greedy answer to a fixed question."""
        self.ring.watch(mode)
        asked = {"prompt": "a quick brown fox", "n_predict": 48, "temperature": 0, "cache_prompt": False}
        answer = httpx.post(f"{self.server.url}/completion", json=asked, timeout=60, trust_env=False)
        self.ring.watch(SplitMode.OFF)
        return str(answer.json()["content"])


@contextlib.contextmanager
def traced_server(
    build: Build, folder: Path, model: str, devices: str, flags: dict[str, FlagValue] | None = None
) -> Iterator[Traced]:
    plan, vocabulary = plan_devices(devices, build, []), read_vocabulary(Path(build.bin_dir))
    defaults = measurement_flags(vocabulary, [TG32], bool(plan.stand_ins))
    with running_devices(plan, build, folder) as running:
        ring, port, log = SplitRing(folder / "ring", running.endpoints), free_port(), folder / "log"
        argv = server_argv(
            Path(build.bin_dir) / "llama-server",
            vocabulary,
            {**defaults, "ctx-size": 512, **(flags or {})},
            model=demo_model(model),
            endpoints=running.endpoints,
            port=port,
            alias="traced",
        )
        # Only at this level does the log say where each layer went.
        argv += ["--log-verbosity", flag_text(5)]
        env = server_env(os.environ, plan.env, split_tracer(build).env(ring.path, os.environ), folder)
        with running_server(argv, env, port, "traced", log) as server:
            server.wait_until_ready(60.0, lambda _: None)
            yield Traced(server, ring, log, {**running.pids, "CPU": server.pid}, running.endpoints)


@pytest.fixture(scope="module")
def tiny(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    with traced_server(build, tmp_path_factory.mktemp("tiny"), "k3-tiny", "rpc:3") as traced:
        yield traced


@pytest.fixture(scope="module")
def exact(tiny: Traced) -> tuple[RequestRecord, Spans]:
    return tiny.generate(SplitMode.EXACT)


def splits_in_log(log: Path) -> int:
    found = re.findall(r"graph: nodes = \d+, splits = (\d+)", log.read_text(errors="replace"))
    return int(found[-1])


def test_each_token_takes_as_many_splits_as_the_log_announces(tiny: Traced, exact: tuple[RequestRecord, Spans]) -> None:
    counts = splits_per_pass(exact[1])
    assert len(counts) == TG32.tokens  # one pass for the prompt of one token, and one for each further token
    assert set(counts.tolist()) == {splits_in_log(tiny.log)}


def test_every_layer_is_computed_where_the_log_put_it(tiny: Traced, exact: tuple[RequestRecord, Spans]) -> None:
    announced = read_log(tiny.log.read_text(errors="replace")).layer_devices
    assert announced is not None
    *layers, output = announced
    found = layers_by_device(exact[1])
    # Attention residuals take a layer's first nodes elsewhere, which bear no layer's name.
    assert found == {device: tuple(i for i, on in enumerate(layers) if on == device) for device in set(layers)}
    last = exact[1].of_kind(SpanKind.COMPUTE).on(output)
    assert "result_output" in {last.names[place] for place in last.last_node}


def test_boundaries_between_devices_are_crossed_to_and_fro(exact: tuple[RequestRecord, Spans]) -> None:
    work = exact[1].of_kind(SpanKind.COMPUTE)
    order = [work.devices[device] for device in work.device[:8]]
    assert order == ["CPU", "RPC0", "RPC1", "RPC0", "RPC1", "RPC2", "RPC1", "RPC2"]


def test_every_split_is_known_to_have_ended_though_synchronizing_proves_nothing(
    exact: tuple[RequestRecord, Spans],
) -> None:
    assert exact[1].of_kind(SpanKind.COMPUTE).finished.all()


def test_one_device_works_at_a_time(exact: tuple[RequestRecord, Spans]) -> None:
    request, spans = exact
    begin_ns, end_ns = int(request.arrivals_ns[0]), int(request.arrivals_ns[-1])
    at_once = concurrency_ns(spans, ["RPC0", "RPC1", "RPC2"], begin_ns, end_ns)
    assert at_once is not None
    assert at_once.sum() == end_ns - begin_ns
    assert at_once[1] > 0
    assert at_once[2:].tolist() == [0, 0]


def test_copies_cross_from_one_device_to_the_next_with_their_bytes(exact: tuple[RequestRecord, Spans]) -> None:
    copies = exact[1].of_kind(SpanKind.COPY)
    ways = {
        (copies.devices[source], copies.devices[device])
        for source, device in zip(copies.source, copies.device, strict=True)
    }
    assert {("CPU", "RPC0"), ("RPC0", "RPC1"), ("RPC1", "RPC2"), ("RPC2", "CPU")} <= ways
    logits = copies.where(np.isin(copies.first_node, [copies.names.index("result_output")]))
    # 4 bytes for each of the demo model's tokens of the vocabulary, once a token.
    assert len(logits) == TG32.tokens
    assert len(set(logits.bytes.tolist())) == 1
    assert logits.bytes[0] % 4 == 0


def test_a_pass_holds_what_happens_in_it_and_passes_follow_each_other(exact: tuple[RequestRecord, Spans]) -> None:
    passes, work = exact[1].of_kind(SpanKind.PASS), exact[1].of_kind(SpanKind.COMPUTE)
    assert (passes.end_ns[:-1] <= passes.begin_ns[1:]).all()
    inside = np.searchsorted(passes.begin_ns, work.begin_ns, "right") - 1
    assert (work.end_ns <= passes.end_ns[inside]).all()


def test_seen_lightly_there_are_the_same_splits_and_no_claim_when_they_ended(tiny: Traced) -> None:
    request, spans = tiny.generate(SplitMode.LIGHT)
    assert set(splits_per_pass(spans).tolist()) == {splits_in_log(tiny.log)}
    busy = busy_ns(spans, ["RPC0", "CPU"], int(request.sent_ns), int(request.ended_ns))
    assert busy["RPC0"] is None
    assert busy["CPU"] is not None


def test_tracing_changes_no_letter_of_the_answer(tiny: Traced) -> None:
    untraced = tiny.text(SplitMode.OFF)
    assert len(untraced) >= 48
    assert tiny.text(SplitMode.EXACT) == untraced
    assert tiny.text(SplitMode.LIGHT) == untraced
    tiny.ring.drain()


def test_a_server_that_is_killed_takes_no_record_with_it(build: Build, tmp_path: Path) -> None:
    with traced_server(build, tmp_path, "k3-tiny", "rpc:3") as traced:
        traced.ring.watch(SplitMode.EXACT)
        killed = []

        def kill_after_some(count: int) -> None:
            killed.append(count)
            if sum(killed) == 20:
                os.kill(traced.server.pid, signal.SIGKILL)

        (request,) = Client(traced.server.url, 60.0, kill_after_some).run(Workload("tg", 400), "measure", 0)
        assert request.status is RequestStatus.CUT
        spans = traced.ring.drain(final=True)
    passes = spans.of_kind(SpanKind.PASS)
    # A token arrives after its pass was written.
    assert (passes.end_ns < request.arrivals_ns[-1]).sum() >= 20
    assert traced.ring.lost <= 1  # what it was writing when it was killed


def test_experts_on_the_host_are_computed_there_without_being_asked_when_they_ended(
    build: Build, tmp_path: Path
) -> None:
    with traced_server(build, tmp_path, "k3-tiny", "rpc:2", {"n-cpu-moe": 3}) as traced:
        _, spans = traced.generate(SplitMode.LIGHT)
        assert set(splits_per_pass(spans).tolist()) == {splits_in_log(traced.log)}
    work = spans.of_kind(SpanKind.COMPUTE)
    assert work.on("CPU").finished.all()
    assert {1, 2} <= set(layers_by_device(spans)["CPU"])


def test_a_pipelined_prefill_is_traced_batch_by_batch_and_its_events_belong_to_devices(
    build: Build, tmp_path: Path
) -> None:
    flags: dict[str, FlagValue] = {"batch-size": 128, "ubatch-size": 32}
    with traced_server(build, tmp_path, "k3-tiny", "rpc:3", flags) as traced:
        _, light = traced.generate(SplitMode.LIGHT, Workload("pp", 128))
        _, exact = traced.generate(SplitMode.EXACT, Workload("pp", 128))
        assert "pipeline parallelism enabled" in traced.log.read_text(errors="replace")
        for spans in (light, exact):
            assert splits_per_pass(spans).tolist() == [splits_in_log(traced.log)] * 4
    assert (light.of_kind(SpanKind.WAIT).device >= 0).all()
    assert exact.of_kind(SpanKind.COMPUTE).finished.all()


def test_a_server_without_devices_is_traced_too(build: Build, tmp_path: Path) -> None:
    with traced_server(build, tmp_path, "k3-tiny", "cpu") as traced:
        request, spans = traced.generate(SplitMode.EXACT)
    begin_ns, end_ns = int(request.arrivals_ns[0]), int(request.arrivals_ns[-1])
    busy = busy_ns(spans, ["CPU"], begin_ns, end_ns)["CPU"]
    assert busy is not None
    assert 0 < busy < end_ns - begin_ns
    assert set(layers_by_device(spans)) == {"CPU"}


def test_busy_time_agrees_with_the_processes_own_clocks_within_a_tenth(build: Build, tmp_path: Path) -> None:
    with traced_server(build, tmp_path, "k3", "rpc:3") as traced:
        stand_ins = {device: pid for device, pid in traced.pids.items() if device != "CPU"}
        worst = []
        traced.ring.watch(SplitMode.EXACT)
        client = Client(traced.server.url, 60.0)
        for _ in range(STRETCHES):
            before = {device: processor_ns(pid) for device, pid in stand_ins.items()}
            (request,) = client.run(TG32, "measure", 0)
            spent = {device: processor_ns(pid) - before[device] for device, pid in stand_ins.items()}
            spans = traced.ring.drain()
            assert request.status is RequestStatus.OK, request.reason
            busy = busy_ns(spans, list(stand_ins), request.sent_ns, request.ended_ns)
            worst.append(max(abs((busy[device] or 0) / spent[device] - 1) for device in stand_ins))
            if worst[-1] <= 0.10:
                break
    assert min(worst) <= 0.10, worst


def processor_ns(pid: int) -> int:
    """Return the time that a process has spent on processors (`/proc/<pid>/task/*/schedstat`, first field)."""
    return sum(int(path.read_text().split()[0]) for path in Path(f"/proc/{pid}/task").glob("*/schedstat"))
