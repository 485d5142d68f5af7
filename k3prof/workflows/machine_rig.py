"""The rig that a prediction is for: one that somebody names or describes, or this machine."""

from __future__ import annotations

from pathlib import Path

from k3prof.collectors.host_facts import host_facts
from k3prof.core.device import Device, DeviceKind
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.rig import Rig, RigDevice, RigHost, bandwidth_of, find_gpu, link_of, parse_rig
from k3prof.core.machine.host_bandwidth import HostBandwidth
from k3prof.llama.devices import DevicePlan
from k3prof.llama.processor import instruction_sets
from k3prof.store.rig_file import read_rig
from k3prof.workflows.bandwidth import known_bandwidth


def named_rig(text: str) -> Rig:
    """Return the rig that `5xA40` or the path of a TOML file means.

    Raises:
        ConfigError: It is neither, or the file is wrong.
    """
    path = Path(text).expanduser()
    return read_rig(path) if path.suffix.lower() == ".toml" or path.is_file() else parse_rig(text)


def machine_rig(plan: DevicePlan) -> Rig:
    """Return this machine with the devices of a plan: GPUs by their datasheets, the host as it was measured.

    Stand-ins share the host's memory, so that how much each has is not known; each reads it with one thread.

    Raises:
        MachineError: A measurement that is kept cannot be read.
    """
    facts = host_facts()
    measured = known_bandwidth(facts)
    devices = tuple(_rig_device(device, measured) for device in plan.devices if device.kind is not DeviceKind.CPU)
    gpus = [gpu for device in devices if (gpu := find_gpu(device.model))]
    return Rig(
        name="this machine",
        devices=devices,
        host=RigHost(
            memory_bytes=facts.memory_limit_bytes or facts.memory_bytes,
            bandwidth=measured.bandwidth if measured else None,
            instruction_sets=instruction_sets(),
        ),
        link=link_of(gpus) if gpus else None,
    )


def _rig_device(device: Device, measured: HostBandwidth | None) -> RigDevice:
    gpu = find_gpu(device.description)
    bandwidth = bandwidth_of(gpu) if gpu else None
    if device.kind is DeviceKind.STAND_IN and measured is not None:
        bandwidth = _of_one_thread(measured)
    model = device.description if device.kind is DeviceKind.CUDA else ""
    return RigDevice(device.name, device.kind, model, device.memory_bytes, bandwidth=bandwidth)


def _of_one_thread(measured: HostBandwidth) -> Bandwidth | None:
    alone = next((reading for reading in measured.readings if reading.threads == 1), None)
    return Bandwidth("host memory, 1 thread", alone.gb_per_s, "measured") if alone else None
