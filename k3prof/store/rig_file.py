"""A rig described in TOML: machines that are not here, or better known than by their datasheets.

name = "five A40s"

[[devices]]
gpu = "A40"                 # memory and bandwidth by the datasheet, unless given below
count = 5
free_mib = 45490            # what llama-server finds free
bandwidth_gb_per_s = 560
bandwidth_is = "measured"   # or "datasheet"

[host]
memory_gib = 503
bandwidth_gb_per_s = 115

[link]
bandwidth_gb_per_s = 24
latency_us = 10
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, Strict, TypeAdapter, with_config

from k3prof.core.device import DeviceKind
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.rig import (
    GPUS,
    MOST_DEVICES,
    Gpu,
    Link,
    Rig,
    RigDevice,
    RigHost,
    bandwidth_of,
    find_gpu,
    link_of,
)
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.toml_file import check, collecting, read_toml, shown_path

_MIB, _GIB = 2**20, 2**30

Text = Annotated[str, Strict(), Field(min_length=1)]
Whole = Annotated[int, Strict(), Field(ge=1)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Origin = Literal["measured", "datasheet", "given"]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class DeviceTable:
    """One or several equal devices."""

    gpu: Text = ""
    count: Whole = 1
    memory_mib: Whole | None = None
    free_mib: Whole | None = None
    bandwidth_gb_per_s: Positive | None = None
    bandwidth_is: Origin = "given"


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class HostTable:
    """The side of the processor."""

    memory_gib: Positive | None = None
    bandwidth_gb_per_s: Positive | None = None
    bandwidth_is: Origin = "given"


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class LinkTable:
    """What joins the devices."""

    bandwidth_gb_per_s: Positive | None = None
    bandwidth_is: Origin = "given"
    latency_us: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class RigTable:
    """A rig's file."""

    devices: Annotated[list[DeviceTable], Field(min_length=1)] | None = None
    name: Text | None = None
    host: HostTable = field(default_factory=HostTable)
    link: LinkTable | None = None


_RIG = TypeAdapter(RigTable)
_KEYS = tuple(
    dict.fromkeys(key.name for table in (RigTable, DeviceTable, HostTable, LinkTable) for key in fields(table))
)


def read_rig(path: Path) -> Rig:
    """Read a rig.

    Raises:
        ConfigError: The file cannot be read or is no TOML.
        ConfigErrors: Everything that is wrong with it, each with its key.
    """
    name = shown_path(path)
    table = check(_RIG, read_toml(path), lambda key: f"{name}: {key}", _KEYS)
    problems: list[ConfigError] = []
    kinds: list[Gpu] = []
    devices: list[RigDevice] = []
    link = None
    with collecting(problems):
        link = _link(table.link, f"{name}: link")
    if table.devices is None:
        problems.append(ConfigError(f"{name}: devices: missing", 'write [[devices]], and below it gpu = "A40"'))
    for index, one in enumerate(table.devices or ()):
        with collecting(problems):
            gpu = _gpu(one, f"{name}: devices[{index}]")
            device = _device(one, gpu, f"{name}: devices[{index}]")
            kinds += [gpu] if gpu else []
            devices += [device] * min(one.count, MOST_DEVICES + 1)
    if len(devices) > MOST_DEVICES:
        problems.append(ConfigError(f"{name}: devices: llama.cpp splits over at most {MOST_DEVICES} devices"))
    if problems:
        raise ConfigErrors(problems)
    numbered = tuple(
        RigDevice(f"CUDA{index}", DeviceKind.CUDA, one.model, one.memory_bytes, one.free_bytes, one.bandwidth)
        for index, one in enumerate(devices)
    )
    host = RigHost(
        memory_bytes=None if table.host.memory_gib is None else int(table.host.memory_gib * _GIB),
        bandwidth=_bandwidth("host memory", table.host.bandwidth_gb_per_s, table.host.bandwidth_is),
    )
    return Rig(table.name or name, numbered, host, link or (link_of(kinds) if kinds else None))


def _gpu(table: DeviceTable, where: str) -> Gpu | None:
    gpu = find_gpu(table.gpu)
    if gpu is None and table.gpu and (table.memory_mib is None or table.bandwidth_gb_per_s is None):
        known = ", ".join(one.name for one in GPUS)
        raise ConfigError(
            f"{where}.gpu: {table.gpu!r} is not in the table",
            f"give memory_mib and bandwidth_gb_per_s too; in the table are {known}",
        )
    return gpu


def _device(table: DeviceTable, gpu: Gpu | None, where: str) -> RigDevice:
    memory_mib = table.memory_mib or (gpu.memory_mib if gpu else None)
    if memory_mib is None:
        raise ConfigError(f"{where}.memory_mib: missing", 'give it in MiB, or a GPU: gpu = "A40"')
    given = _bandwidth(table.gpu or "device", table.bandwidth_gb_per_s, table.bandwidth_is)
    bandwidth = given or (bandwidth_of(gpu) if gpu else None)
    if bandwidth is None:
        raise ConfigError(
            f"{where}.bandwidth_gb_per_s: missing", 'without it there is no ceiling: give it, or a GPU: gpu = "A40"'
        )
    free_bytes = None if table.free_mib is None else table.free_mib * _MIB
    return RigDevice("", DeviceKind.CUDA, table.gpu, memory_mib * _MIB, free_bytes, bandwidth, "-")


def _bandwidth(name: str, gb_per_s: float | None, origin: Origin) -> Bandwidth | None:
    return None if gb_per_s is None else Bandwidth(name, gb_per_s, origin)


def _link(table: LinkTable | None, where: str) -> Link | None:
    if table is None:
        return None
    bandwidth = _bandwidth("link", table.bandwidth_gb_per_s, table.bandwidth_is)
    if bandwidth is None:
        raise ConfigError(f"{where}.bandwidth_gb_per_s: missing", "give it, or leave [link] out")
    return Link(bandwidth, table.latency_us)
