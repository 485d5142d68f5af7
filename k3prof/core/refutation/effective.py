"""What a leg's server really ran with, by its log, its host and its clocks: what must be equal, and what may follow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from k3prof.core.evidence.loaded import BufferKind, LoadedServer
from k3prof.core.refutation.leg import timed_intervals
from k3prof.core.slowdowns import awake
from k3prof.core.timeline import Counter, Series, reading
from k3prof.core.trial import TrialRecord

METADATA = "metadata "
"""What settings of overridden metadata begin with. Where such a one is missing, the model's own value holds."""

_HOST_FACTS = (
    "cpu_model",
    "kernel",
    "cores_allowed",
    "cpu_quota_cores",
    "governors",
    "memory_limit_bytes",
    "container",
    "gpu_driver",
)
HOST = frozenset(name.replace("_", " ") for name in _HOST_FACTS)
"""Settings that are facts of the machine."""
_WITHOUT = frozenset({"cpu_quota_cores", "memory_limit_bytes", "container"})
"""Facts that are None where the machine has no such thing, and not where it does not tell."""
_CLOCKS = {Counter.SM_MHZ: "SM clock", Counter.MEMORY_MHZ: "memory clock"}


@dataclass(frozen=True)
class Effective:
    """What a server ran with. What the log does not say is left out, here as everywhere.

    Attributes:
        settings: Name to value of what is chosen: context, slots, caches, batches, threads, sampler, experts, host. Two
            arms may differ only in what was declared to differ, and in what that means directly.
        consequences: Name to value of what follows: memory of each device by kind, splits of the graph, pipelining. A
            declared change leaves its trace here, or in the settings.
        clocks_mhz: Median clock of each device that was at work while something was measured, `CUDA0 SM clock` to MHz.
        architecture: The model's, which metadata keys begin with; empty where the log does not say.
    """

    settings: Mapping[str, str]
    consequences: Mapping[str, str]
    clocks_mhz: Mapping[str, float] = field(default_factory=dict)
    architecture: str = ""


def effective(trial: TrialRecord, log: LoadedServer, host: Mapping[str, object], series: Sequence[Series]) -> Effective:
    """Return what a trial's server ran with.

    Args:
        trial: The trial.
        log: What its log proves.
        host: Facts of the machine, by name.
        series: What was sampled.
    """
    return Effective(
        settings=_texts((*_context(log), *_model(log), *_host(host))),
        consequences=_texts(_layout(log, [device.name for device in trial.devices])),
        clocks_mhz=dict(_clocks(trial, series)),
        architecture=log.model.architecture or "",
    )


def _context(log: LoadedServer) -> Iterator[tuple[str, object]]:
    context = log.context
    yield "context", context.tokens
    yield "context of a sequence", context.tokens_per_sequence
    yield "sequences", context.sequences
    yield "slots", context.slots
    yield "context of a slot", context.tokens_per_slot
    yield "KV cells", context.kv_cells
    yield "unified KV cache", context.unified
    yield "batch", context.batch
    yield "ubatch", context.ubatch
    yield "flash attention", context.flash_attention
    yield "K cache", context.cache_type_k
    yield "V cache", context.cache_type_v
    yield "rollback states", context.rollback_states
    yield "build", log.build
    yield "threads", log.threads and log.threads[0]
    yield "threads for prompts", log.threads and log.threads[1]
    yield "load mode", log.load_mode
    yield "sampler chain", log.sampler_chain


def _model(log: LoadedServer) -> Iterator[tuple[str, object]]:
    yield "experts used", log.model.experts_used
    for key, value in log.model.overrides.items():
        yield f"{METADATA}{key}", value


def _host(host: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for name in _HOST_FACTS:
        value = host.get(name, "")
        if value is None and name in _WITHOUT:
            value = "none"
        yield name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list | tuple) else value


def _layout(log: LoadedServer, devices: Sequence[str]) -> Iterator[tuple[str, object]]:
    for kind in BufferKind:
        by_device = log.mib_by_device(kind)
        if by_device is not None:
            for device in dict.fromkeys((*devices, *by_device)):
                yield f"{kind} on {device}", f"{by_device.get(device, 0.0):.2f} MiB"
    if log.devices is not None:
        yield "devices", ", ".join(device.name for device in log.devices) or "none"
    yield "layers on devices", log.layers_offloaded
    yield "overridden tensors", None if log.overridden_tensors is None else len(log.overridden_tensors)
    yield "pipelining", log.context.pipeline_parallel
    yield from (
        ("nodes of a prompt", log.graph.nodes_pp),
        ("nodes of a token", log.graph.nodes_tg),
        ("splits of a prompt", log.graph.splits_pp),
        ("splits of a token", log.graph.splits_tg),
    )


def _clocks(trial: TrialRecord, series: Sequence[Series]) -> Iterator[tuple[str, float]]:
    intervals = timed_intervals(trial)
    at_work = awake(series, intervals)
    for one in series:
        if one.counter in _CLOCKS and one.device in at_work:
            mhz = reading(one, intervals, np.median)
            if mhz is not None:
                yield f"{one.device} {_CLOCKS[one.counter]}", mhz


def _texts(facts: Iterator[tuple[str, object]] | Sequence[tuple[str, object]]) -> dict[str, str]:
    return {name: _text(value) for name, value in facts if value is not None and value != ""}


def _text(value: object) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
