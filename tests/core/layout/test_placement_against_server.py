"""Every predicted buffer, held against what the real llama-server lists, to the last digit it prints."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.core.device import DeviceKind
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.graph_splits import predicted_splits
from k3prof.core.layout.overrides import with_buffer_types
from k3prof.core.layout.placement import Layout, place
from k3prof.core.layout.rig import Rig, RigDevice, RigHost
from k3prof.llama.command import server_argv, server_env
from k3prof.llama.demo_model import demo_model
from k3prof.llama.devices import RunningDevices, free_port, plan_devices, running_devices
from k3prof.llama.flag_help import read_vocabulary
from k3prof.llama.gguf import read_model
from k3prof.llama.processor import instruction_sets
from k3prof.llama.server import running_server
from tests.doubles.placement_cases import MODELS, MOST_STAND_INS, Case, all_cases

CASES = all_cases()
KINDS = {"model": BufferKind.MODEL, "KV": BufferKind.KV, "RS": BufferKind.STATE}
# Not k3prof's own reader of logs: this is the other side of the comparison.
BUFFER = re.compile(r"(\S+) (model|KV|RS) buffer size = *([0-9.]+) MiB")
SPLITS = re.compile(r"graph: .*splits = (\d+)")
AWAY_FROM_THEIR_LAYER = {"override-tensor", "n-cpu-ffn", "kv-offload"}
UNMEASURED = {"fit": "off", "threads": 1, "poll": 0, "cache-ram": 0, "ctx-checkpoints": 0, "warmup": False}

pytestmark = pytest.mark.server


class Server:
    """Starts the real server over stand-ins that stay the same."""

    def __init__(self, build: Build, devices: RunningDevices, models: dict[str, Path], folder: Path) -> None:
        self._build, self._devices, self._models, self._folder = build, devices, models, folder
        self._vocabulary = read_vocabulary(Path(build.bin_dir))
        self.buffer_types = {f"RPC{index}": f"RPC0[{endpoint}]" for index, endpoint in enumerate(devices.endpoints)}

    def log_of(self, case: Case) -> str:
        flags = {**UNMEASURED, **case.flags}
        if "override-tensor" in flags:
            flags["override-tensor"] = with_buffer_types(flags["override-tensor"], self.buffer_types)
        port, log = free_port(), self._folder / "server.log"
        argv = server_argv(
            Path(self._build.bin_dir) / "llama-server",
            self._vocabulary,
            flags,
            model=self._models[case.model],
            endpoints=self._devices.endpoints[: case.stand_ins],
            port=port,
            alias="case",
        )
        env = server_env(os.environ, self._devices.plan.env, {}, self._folder)
        with running_server(argv, env, port, "case", log) as server:
            server.wait_until_ready(60, lambda _: None)
        return log.read_text(errors="replace")

    def layout_of(self, case: Case) -> Layout:
        devices = [
            RigDevice(name, DeviceKind.STAND_IN, buffer_type=buffer_type)
            for name, buffer_type in list(self.buffer_types.items())[: case.stand_ins]
        ]
        rig = Rig("stand-ins", tuple(devices), RigHost(instruction_sets=instruction_sets()))
        return place(self.model(case), case.flags, rig)

    def model(self, case: Case):
        return read_model(self._models[case.model])


@pytest.fixture(scope="module")
def server(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("servers")
    models = {name: demo_model(name, folder / "cache") for name in MODELS}
    with running_devices(plan_devices(f"rpc:{MOST_STAND_INS}", build, ()), build, folder) as devices:
        yield Server(build, devices, models, folder)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_buffer_is_as_large_as_predicted(server: Server, case: Case) -> None:
    log, layout = server.log_of(case), server.layout_of(case)
    listed = Counter((KINDS[kind], name, size) for name, kind, size in BUFFER.findall(log))
    predicted = Counter((one.kind, one.name, f"{one.n_bytes / 2**20:.2f}") for one in layout.buffers)
    assert predicted == listed
    assert layout.pipelined == ("pipeline parallelism enabled" in log)
    splits = predicted_splits(server.model(case), layout)
    if splits is None:
        assert case.flags.keys() & AWAY_FROM_THEIR_LAYER
    else:
        assert splits == int(SPLITS.findall(log)[0])


def test_the_cases_are_many_and_differ() -> None:
    assert len({case.name for case in CASES}) >= 60
    assert {case.model for case in CASES} == set(MODELS)
    assert {case.stand_ins for case in CASES} == {2, 3, 4, 5}
    flags = Counter(flag for case in CASES for flag in case.flags)
    wanted = "n-gpu-layers tensor-split split-mode main-gpu device override-tensor cpu-moe n-cpu-moe n-cpu-ffn"
    wanted += " kv-offload parallel kv-unified cache-type-k load-mode repack no-host"
    assert all(flags[flag] >= 3 for flag in wanted.split()), flags
