"""Warnings about placements that do something else than people expect of them; each names its remedy."""

from __future__ import annotations

from collections.abc import Iterator

from k3prof.core.device import HOST
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.layout.buffers import MAPPED
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.layout.graph_splits import ATTENTION_RESIDUALS, predicted_splits
from k3prof.core.layout.layers import layers_at_a_boundary
from k3prof.core.layout.overrides import CPU_MOE, N_CPU_FFN, N_CPU_MOE, OVERRIDE_TENSOR
from k3prof.core.layout.placed import Placed
from k3prof.core.layout.placement import gpu_layers, shares, used_devices
from k3prof.core.trial import Caveat
from k3prof.core.weights.model import Model

NO_TENSOR_SPLIT = frozenset({"kimi-k3", "kimi-linear"})
"""Architectures for which `llm_arch_supports_sm_tensor` is known to be false (src/llama-arch.cpp)."""

_RULES = (OVERRIDE_TENSOR, CPU_MOE, N_CPU_MOE, N_CPU_FFN)
_LOPSIDED_FRAC = 0.5
_NOT_COUNTED = ("model-draft", "spec-draft-model", "mmproj", "lora", "lora-scaled", "control-vector")
_MIB, _GIB = 2**20, 2**30


def split_mode_trap(model: Model, reader: FlagReader) -> Caveat | None:
    """Return why nothing can be said about a split that is not by layers; None for one that is."""
    mode = reader.text("split-mode", "layer")
    remedy = 'set split-mode = "layer", or leave it out'
    if mode == "row":
        return Caveat("split-mode", "llama-server refuses split-mode row on CUDA and on stand-ins", remedy)
    if mode != "tensor":
        return None
    if model.architecture in NO_TENSOR_SPLIT:
        return Caveat("split-mode", f"llama-server refuses split-mode tensor for {model.architecture}", remedy)
    return Caveat("split-mode", "split-mode tensor cuts every tensor over all devices, which is not predicted", remedy)


def find_traps(placed: Placed) -> tuple[Caveat, ...]:
    """Return what to know about a placement before running it."""
    rules = (
        _fit,
        _empty_first_device,
        _moves_nothing,
        _shadowed,
        _no_pipeline,
        _missing_kernels,
        _mapped_experts,
        _mapped_range,
        _boundary,
        _ping_pong,
        _cache_reuse,
        _not_counted,
    )
    return tuple(caveat for rule in rules for caveat in rule(placed))


def _fit(placed: Placed) -> Iterator[Caveat]:
    reader = placed.reader
    if reader.text("fit", "on") not in ("on", "true", "1"):
        return
    reasons = [f"{name} is set" for name in _RULES if reader.flags.get(name, 0) not in (0, "0", False)]
    reasons += ["n-gpu-layers is set"] if gpu_layers(reader) is not None else []
    reasons += ["tensor-split is set"] if any(reader.shares("tensor-split")) else []
    if reasons:
        yield Caveat(
            "fit-gives-up",
            f"--fit gives up because {' and '.join(reasons)}; llama-server says so in a warning, and loads all the same"
            + ("" if reader.whole("ctx-size", 0) else ", perhaps with a shorter context"),
            'set fit = "off", or leave the placement to --fit',
        )
    else:
        yield Caveat(
            "fit-decides",
            "if memory is short, --fit may shorten the context or move layers and experts; here is what the flags say",
            'set fit = "off" to get the placement that is written down',
        )


def _empty_first_device(placed: Placed) -> Iterator[Caveat]:
    layout = placed.layout
    devices = [name for name in layout.devices if name != HOST.name and name in layout.layer_devices]
    if not placed.reader.whole(N_CPU_MOE, 0) or len(devices) < 2 or any(placed.reader.shares("tensor-split")):
        return
    weights = {name: layout.size_bytes(BufferKind.MODEL, name) or 0 for name in devices}
    least, most = min(devices, key=weights.__getitem__), max(devices, key=weights.__getitem__)
    if weights[least] < _LOPSIDED_FRAC * weights[most]:
        yield Caveat(
            "n-cpu-moe-lopsided",
            f"n-cpu-moe takes the experts of the first layers, which are all on the first devices: {least} holds "
            f"{_size(weights[least])} of weights, {most} {_size(weights[most])}",
            "balance with tensor-split, or pick layers of every device with override-tensor",
        )


def _moves_nothing(placed: Placed) -> Iterator[Caveat]:
    for pattern in placed.layout.patterns:
        if not pattern.matched and pattern.flag in (N_CPU_MOE, N_CPU_FFN):
            what = "routed experts" if pattern.flag == N_CPU_MOE else "dense feed-forward weights"
            yield Caveat(
                f"{pattern.flag}-moves-nothing",
                f"{pattern.text} moves nothing: the first layers have no {what}",
                "count from the first layer on, those without included",
            )


def _shadowed(placed: Placed) -> Iterator[Caveat]:
    for pattern in placed.layout.patterns:
        lost = len(pattern.matched) - len(pattern.won)
        if lost:
            yield Caveat(
                "pattern-shadowed",
                f"{pattern.text} matches {len(pattern.matched)} tensors, of which rules before it take {lost}: "
                "the first match decides",
                "put the narrower pattern first",
            )


def _no_pipeline(placed: Placed) -> Iterator[Caveat]:
    reader, layout = placed.reader, placed.layout
    if layout.pipelined or len(layout.devices) < 3:
        return
    reasons = [name for name in _RULES if reader.flags.get(name, 0) not in (0, "0", False)]
    reasons += [] if layout.context.offloaded else ["kv-offload = false"]
    reasons += ["n-gpu-layers"] if HOST.name in layout.layer_devices else []
    yield Caveat(
        "no-pipelining",
        f"prompts are not pipelined over the devices: {' and '.join(reasons)} switches that off",
        "expect prefill to use one device at a time; decode is not affected",
    )


def _missing_kernels(placed: Placed) -> Iterator[Caveat]:
    stranded = [
        one.tensor
        for one in placed.layout.tensors
        if one.device == HOST.name != one.home
        and not any(one.tensor.name in pattern.won for pattern in placed.layout.patterns)
    ]
    if stranded:
        types = ", ".join(sorted({tensor.type_name for tensor in stranded}))
        yield Caveat(
            "no-kernel",
            f"CUDA multiplies no {types}: {len(stranded)} tensors, {_size(sum(one.n_bytes for one in stranded))}, "
            "stay on the host although their layers are on GPUs",
            "quantize them to another format",
        )


def _mapped_experts(placed: Placed) -> Iterator[Caveat]:
    layout = placed.layout
    if any(one.buffer == MAPPED and one.home != HOST.name for one in layout.tensors):
        yield Caveat(
            "overrides-mapped",
            "tensors sent to the host stay in the mapped file, from which GPUs copy slowly and which may be paged out",
            'set load-mode = "none"',
        )


def _mapped_range(placed: Placed) -> Iterator[Caveat]:
    layout = placed.layout
    held = {one.tensor.name: one.tensor.n_bytes for one in layout.tensors if one.buffer == MAPPED}
    listed = sum(buffer.n_bytes for buffer in layout.buffers if buffer.name == MAPPED)
    if listed > 1.1 * sum(held.values()):
        yield Caveat(
            "mapped-range",
            f"the log will list {_size(listed)} as {MAPPED}: a range of the file from the first to the last of the "
            f"host's tensors, which are {_size(sum(held.values()))}",
        )


def _boundary(placed: Placed) -> Iterator[Caveat]:
    reader = placed.reader
    devices = used_devices(reader, placed.rig)
    if any(reader.shares("tensor-split")) or len(devices) < 2 or not all(device.memory_bytes for device in devices):
        return
    n_layers = len(placed.model.geometry.layers)
    found = layers_at_a_boundary(n_layers, shares(reader, devices), gpu_layers(reader))
    if found:
        yield Caveat(
            "split-on-the-edge",
            f"without tensor-split, layers go by the free memory of the moment: layer {found[0]} may go to either "
            "of two devices",
            f"set tensor-split = [{', '.join('1' * len(devices))}]",
        )


def _ping_pong(placed: Placed) -> Iterator[Caveat]:
    passed = dict.fromkeys(placed.layout.layer_devices)
    if placed.model.architecture not in ATTENTION_RESIDUALS or len(passed) < 2:
        return
    splits = predicted_splits(placed.model, placed.layout)
    count = "" if splits is None else f", {splits} splits per token in all"
    yield Caveat(
        "residual-ping-pong",
        f"attention residuals cross each boundary between devices there, back and there again{count}",
        "fewer devices, or a boundary less, save more than on other models",
    )


def _cache_reuse(placed: Placed) -> Iterator[Caveat]:
    if placed.reader.whole("cache-reuse", 0) and any(
        layer.cache and layer.cache.s_elements for layer in placed.model.geometry.layers
    ):
        yield Caveat(
            "cache-reuse",
            f"cache-reuse does not go with the recurrent layers of {placed.model.architecture}: reusing part of a "
            "prefix has given answers to other questions",
            "set cache-reuse = 0",
        )


def _not_counted(placed: Placed) -> Iterator[Caveat]:
    given = [name for name in _NOT_COUNTED if name in placed.reader.flags]
    if given:
        yield Caveat("not-counted", f"memory for {', '.join(given)} is not counted", "leave room for it")


def _size(n_bytes: int) -> str:
    return f"{n_bytes / _GIB:.1f} GiB" if n_bytes >= _GIB else f"{n_bytes / _MIB:.1f} MiB"
