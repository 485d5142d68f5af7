"""A real llama-server to measure ourselves against."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.trial import FlagValue, Workload
from k3prof.llama.command import measurement_flags, server_argv, server_env
from k3prof.llama.devices import DevicePlan, free_port, plan_devices, running_devices
from k3prof.llama.flag_help import read_vocabulary
from k3prof.llama.server import running_server
from k3prof.llama.split_ring import SplitRing
from k3prof.llama.splits import SplitTracer
from k3prof.workflows.model_file import model_path

_ALIAS = "k3prof-bench"
_STALL_S = 120.0


@dataclass(frozen=True)
class Served:
    """A server that is ready.

    Attributes:
        url: Where it listens.
        devices: What it uses.
        pids: The stand-ins' processes by device name, and the server's as `CPU`.
        ring: Where its tracer writes.
    """

    url: str
    devices: DevicePlan
    pids: Mapping[str, int]
    ring: SplitRing


@contextlib.contextmanager
def served(
    build: Build,
    model: str,
    devices: str,
    workload: Workload,
    flags: Mapping[str, FlagValue],
    tracer: SplitTracer | None = None,
) -> Iterator[Served]:
    """Serve a model as a trial would, until the end of the block.

    Args:
        build: The llama.cpp build.
        model: `demo:NAME` or a path.
        devices: `rpc:N` or `cpu`.
        workload: The largest that it will be asked for; it gets a slot for each of its streams.
        flags: llama-server's long names, beyond what every measurement sets.
        tracer: What watches its scheduler, when it is told to.
    """
    vocabulary = read_vocabulary(Path(build.bin_dir))
    plan = plan_devices(devices, build, ())
    flags = {
        **measurement_flags(vocabulary, [workload], bool(plan.stand_ins)),
        "ctx-size": 2 * workload.context_tokens * workload.streams,
        **flags,
    }
    with tempfile.TemporaryDirectory(prefix="k3prof-bench-") as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        running = stack.enter_context(running_devices(plan, build, folder))
        port = free_port()
        argv = server_argv(
            Path(build.bin_dir) / "llama-server",
            vocabulary,
            flags,
            model=model_path(model),
            endpoints=running.endpoints,
            port=port,
            alias=_ALIAS,
        )
        ring = SplitRing(folder / "ring", running.endpoints)
        env = server_env(os.environ, plan.env, tracer.env(ring.path, {}) if tracer is not None else {}, folder)
        server = stack.enter_context(running_server(argv, env, port, _ALIAS, folder / "llama-server.log"))
        server.wait_until_ready(_STALL_S, lambda _: None)
        yield Served(server.url, plan, {**running.pids, "CPU": server.pid}, ring)
