"""What a GGUF holds: its tensors by role, its geometry, and the bytes that follow from them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from k3prof.core.weights.geometry import Geometry, Layer, Metadata, read_geometry, trunk_layers
from k3prof.core.weights.ggml import GgmlType, cache_type
from k3prof.core.weights.roles import Role, attention_kinds, expert_layers, place_of, role_of
from k3prof.errors import ConfigError

STATE_ELEMENT_BYTES = 4
"""Recurrent state is f32 whatever the cache types (`create_memory` in src/llama-model.cpp)."""


@dataclass(frozen=True)
class TensorHeader:
    """What a header says of one tensor.

    Attributes:
        name: Its full name: `blk.3.ffn_gate_exps.weight`.
        shape: Elements per dimension in ggml's order: the first is the length of a row.
        type_name: Its number format: `Q8_0`; `type 137` when it is unknown here.
        n_bytes: Bytes of its data; for an unknown format, up to the next tensor, so padding may be included.
        shard: Which of the model's files holds it, from 0.
        offset: Where its data begins in that file, in bytes.
    """

    name: str
    shape: tuple[int, ...]
    type_name: str
    n_bytes: int
    shard: int
    offset: int

    @property
    def n_elements(self) -> int:
        """How many numbers it holds."""
        product = 1
        for extent in self.shape:
            product *= extent
        return product


@dataclass(frozen=True)
class TensorEntry(TensorHeader):
    """One tensor and what it is for.

    Attributes:
        role: What it does.
        layer: The layer it belongs to; None outside the layers.
    """

    role: Role
    layer: int | None


@dataclass(frozen=True)
class Shard:
    """One file of a model.

    Attributes:
        path: Where it lies.
        size_bytes: Its size.
    """

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Model:
    """A model as its header describes it.

    Attributes:
        architecture: llama.cpp's name: `kimi-k3`.
        name: What its maker calls it; empty when the header does not say.
        metadata: Every key of the header; long values are `Skipped`.
        geometry: Layers, experts and caches.
        tensors: All tensors, in the order of the files.
        shards: Its files, in order.
    """

    architecture: str
    name: str
    metadata: Metadata
    geometry: Geometry
    tensors: tuple[TensorEntry, ...]
    shards: tuple[Shard, ...]

    @cached_property
    def parameters(self) -> int:
        """All numbers in all tensors."""
        return sum(tensor.n_elements for tensor in self.tensors)

    @cached_property
    def n_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tensor.n_bytes for tensor in self.tensors)

    @cached_property
    def tied_embedding(self) -> TensorEntry | None:
        """The embedding table where it serves as output head too, else None.

        llama.cpp then loads `token_embd.weight` a second time, to the device of the output layer.
        """
        causal = self.metadata.get(f"{self.architecture}.attention.causal", True)
        if not causal or any(tensor.name == "output.weight" for tensor in self.tensors):
            return None
        return next((tensor for tensor in self.tensors if tensor.name == "token_embd.weight"), None)

    def kv_bytes_per_token(self, type_k: str = "f16", type_v: str = "f16") -> int | None:
        """Return what one token adds to the KV cache of one sequence, over all layers; None when unknown.

        Raises:
            ConfigError: There is no such cache type, or its blocks do not fit this model's rows.
        """
        return _sum_or_unknown(kv_bytes(layer, type_k, type_v) for layer in self.geometry.layers)

    @property
    def state_bytes_per_sequence(self) -> int | None:
        """Recurrent state of one sequence over all layers, without rollback copies; None when unknown."""
        return _sum_or_unknown(state_bytes(layer) for layer in self.geometry.layers)


def describe(architecture: str, metadata: Metadata, headers: Sequence[TensorHeader], shards: Sequence[Shard]) -> Model:
    """Put a model together from what its files' headers say.

    Raises:
        ConfigError: A key has a value that no model can have.
    """
    places = [place_of(header.name) for header in headers]
    kinds = attention_kinds(places)
    trunk = trunk_layers(architecture, metadata)
    name = metadata.get("general.name", "")
    return Model(
        architecture=architecture,
        name=name if isinstance(name, str) else "",
        metadata=metadata,
        geometry=read_geometry(architecture, metadata, kinds, expert_layers(places)),
        tensors=tuple(
            TensorEntry(
                header.name,
                header.shape,
                header.type_name,
                header.n_bytes,
                header.shard,
                header.offset,
                role_of(place, kinds, trunk),
                place.layer,
            )
            for header, place in zip(headers, places, strict=True)
        ),
        shards=tuple(shards),
    )


def kv_bytes(layer: Layer, type_k: str = "f16", type_v: str = "f16") -> int | None:
    """Return what one token adds to the KV cache of one sequence in one layer; None when unknown.

    Raises:
        ConfigError: There is no such cache type, or its blocks do not fit this layer's rows.
    """
    if layer.cache is None:
        return None
    keys = _row_bytes(cache_type(type_k), layer.cache.k_elements, layer.index)
    values = _row_bytes(cache_type(type_v), layer.cache.v_elements, layer.index)
    return keys + values


def state_bytes(layer: Layer) -> int | None:
    """Return the recurrent state of one sequence in one layer (R and S parts); None when unknown."""
    if layer.cache is None:
        return None
    return STATE_ELEMENT_BYTES * (layer.cache.r_elements + layer.cache.s_elements)


def _row_bytes(kind: GgmlType, elements: int, layer: int) -> int:
    size = kind.size_bytes(elements)
    if size is None:
        raise ConfigError(
            f"cache type {kind.name.lower()}: layer {layer} keeps {elements} elements per token, "
            f"which {kind.block_elements}-element blocks do not divide",
            "use f16 or bf16",
        )
    return size


def _sum_or_unknown(parts: Iterable[int | None]) -> int | None:
    total = 0
    for part in parts:
        if part is None:
            return None
        total += part
    return total
