"""What a llama-server's own log proves: where the model went, how big each part is, how it is set up.

None stands for what the log does not say. Nothing here is guessed from silence: a log may be cut, filtered or short.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from k3prof.core.trial import Caveat, RequestStatus

HOST_DEVICE = "CPU"


@dataclass(frozen=True)
class UsedDevice:
    """A device that the model was given.

    Attributes:
        name: `CUDA0`, `RPC1`.
        description: What the build calls it: a product name, or the address of a ggml-rpc-server.
        total_mib: Its memory; None where the log does not list it.
        free_mib: Free before the load.
    """

    name: str
    description: str
    total_mib: int | None = None
    free_mib: int | None = None


@dataclass(frozen=True)
class Buffer:
    """Memory of one kind under one name; what the log lists in several lines of one name is added up.

    Attributes:
        name: As the log has it: `CUDA0`, `CPU_Mapped`, `RPC0[127.0.0.1:50052]`.
        device: The device whose memory it is, `CPU` for any host memory; None where the name does not tell:
            one buffer over several devices, or an RPC address of no device in the log.
        mib: Its size.
    """

    name: str
    device: str | None
    mib: float


class BufferKind(StrEnum):
    """What a buffer holds."""

    MODEL = "model"
    KV = "KV cache"
    STATE = "recurrent state"
    COMPUTE = "compute"
    OUTPUT = "output"


@dataclass(frozen=True)
class ModelFacts:
    """The model as the loader describes it.

    Attributes:
        path: Its file, as given.
        architecture: `kimi-k3`.
        file_type: Its quantisation, as the loader names it.
        layers: Layers without the output layer, additional prediction layers included.
        context_trained: Longest context it was trained for, in tokens.
        experts: Routed experts per layer.
        experts_used: Of them, computed per token: after overrides.
        overrides: Metadata keys that were overridden, with the new value; empty where no line says so.
    """

    path: str | None = None
    architecture: str | None = None
    file_type: str | None = None
    layers: int | None = None
    context_trained: int | None = None
    experts: int | None = None
    experts_used: int | None = None
    overrides: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ContextFacts:
    """The context as it was made.

    Attributes:
        tokens: `n_ctx`: tokens in all sequences together.
        tokens_per_sequence: `n_ctx_seq`.
        sequences: `n_seq_max`.
        unified: Whether all sequences share one KV cache.
        batch: `n_batch`, logical.
        ubatch: `n_ubatch`, physical.
        flash_attention: Whether it is used.
        cache_type_k: Type of the keys' cache.
        cache_type_v: Type of the values' cache.
        kv_layers: Layers that have a KV cache.
        kv_cells: Tokens that it holds, for all sequences together where they share it, else for each.
        rollback_states: `n_rs_seq`: recurrent states kept per sequence so that drafts can be undone.
        pipeline_copies: Copies of the graph's inputs: 1 without pipeline parallelism, 4 with it.
        pipeline_parallel: Whether prompt batches of one request may overlap on several devices.
        slots: The server's slots.
        tokens_per_slot: Context of one slot.
    """

    tokens: int | None = None
    tokens_per_sequence: int | None = None
    sequences: int | None = None
    unified: bool | None = None
    batch: int | None = None
    ubatch: int | None = None
    flash_attention: bool | None = None
    cache_type_k: str | None = None
    cache_type_v: str | None = None
    kv_layers: int | None = None
    kv_cells: int | None = None
    rollback_states: int | None = None
    pipeline_copies: int | None = None
    pipeline_parallel: bool | None = None
    slots: int | None = None
    tokens_per_slot: int | None = None


@dataclass(frozen=True)
class GraphFacts:
    """The compute graph of a full prompt batch (pp) and of one decode step (tg), where the log tells them apart.

    Attributes:
        nodes_pp: Operations.
        nodes_tg: Operations.
        splits_pp: Stretches of operations on one device each.
        splits_tg: Stretches of operations on one device each.
    """

    nodes_pp: int | None = None
    nodes_tg: int | None = None
    splits_pp: int | None = None
    splits_tg: int | None = None


class FitStatus(StrEnum):
    """What became of llama-server's own search for a placement (`--fit`)."""

    NOT_RUN = "did not run"
    UNCHANGED = "ran, changed nothing"
    CHANGED = "ran, changed the placement"
    ABORTED = "gave up"
    FAILED = "failed with an error"


@dataclass(frozen=True)
class FitFacts:
    """What `--fit` did.

    Attributes:
        status: How it ended; None where its end is not in the log.
        reason: Why it gave up or failed; empty otherwise.
        context_from: Context before it reduced it; None when it did not.
        context_to: Context after.
    """

    status: FitStatus | None
    reason: str = ""
    context_from: int | None = None
    context_to: int | None = None


@dataclass(frozen=True)
class MemoryRow:
    """A row of the memory table that the server prints at its end, in MiB.

    `unaccounted` is what else uses the device; it is negative where several devices share one memory.
    """

    name: str
    total: int | None
    free: int | None
    own: int
    model: int
    context: int
    compute: int
    unaccounted: int | None


@dataclass(frozen=True)
class LoggedRequest:
    """One request, as the server's timings report it.

    Attributes:
        slot: The slot that served it.
        task: Its number.
        prompt_n: Prompt tokens processed; those from a cache are not among them.
        prompt_ms: Time for them, the first generated token's sampling included.
        predicted_n: Tokens generated.
        predicted_ms: Time for them.
        predicted_steps: By how many steps the log divides `predicted_ms`: all tokens in older builds, all but the
            first in newer ones.
        total_ms: Wall time of the two together.
        draft_n: Tokens drafted; None without speculation.
        draft_n_accepted: Drafted tokens that were right.
        cold: Whether the log says that the whole prompt was processed again for lack of cached state.
        status: `implausible` where the figures cannot be true.
        reason: Why; empty otherwise.
    """

    slot: int | None = None
    task: int | None = None
    prompt_n: int | None = None
    prompt_ms: float | None = None
    predicted_n: int | None = None
    predicted_ms: float | None = None
    predicted_steps: int | None = None
    total_ms: float | None = None
    draft_n: int | None = None
    draft_n_accepted: int | None = None
    cold: bool = False
    status: RequestStatus = RequestStatus.OK
    reason: str = ""

    @property
    def prompt_per_s(self) -> float | None:
        """Prompt tokens per second; None where it was not measured or cannot be true."""
        return self._rate(self.prompt_n, self.prompt_ms)

    @property
    def predicted_per_s(self) -> float | None:
        """Generated tokens per second, first token apart where the build times it apart; None as above."""
        return self._rate(self.predicted_steps, self.predicted_ms)

    def _rate(self, count: int | None, ms: float | None) -> float | None:
        if self.status is not RequestStatus.OK or not count or not ms:
            return None
        return count / ms * 1e3


@dataclass(frozen=True)
class LoadedServer:
    """A llama-server as its log shows it.

    Attributes:
        build: `build 1 (0c1e570)`, as it names itself.
        verbosity: Its log level: below 4 it keeps silent about placement.
        model: The model.
        devices: Devices that the model was given, in order; none of them for a model on the host alone.
        load_mode: `none`, `mmap`, …
        layers_offloaded: Layers on devices, the output layer counted as one. Not evidence by itself: a build with
            devices compiled in prints it even where none is present.
        layers_total: Layers in all, the output layer counted as one.
        layer_devices: Device of each layer, the output layer last; only logs at verbosity 5 have it.
        overridden_tensors: Tensors that were sent to another buffer by name, with that buffer; verbosity 5.
        buffers: Buffers by kind; a kind that the log does not show whole is missing.
        context: The context.
        graph: The compute graph.
        fit: The server's own search for a placement; None where the log does not show whether it ran.
        memory: The last memory table.
        requests: Requests, in order of completion.
        caveats: Fallbacks that the server reported and went on, and doubts about this reading.
        threads: Of the host that compute, in decode and in prompts.
        sampler_chain: What tokens are chosen by, of the first request.
    """

    build: str | None = None
    verbosity: int | None = None
    model: ModelFacts = ModelFacts()
    devices: tuple[UsedDevice, ...] | None = None
    load_mode: str | None = None
    layers_offloaded: int | None = None
    layers_total: int | None = None
    layer_devices: tuple[str, ...] | None = None
    overridden_tensors: tuple[tuple[str, str], ...] | None = None
    buffers: Mapping[BufferKind, tuple[Buffer, ...]] = field(default_factory=dict)
    context: ContextFacts = ContextFacts()
    graph: GraphFacts = GraphFacts()
    fit: FitFacts | None = None
    memory: tuple[MemoryRow, ...] | None = None
    requests: tuple[LoggedRequest, ...] = ()
    caveats: tuple[Caveat, ...] = ()
    threads: tuple[int, int] | None = None
    sampler_chain: str | None = None

    def mib_by_device(self, kind: BufferKind) -> Mapping[str, float] | None:
        """Return a kind's memory by device, or None where the log does not show it whole or names no device."""
        buffers = self.buffers.get(kind)
        return None if buffers is None else _by_device(buffers)


def _by_device(buffers: Sequence[Buffer]) -> Mapping[str, float] | None:
    by_device: dict[str, float] = {}
    for buffer in buffers:
        if buffer.device is None:
            return None
        by_device[buffer.device] = round(by_device.get(buffer.device, 0.0) + buffer.mib, 4)
    return by_device
