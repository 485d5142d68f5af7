"""Whether a model fits: what each device needs against what it has, device by device, never as a total."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from k3prof.core.device import HOST
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.buffers import MAPPED
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.layout.placement import Layout
from k3prof.core.layout.rig import Rig
from k3prof.core.weights.model import Model
from k3prof.core.weights.roles import Role

MARGIN_BYTES = 1536 * 2**20
"""For compute buffers where nobody can be asked: the largest that llama-fit-params lists for a full-size Kimi-K3 over
five devices with batches of 512 tokens is 1,378 MiB without the attention mask."""

_PIPELINE_COPIES = 4
"""`GGML_SCHED_MAX_COPIES`: inputs of the graph that exist at once when batches are pipelined."""
_CONTEXT_STEP = 256
_BATCH, _UBATCH = 2048, 512


class ComputeOrigin(StrEnum):
    """Where the sizes of compute buffers come from."""

    ASKED = "asked of llama-fit-params on these devices"
    PLAYED = "asked of llama-fit-params, with stand-ins in the devices' place"
    MARGIN = "a margin, not a prediction"


@dataclass(frozen=True)
class ComputeBuffers:
    """What the graph's intermediate results take.

    Attributes:
        origin: Who says so.
        by_device: Bytes by device, the host among them.
    """

    origin: ComputeOrigin
    by_device: Mapping[str, int]


@dataclass(frozen=True)
class DeviceMemory:
    """One device's need, predicted.

    Attributes:
        device: The device; `CPU` for the host.
        expert_bytes: Routed experts.
        other_weight_bytes: All other weights, and what alignment adds.
        kv_bytes: KV cache; None when the architecture's caches are not known.
        state_bytes: Recurrent state; None likewise.
        compute_bytes: Compute buffers.
        usable_bytes: What there is; None when not known.
    """

    device: str
    expert_bytes: int
    other_weight_bytes: int
    kv_bytes: int | None
    state_bytes: int | None
    compute_bytes: int
    usable_bytes: int | None

    @property
    def weight_bytes(self) -> int:
        """All weights."""
        return self.expert_bytes + self.other_weight_bytes

    @property
    def needed_bytes(self) -> int | None:
        """All that it needs; None when its caches are not known."""
        if self.kv_bytes is None or self.state_bytes is None:
            return None
        return self.weight_bytes + self.kv_bytes + self.state_bytes + self.compute_bytes

    @property
    def headroom_bytes(self) -> int | None:
        """What is left, negative where it lacks; None when not known."""
        if self.needed_bytes is None or self.usable_bytes is None:
            return None
        return self.usable_bytes - self.needed_bytes

    @property
    def fits(self) -> bool | None:
        """Whether it fits; None when not known."""
        if self.usable_bytes is not None and self.weight_bytes > self.usable_bytes:
            return False
        return None if self.headroom_bytes is None else self.headroom_bytes >= 0


def compute_margin(model: Model, layout: Layout, reader: FlagReader) -> ComputeBuffers:
    """Return a margin for compute buffers: `MARGIN_BYTES`, and the attention mask, which grows with the context."""
    mask = mask_bytes_per_cell(model, layout, reader) * layout.context.cells
    return ComputeBuffers(ComputeOrigin.MARGIN, dict.fromkeys(layout.devices, MARGIN_BYTES + mask))


def mask_bytes_per_cell(model: Model, layout: Layout, reader: FlagReader) -> int:
    """Return what each token of context adds to a device's compute buffers while a prompt is processed.

    With flash attention one f16 per token of the batch. Without it one f32, and one more per head for the scores. When
    batches are pipelined, the mask exists four times. (`build_attn_inp_kq_mask` in src/llama-graph.cpp; the slopes are
    those that llama-fit-params lists.)
    """
    batch = min(reader.whole("batch-size", _BATCH, least=1), layout.context.tokens)
    tokens = min(reader.whole("ubatch-size", _UBATCH, least=1), batch)
    copies = _PIPELINE_COPIES if layout.pipelined else 1
    if reader.text("flash-attn", "auto") not in ("off", "false", "0"):
        return 2 * tokens * copies
    heads = model.metadata.get(f"{model.architecture}.attention.head_count", 1)
    most = max(heads) if isinstance(heads, tuple) else heads
    return 4 * tokens * (copies + (int(most) if isinstance(most, int | float) else 1))


def memory_by_device(layout: Layout, rig: Rig, compute: ComputeBuffers) -> tuple[DeviceMemory, ...]:
    """Return what each device needs and has, the host last.

    Of a mapped file only the tensors themselves count: pages between them that nobody reads take no memory.
    """
    memory = []
    for name in layout.devices:
        held = {placed.tensor.name: placed for placed in layout.tensors if placed.device == name}.values()
        experts = sum(placed.tensor.n_bytes for placed in held if placed.tensor.role is Role.ROUTED_EXPERTS)
        mapped = sum(placed.tensor.n_bytes for placed in held if placed.buffer == MAPPED)
        allocated = sum(
            buffer.n_bytes
            for buffer in layout.buffers
            if buffer.kind is BufferKind.MODEL and buffer.device == name and buffer.name != MAPPED
        )
        device = rig.find(name)
        memory.append(
            DeviceMemory(
                device=name,
                expert_bytes=experts,
                other_weight_bytes=allocated + mapped - experts,
                kv_bytes=layout.size_bytes(BufferKind.KV, name),
                state_bytes=layout.size_bytes(BufferKind.STATE, name),
                compute_bytes=compute.by_device.get(name, 0),
                usable_bytes=rig.host.memory_bytes if device is None else device.usable_bytes,
            )
        )
    return tuple(memory)


def longest_context(
    model: Model, layout: Layout, memory: tuple[DeviceMemory, ...], reader: FlagReader
) -> dict[str, int]:
    """Return up to what `--ctx-size` each device would fit, everything else unchanged; 0 where nothing would help.

    Devices of which too little is known, and the host, are left out.
    """
    mask = mask_bytes_per_cell(model, layout, reader)
    context = layout.context
    longest = {}
    for need in memory:
        if need.device == HOST.name or need.headroom_bytes is None or need.kv_bytes is None:
            continue
        cells = context.cells + need.headroom_bytes // (need.kv_bytes // context.cells + mask)
        longest[need.device] = max(cells * context.streams // _CONTEXT_STEP * _CONTEXT_STEP, 0)
    return longest
