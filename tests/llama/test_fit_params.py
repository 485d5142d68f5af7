"""llama.cpp's own account of a full-size Kimi-K3, of which only the header exists, against the prediction."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.core.device import HOST, DeviceKind
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.layout.headroom import mask_bytes_per_cell
from k3prof.core.layout.overrides import with_buffer_types
from k3prof.core.layout.placement import place
from k3prof.core.layout.rig import Rig, RigDevice
from k3prof.core.weights.model import Model
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.devices import RunningDevices, plan_devices, running_devices
from k3prof.llama.fit_params import AskedMemory, ask_memory
from k3prof.llama.gguf import read_model
from tests.doubles.full_size_k3 import K3, Quant, write_full_size_k3

pytestmark = pytest.mark.server
MIB = 2**20


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_full_size_k3(tmp_path_factory.mktemp("k3") / "k3.gguf", K3(experts=448, trunk=Quant.Q4_K))


@pytest.fixture(scope="module")
def model(path: Path) -> Model:
    return read_model(path)


@pytest.fixture(scope="module")
def devices(build: Build, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningDevices]:
    with running_devices(plan_devices("rpc:5", build, ()), build, tmp_path_factory.mktemp("devices")) as running:
        yield running


def asked(build: Build, devices: RunningDevices, path: Path, flags: dict) -> dict[str, AskedMemory]:
    buffer_types = {f"RPC{index}": f"RPC0[{endpoint}]" for index, endpoint in enumerate(devices.endpoints)}
    if "override-tensor" in flags:
        flags = flags | {"override-tensor": with_buffer_types(flags["override-tensor"], buffer_types)}
    return ask_memory(build, flags, model=path, endpoints=devices.endpoints, env=devices.plan.env)


RIG = Rig("five", tuple(RigDevice(f"RPC{index}", DeviceKind.STAND_IN) for index in range(5)))
PLACEMENTS = [
    {"ctx-size": 16384, "parallel": 1},
    {"ctx-size": 1_048_576, "parallel": 1, "cache-type-k": "q8_0", "cache-type-v": "q8_0"},
    {"ctx-size": 65536, "parallel": 4, "n-cpu-moe": 86},
    {"ctx-size": 16384, "parallel": 2, "tensor-split": (3, 1, 1, 1, 1), "n-gpu-layers": 60},
    {"ctx-size": 4096, "parallel": 1, "override-tensor": r"blk\.(1[0-9]|2)\.ffn_.*_exps=CPU,blk\.5\.=RPC4"},
    {"ctx-size": 4096, "parallel": 1, "kv-offload": False, "device": "RPC3,RPC1"},
]


@pytest.mark.parametrize("flags", PLACEMENTS, ids=str)
def test_a_full_size_k3_takes_what_is_predicted(build, devices, path, model, flags) -> None:
    layout = place(model, {**flags, "load-mode": "none"}, RIG)
    said = asked(build, devices, path, flags)
    predicted = {}
    for name in layout.devices:
        kv, state = (layout.size_bytes(kind, name) for kind in (BufferKind.KV, BufferKind.STATE))
        predicted[name] = (layout.size_bytes(BufferKind.MODEL, name) // MIB, (kv + state) // MIB)
    said = {name: (memory.model_mib, memory.context_mib) for name, memory in said.items()}
    # Of repacked weights llama.cpp tells nobody: they are on the host, but not in its row.
    del predicted[HOST.name], said[HOST.name]
    assert predicted == said


@pytest.mark.parametrize(
    "flags", [{}, {"n-cpu-moe": 86}, {"ubatch-size": 256}, {"flash-attn": "off"}, {"parallel": 4}], ids=str
)
def test_compute_buffers_grow_with_the_context_as_predicted(build, devices, path, model, flags) -> None:
    few, many = ({"parallel": 1} | flags | {"ctx-size": tokens} for tokens in (65536, 262_144))
    layout = place(model, many, RIG)
    grown = (layout.context.cells - place(model, few, RIG).context.cells) * mask_bytes_per_cell(
        model, layout, FlagReader(many, str)
    )
    before, after = asked(build, devices, path, few), asked(build, devices, path, many)
    # What is needed at different times shares memory, so that one device or other grows by more or less.
    increase = statistics.median(after[name].compute_mib - before[name].compute_mib for name in layout.devices[:-1])
    assert increase == pytest.approx(grown / MIB, rel=0.1)


def test_a_unified_cache_is_asked_for_as_one_sequence(build, devices, path) -> None:
    flags = {"ctx-size": 16384}
    four_slots = asked(build, devices, path, flags | {"parallel": 4, "kv-unified": True})
    assert four_slots == asked(build, devices, path, flags | {"parallel": 1})
    assert four_slots == asked(build, devices, path, flags)


def test_flags_that_only_a_server_knows_are_left_out(build, devices, path) -> None:
    assert asked(build, devices, path, {"ctx-size": 4096, "cache-ram": 0, "fit": "on", "parallel": 1})


def test_a_model_that_llama_cpp_cannot_use_is_an_error(build, devices, tmp_path) -> None:
    (tmp_path / "no.gguf").write_bytes(b"GGUF")
    with pytest.raises(MachineError, match="llama-fit-params"):
        asked(build, devices, tmp_path / "no.gguf", {"parallel": 1})


def test_a_build_without_the_program_is_an_error(build, tmp_path) -> None:
    with pytest.raises(ConfigError, match="no such program"):
        ask_memory(replace(build, bin_dir=str(tmp_path)), {}, model=tmp_path, endpoints=(), env={})
