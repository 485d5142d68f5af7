"""The devices of a sweep: real GPUs, stand-ins on this machine's processor, or the host alone."""

from __future__ import annotations

import contextlib
import os
import re
import socket
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from k3prof.core.build import Build
from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.experiment import MAX_STAND_INS, MIN_STAND_INS
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.child import spawn, terminate

DEFAULT_STAND_INS = 3
_NO_GPUS = {"CUDA_VISIBLE_DEVICES": "-1"}
_START_PATIENCE_S = 15.0
_PORT_ATTEMPTS = 3
_LISTED = re.compile(r"^\s+(?P<name>\w+): (?P<description>.*) \((?P<total>\d+) MiB, (?P<free>\d+) MiB free\)$", re.M)


@dataclass(frozen=True)
class DevicePlan:
    """Which devices a sweep uses; nothing is started yet.

    Attributes:
        devices: All devices that layers may live on, the host last.
        identity: The same devices as they enter a trial's hash: UUIDs of GPUs, `stand-in` for each stand-in.
        env: Environment for llama-server that makes it see just these GPUs, in this order.
        notice: What the user should know about the choice; empty when it is what they asked for.
    """

    devices: tuple[Device, ...]
    identity: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)
    notice: str = ""

    @property
    def stand_ins(self) -> tuple[Device, ...]:
        """The devices that a `ggml-rpc-server` plays."""
        return tuple(device for device in self.devices if device.kind is DeviceKind.STAND_IN)


def plan_devices(text: str, build: Build, gpus: Sequence[Device]) -> DevicePlan:
    """Decide which devices `auto`, `rpc:N` or `cpu` means here.

    Args:
        text: What the user asked for.
        build: The build that has to drive them.
        gpus: The NVIDIA GPUs of this machine as the driver lists them; empty where there are none.

    Raises:
        ConfigError: The text is none of these, or asks for too few or too many.
        MachineError: GPUs are here and wanted, but the build or CUDA cannot use them.
    """
    if text == "cpu":
        return DevicePlan((HOST,), ("cpu",), _NO_GPUS)
    if text == "auto":
        if gpus:
            return _plan_gpus(build, gpus)
        plan = plan_devices(f"rpc:{DEFAULT_STAND_INS}", build, gpus)
        return replace(
            plan, notice=f"no NVIDIA GPU here: {DEFAULT_STAND_INS} stand-in devices on the processor instead"
        )
    match = re.fullmatch(r"rpc:(\d+)", text)
    if match is None:
        raise ConfigError(f"devices: {text!r} is none of auto, rpc:N, cpu")
    count = int(match[1])
    if not MIN_STAND_INS <= count <= MAX_STAND_INS:
        raise ConfigError(f"devices: {text!r}: N goes from {MIN_STAND_INS} to {MAX_STAND_INS}")
    description = "stand-in: one thread of this machine's processor"
    stand_ins = [Device(f"RPC{index}", DeviceKind.STAND_IN, description) for index in range(count)]
    return DevicePlan((*stand_ins, HOST), ("stand-in",) * count, _NO_GPUS)


def _plan_gpus(build: Build, gpus: Sequence[Device]) -> DevicePlan:
    if any(gpu.uuid is None for gpu in gpus):
        raise MachineError("NVML lists a GPU without its UUID", "`k3prof doctor` shows what it sees; update the driver")
    uuids = [gpu.uuid for gpu in gpus if gpu.uuid is not None]
    env = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(uuids)}
    listed = [(name, int(total)) for name, total in list_devices(build, env) if name.startswith("CUDA")]
    if not listed:
        raise MachineError(
            f"{len(gpus)} NVIDIA GPUs are here, but build {build.name!r} cannot use CUDA",
            "make one that can with `k3prof build --cuda`, or run on stand-ins with --devices rpc:3",
        )
    if len(listed) % len(gpus):
        raise MachineError(
            f"the driver lists {len(gpus)} GPUs, build {build.name!r} lists {len(listed)}",
            "`k3prof doctor` compares them; a GPU may be lost or hidden from this container",
        )
    if len(listed) > len(gpus):
        return _plan_virtual(listed, gpus, env)
    devices = tuple(
        replace(gpu, name=name, memory_bytes=total_mib * 2**20)
        for gpu, (name, total_mib) in zip(gpus, listed, strict=True)
    )
    return DevicePlan((*devices, HOST), tuple(uuids), env)


def _plan_virtual(listed: Sequence[tuple[str, int]], gpus: Sequence[Device], env: Mapping[str, str]) -> DevicePlan:
    """Plan for `GGML_CUDA_DEVICES`, which makes llama.cpp see each GPU several times over.

    The driver's counters cannot tell such devices apart, so they carry no UUID and are not sampled.
    """
    share = len(listed) // len(gpus)
    devices = tuple(
        Device(name, DeviceKind.CUDA, f"one of {share} virtual devices on a {gpus[0].description}", total_mib * 2**20)
        for name, total_mib in listed
    )
    identity = tuple(f"{gpus[index % len(gpus)].uuid}/{share}" for index in range(len(listed)))
    notice = f"{len(listed)} virtual devices on {len(gpus)} GPUs: what each is busy with is unknown"
    return DevicePlan((*devices, HOST), identity, env, notice)


def list_devices(build: Build, env: Mapping[str, str]) -> list[tuple[str, int]]:
    """Return the devices that a build sees, in its order: names and total memory in MiB.

    Raises:
        MachineError: The build does not run here.
    """
    server = Path(build.bin_dir) / "llama-server"
    try:
        done = subprocess.run(
            [str(server), "--list-devices"],
            env={**os.environ, **env},
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise MachineError(f"{server} --list-devices failed: {error}", "`k3prof doctor` checks the build") from error
    return [(match["name"], int(match["total"])) for match in _LISTED.finditer(done.stdout)]


@dataclass(frozen=True)
class RunningDevices:
    """Devices that are ready for a server.

    Attributes:
        plan: Which they are.
        endpoints: `host:port` of each stand-in, in the order of the devices.
        pids: Process of each stand-in, by device name.
        logs: Log file of each stand-in, by device name.
    """

    plan: DevicePlan
    endpoints: tuple[str, ...] = ()
    pids: Mapping[str, int] = field(default_factory=dict)
    logs: Mapping[str, Path] = field(default_factory=dict)


@contextlib.contextmanager
def running_devices(plan: DevicePlan, build: Build, folder: Path) -> Iterator[RunningDevices]:
    """Start the stand-ins of a plan, each with one thread on one processor, and stop them at the end.

    Args:
        plan: The devices.
        build: Whose `ggml-rpc-server` to run.
        folder: Where their logs go.

    Raises:
        MachineError: A stand-in does not start.
    """
    cpus = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack:
        endpoints, pids, logs = [], {}, {}
        for index, device in enumerate(plan.stand_ins):
            log = folder / f"{device.name}.log"
            process, port = _start_stand_in(build, log, cpus[index % len(cpus)])
            stack.callback(terminate, process)
            endpoints.append(f"127.0.0.1:{port}")
            pids[device.name] = process.pid
            logs[device.name] = log
        yield RunningDevices(plan, tuple(endpoints), pids, logs)


def stand_in_argv(build: Build, port: int | str) -> list[str]:
    """Return the command of a stand-in: one thread of the processor, even where there are GPUs."""
    program = str(Path(build.bin_dir) / "ggml-rpc-server")
    return [program, "--device", "CPU", "--threads", "1", "--host", "127.0.0.1", "--port", str(port)]


def stand_in_buffer_types(names: Iterable[str], endpoints: Iterable[str]) -> dict[str, str]:
    """Return llama-server's names for the memory of stand-ins, each of which serves one device of its own.

    Args:
        names: The devices: `RPC0`, `RPC1`.
        endpoints: Their `host:port`, in the same order.

    Returns:
        `RPC1` to `RPC0[127.0.0.1:50053]`: the number counts the devices of one server.
    """
    return {name: f"RPC0[{endpoint}]" for name, endpoint in zip(names, endpoints, strict=False)}


def free_port() -> int:
    """Return a loopback port that nothing listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start_stand_in(build: Build, log: Path, cpu: int) -> tuple[subprocess.Popen[bytes], int]:
    for _ in range(_PORT_ATTEMPTS):
        port = free_port()
        argv = stand_in_argv(build, port)
        with log.open("wb") as output:
            process = spawn(argv, env={**os.environ, **_NO_GPUS}, stdout=output, stderr=subprocess.STDOUT, cpus=[cpu])
        deadline = time.monotonic() + _START_PATIENCE_S
        while process.poll() is None and time.monotonic() < deadline:
            # Looking for the listening socket, since a probing connection would occupy its only client's place.
            if listens(process.pid, port):
                return process, port
            time.sleep(0.005)
        terminate(process)
    lines = log.read_text(errors="replace").strip().splitlines()
    raise MachineError(
        f"ggml-rpc-server of build {build.name!r} did not start: {lines[-1] if lines else 'it printed nothing'}",
        "`k3prof doctor` checks the build",
    )


def listens(pid: int, port: int) -> bool:
    """Return whether this process itself listens on a port."""
    try:
        connections = psutil.Process(pid).net_connections("tcp")
    except psutil.Error:
        return False
    return any(one.status == psutil.CONN_LISTEN and one.laddr.port == port for one in connections)
