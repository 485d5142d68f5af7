"""The buffers that llama-server allocates for a model that has been laid out: for weights, KV cache and state."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from k3prof.core.device import HOST, DeviceKind
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.buffers import CPU, MAPPED, allocation, host_size_bytes, mapped_bytes
from k3prof.core.layout.context_shape import ContextShape
from k3prof.core.layout.rig import RigDevice
from k3prof.core.weights.ggml import cache_type
from k3prof.core.weights.model import STATE_ELEMENT_BYTES, Model, TensorEntry


@dataclass(frozen=True)
class PlacedTensor:
    """One tensor and where it is to lie.

    Attributes:
        tensor: The tensor. An embedding table that is the output head too appears twice, once with either role.
        device: The device whose memory it is in: `CUDA1`, `CPU`.
        buffer: The name of its buffer in llama.cpp's log: `CUDA1`, `CPU_Mapped`.
        home: The device of its layer, where it would lie if no rule sent it elsewhere.
    """

    tensor: TensorEntry
    device: str
    buffer: str
    home: str


@dataclass(frozen=True)
class PlannedBuffer:
    """One buffer as llama-server will list it.

    Attributes:
        kind: What it holds.
        name: Its name in the log; of a mapped model there may be one of a name per file.
        device: The device whose memory it is.
        n_bytes: Its size.
    """

    kind: BufferKind
    name: str
    device: str
    n_bytes: int


def weight_buffers(tensors: Iterable[PlacedTensor], devices: Iterable[RigDevice]) -> Iterator[PlannedBuffer]:
    """Yield one buffer per buffer type, and of mapped weights one per file. A tensor is in a buffer but once."""
    on = {device.name: device for device in devices}
    members: dict[tuple[str, str], dict[str, TensorEntry]] = defaultdict(dict)
    for placed in tensors:
        members[placed.device, placed.buffer].setdefault(placed.tensor.name, placed.tensor)
    for (device, name), held in members.items():
        if name == MAPPED:
            sizes = list(mapped_bytes(held.values()).values())
        elif device in on:
            sizes = [sum(allocation(on[device].kind).size_bytes(tensor) for tensor in held.values())]
        else:
            sizes = [sum(host_size_bytes(name, tensor) for tensor in held.values())]
        yield from (PlannedBuffer(BufferKind.MODEL, name, device, size) for size in sizes)


def cache_buffers(model: Model, context: ContextShape, layers: tuple[RigDevice | None, ...]) -> Iterator[PlannedBuffer]:
    """Yield a KV and a state buffer for each device that has layers with such a cache."""
    sizes: dict[tuple[BufferKind, str, str], int] = defaultdict(int)
    for layer, device in zip(model.geometry.layers, layers, strict=False):
        home = device if context.offloaded else None
        name, buffer = (home.name, home.buffer_type) if home else (HOST.name, CPU)
        rule = allocation(home.kind if home else DeviceKind.CPU)
        cache = layer.cache
        if cache is None:
            continue
        for elements, kind in ((cache.k_elements, context.cache_type_k), (cache.v_elements, context.cache_type_v)):
            row_bytes = cache_type(kind).size_bytes(elements) or 0
            if elements:
                n_bytes = row_bytes * context.cells * context.streams
                sizes[BufferKind.KV, name, buffer] += rule.padded(n_bytes, kind, elements)
        for elements in (cache.r_elements, cache.s_elements):
            if elements:
                n_bytes = elements * STATE_ELEMENT_BYTES * context.sequences * context.state_copies
                sizes[BufferKind.STATE, name, buffer] += rule.padded(n_bytes, "F32", elements)
    for (buffer_kind, home_name, buffer), n_bytes in sorted(sizes.items()):
        yield PlannedBuffer(buffer_kind, buffer, home_name, n_bytes)
