"""Predicts where llama-server will put a model before anything is loaded: every tensor, every buffer, every byte.

The rule is llama.cpp's `load_tensors` (src/llama-model.cpp), `create_tensor` (src/llama-model-loader.cpp),
`llama_kv_cache` and `llama_memory_recurrent`, as of 0.5.0-dev (commit 0c1e570).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from k3prof.core.device import HOST, DeviceKind
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.flags import nearest
from k3prof.core.layout.buffers import HostBuffers, cuda_computes
from k3prof.core.layout.context_shape import ContextShape, context_shape
from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.layout.layers import layer_devices
from k3prof.core.layout.overrides import MatchedPattern, Override, check_matches, first_match, match_all, read_overrides
from k3prof.core.layout.planned_buffers import PlacedTensor, PlannedBuffer, cache_buffers, weight_buffers
from k3prof.core.layout.rig import Rig, RigDevice
from k3prof.core.trial import FlagValue
from k3prof.core.weights.model import Model, TensorEntry
from k3prof.core.weights.roles import Role

_OUTPUT_STEMS = ("output", "cls", "dec.output", "enc.output", "dense_", "hc_head", "altup_proj", "altup_unembd")
_COPIED_STEMS = ("rope_freqs.", "rope_factors_long.", "rope_factors_short.")
"""Outside the layers, but each device that has a layer gets a copy."""
_MMAP_MODES = ("auto", "mmap", "mmap+mlock")
_LOAD_MODES = (*_MMAP_MODES, "none", "mlock", "dio")


@dataclass(frozen=True)
class Layout:
    """A model laid on a rig.

    Attributes:
        devices: The devices that are used, in llama.cpp's order, and the host last.
        layer_devices: Device of each layer, the output layer last.
        tensors: Every tensor that is loaded.
        buffers: All buffers for weights, KV cache and recurrent state.
        patterns: What each rule of `--override-tensor` and its kin matches.
        context: What the caches hold.
        caches_known: Whether the architecture's caches are known; if not, no buffer of theirs is listed.
        pipelined: Whether prompt batches may overlap on several devices, each with its own copy of the inputs.
    """

    devices: tuple[str, ...]
    layer_devices: tuple[str, ...]
    tensors: tuple[PlacedTensor, ...]
    buffers: tuple[PlannedBuffer, ...]
    patterns: tuple[MatchedPattern, ...]
    context: ContextShape
    caches_known: bool
    pipelined: bool

    def size_bytes(self, kind: BufferKind, device: str) -> int | None:
        """Return what a device's buffers of one kind take; None when not known."""
        if kind is not BufferKind.MODEL and not self.caches_known:
            return None
        return sum(buffer.n_bytes for buffer in self.buffers if buffer.kind is kind and buffer.device == device)

    def cache_device(self, layer: int) -> str:
        """Return where a layer's KV cache or state lies: overrides of tensors do not move it."""
        return self.layer_devices[layer] if self.context.offloaded else HOST.name


def used_devices(reader: FlagReader, rig: Rig) -> tuple[RigDevice, ...]:
    """Return the devices that `--device`, `--split-mode none` and `--main-gpu` leave, in order.

    Raises:
        ConfigError: One of them names a device that is not there.
    """
    devices = rig.devices
    if "device" in reader.flags:
        names = reader.text("device", "").split(",")
        devices = () if names == ["none"] else tuple(_named(name, reader, rig) for name in names)
    if reader.choice("split-mode", "layer", ("none", "layer", "row", "tensor")) != "none" or not devices:
        return devices
    index = reader.whole("main-gpu", 0, least=-1)
    if index >= len(devices):
        raise reader.problem("main-gpu", f"there is no device {index}", f"count from 0: {_listed(devices)}")
    return devices[index : index + 1] if index >= 0 else ()


def place(
    model: Model, flags: Mapping[str, FlagValue], rig: Rig, where: Callable[[str], str] = "flags.{}".format
) -> Layout:
    """Lay a model on a rig as llama-server will, unless `--fit` changes the flags first.

    Args:
        model: What the header says.
        flags: llama-server's canonical long names to values, in the order in which it gets them.
        rig: The machine.
        where: Says where a flag stands, for messages: `placements/a.toml: flags.cpu-moe`.

    Raises:
        ConfigError: A flag names what is not there, matches nothing, or asks for a split that is not by layers.
    """
    reader = FlagReader(flags, where)
    devices = used_devices(reader, rig)
    if (mode := reader.text("split-mode", "layer")) in ("row", "tensor"):
        raise reader.problem("split-mode", f"k3prof predicts no split by {mode}s", 'set split-mode = "layer"')
    placer = _Placer.of(model, reader, devices, rig)
    tensors = tuple(placer.tensors())
    context = context_shape(reader, model)
    by_layer = placer.layers
    caches = list(cache_buffers(model, context, by_layer)) if model.geometry.cache_known else []
    patterns = match_all(list(dict.fromkeys(placed.tensor.name for placed in tensors)), placer.overrides)
    check_matches(patterns, where)
    return Layout(
        devices=(*dict.fromkeys(device.name for device in devices), HOST.name),
        layer_devices=tuple(_name(device) for device in by_layer),
        tensors=tensors,
        buffers=(*weight_buffers(tensors, devices), *caches),
        patterns=patterns,
        context=context,
        caches_known=model.geometry.cache_known,
        pipelined=len(devices) > 1 and None not in by_layer and context.offloaded and not placer.overrides,
    )


@dataclass(frozen=True)
class _Placer:
    """Decides over single tensors.

    Attributes:
        model: The model.
        devices: The devices by name.
        layers: The device of each layer, the output layer last; None for the host.
        overrides: Rules by name.
        host: The buffer types of the host.
        loads_mtp: Whether layers that only draft are loaded.
    """

    model: Model
    devices: Mapping[str, RigDevice]
    layers: tuple[RigDevice | None, ...]
    overrides: tuple[Override, ...]
    host: HostBuffers
    loads_mtp: bool

    @classmethod
    def of(cls, model: Model, reader: FlagReader, devices: tuple[RigDevice, ...], rig: Rig) -> _Placer:
        n_layers = len(model.geometry.layers)
        chosen = layer_devices(n_layers, shares(reader, devices), gpu_layers(reader))
        buffer_types = {device.buffer_type: device.name for device in devices}
        repacks = reader.switch("repack", True)
        has_gpu = any(device.kind is DeviceKind.CUDA for device in devices)
        return cls(
            model=model,
            devices={device.name: device for device in devices},
            layers=tuple(None if index is None else devices[index] for index in chosen),
            overrides=read_overrides(reader.flags, buffer_types, n_layers, reader.where),
            host=HostBuffers(
                pinned=has_gpu and not reader.switch("no-host", False),
                mapped=reader.choice("load-mode", "auto", _LOAD_MODES) in _MMAP_MODES and reader.switch("mmap", True),
                instruction_sets=rig.host.instruction_sets if repacks else frozenset(),
            ),
            loads_mtp="draft-mtp" in reader.text("spec-type", "none").split(","),
        )

    def tensors(self) -> Iterator[PlacedTensor]:
        for tensor in self.model.tensors:
            if tensor.role is Role.MTP and not self.loads_mtp:
                continue
            if tensor.name.startswith(_COPIED_STEMS):
                yield from dict.fromkeys(self._place(tensor, device) for device in self.layers[:-1])
            else:
                yield self._place(tensor, self._home(tensor))
        if self.model.tied_embedding:
            yield self._place(replace(self.model.tied_embedding, role=Role.OUTPUT), self.layers[-1])

    def _home(self, tensor: TensorEntry) -> RigDevice | None:
        """Return the device of a tensor's layer. Embeddings are looked up on the host, whatever else is offloaded."""
        if tensor.layer is not None and tensor.layer < len(self.layers) - 1:
            return self.layers[tensor.layer]
        if tensor.role is Role.EMBEDDING:
            return None
        return self.layers[-1] if tensor.name.startswith(_OUTPUT_STEMS) else self.layers[0]

    def _place(self, tensor: TensorEntry, home: RigDevice | None) -> PlacedTensor:
        override = first_match(tensor.name, self.overrides)
        device = self.devices.get(override.target) if override else home
        lacks_kernel = device is not None and device.kind is DeviceKind.CUDA and not cuda_computes(tensor, tensor.role)
        if device is None or (lacks_kernel and override is None):
            return PlacedTensor(tensor, HOST.name, self.host.choose(tensor, tensor.role), _name(home))
        return PlacedTensor(tensor, device.name, device.buffer_type, _name(home))


def gpu_layers(reader: FlagReader) -> int | None:
    """Return how many layers `--n-gpu-layers` offloads, the output layer counted; None for all."""
    if reader.text("n-gpu-layers", "auto") in ("auto", "all"):
        return None
    count = reader.whole("n-gpu-layers", -1, least=-(2**31))
    return None if count < 0 else count


def shares(reader: FlagReader, devices: tuple[RigDevice, ...]) -> tuple[float, ...]:
    """Return each device's share: as `--tensor-split` says, else its free memory; equal ones where that is unknown."""
    given = reader.shares("tensor-split")
    if len(given) > len(devices) > 1:
        raise reader.problem(
            "tensor-split",
            f"{len(given)} shares for {len(devices)} devices ({_listed(devices)})",
            f"give at most {len(devices)}",
        )
    if any(given[: len(devices)]):
        return tuple(given[index] if index < len(given) else 0.0 for index in range(len(devices)))
    free = [device.usable_bytes for device in devices]
    return tuple(float(size) for size in free if size) if all(free) else (1.0,) * len(devices)


def _named(name: str, reader: FlagReader, rig: Rig) -> RigDevice:
    device = rig.find(name)
    if device is None:
        near = nearest(name, [one.name for one in rig.devices])
        there = f"there are {_listed(rig.devices)}" if rig.devices else "this rig has none but the host"
        raise reader.problem("device", f"there is no {name!r}", f"did you mean {near}? {there}" if near else there)
    return device


def _listed(devices: Iterable[RigDevice]) -> str:
    return ", ".join(device.name for device in devices)


def _name(device: RigDevice | None) -> str:
    return HOST.name if device is None else device.name
