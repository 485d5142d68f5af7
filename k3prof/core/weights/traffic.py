"""Bytes that one forward pass reads and writes: weights by tensor, caches by layer.

A pass computes some tokens of some sequences. Each weight it needs is read once however many tokens share the pass,
except routed experts, of which more are needed the more tokens choose, and embeddings, of which each token takes a row.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k3prof.core.weights.model import Model, TensorEntry, kv_bytes, state_bytes
from k3prof.core.weights.roles import Role
from k3prof.errors import ConfigError


@dataclass(frozen=True)
class ForwardPass:
    """What is computed at once.

    Attributes:
        tokens: Tokens in the pass: one per stream in decode, a ubatch in prefill.
        sequences: Sequences they belong to.
        depth: Tokens that each of these sequences has in its cache already.
        experts_used: Routed experts per token instead of the model's own (`expert_used_count` overridden).
        cache_type_k: Type of the K cache.
        cache_type_v: Type of the V cache.
    """

    tokens: int = 1
    sequences: int = 1
    depth: int = 0
    experts_used: int | None = None
    cache_type_k: str = "f16"
    cache_type_v: str = "f16"


@dataclass(frozen=True)
class WeightRead:
    """What a pass reads of one tensor.

    Attributes:
        tensor: The tensor.
        role: What it is read as; an embedding table that is also the output head is read as both.
        share: Part of the tensor that is read, from 0 to 1.
    """

    tensor: TensorEntry
    role: Role
    share: float

    @property
    def n_bytes(self) -> float:
        """Bytes read; a fraction where it is an expected value."""
        return self.share * self.tensor.n_bytes


@dataclass(frozen=True)
class CacheTraffic:
    """What a pass moves in one layer's caches, in bytes.

    Attributes:
        layer: The layer's index.
        kv_read: All used cells of the pass's sequences, the tokens of this pass included.
        kv_written: One row per token.
        state_read: The recurrent state of each sequence.
        state_written: As much again: every token changes all of it.
    """

    layer: int
    kv_read: int
    kv_written: int
    state_read: int
    state_written: int

    @property
    def n_bytes(self) -> int:
        """Read and written together."""
        return self.kv_read + self.kv_written + self.state_read + self.state_written


def expected_distinct(experts: int, used: int, tokens: int) -> float:
    """Return how many distinct experts a pass of `tokens` needs, if each token chooses `used` of `experts`.

    E·(1 − (1 − k/E)^B): a token leaves a given expert unused with probability 1 − k/E. Exact for tokens that choose
    independently and experts that are equally liked (used so by MoESD, https://arxiv.org/abs/2505.19645). Consecutive
    tokens of one sequence choose alike, and experts are not liked equally, so this is an upper bound in practice.
    """
    return experts * (1 - (1 - used / experts) ** tokens)


def weight_reads(model: Model, forward: ForwardPass) -> tuple[WeightRead, ...]:
    """Return what a pass reads of every tensor that it touches.

    MTP layers are not touched. What is not recognised (`Role.OTHER`) counts as read in full.

    Raises:
        ConfigError: More experts per token than the model has, or experts asked of a dense model.
    """
    check_experts_used(model, forward.experts_used)
    used = {layer.index: layer.experts_used for layer in model.geometry.layers}
    if forward.experts_used is not None:
        used = dict.fromkeys(used, forward.experts_used)
    reads = [
        WeightRead(tensor, tensor.role, _share(tensor, forward.tokens, used, model.geometry.experts))
        for tensor in model.tensors
        if tensor.role is not Role.MTP
    ]
    if model.tied_embedding:
        reads.append(WeightRead(model.tied_embedding, Role.OUTPUT, 1.0))
    return tuple(reads)


def cache_traffic(model: Model, forward: ForwardPass) -> tuple[CacheTraffic, ...] | None:
    """Return what a pass moves in each layer's caches; None when the architecture's caches are not known.

    llama.cpp rounds the cells that it reads up to a multiple of 256; that is left out here.

    Raises:
        ConfigError: There is no such cache type, or its blocks do not fit this model's rows.
    """
    cells = forward.sequences * forward.depth + forward.tokens
    traffic = []
    for layer in model.geometry.layers:
        row = kv_bytes(layer, forward.cache_type_k, forward.cache_type_v)
        state = state_bytes(layer)
        if row is None or state is None:
            return None
        state *= forward.sequences
        traffic.append(CacheTraffic(layer.index, cells * row, forward.tokens * row, state, state))
    return tuple(traffic)


def bytes_by_role(reads: Iterable[WeightRead]) -> dict[Role, float]:
    """Sum what is read, by role, in the order of `Role`."""
    sums: dict[Role, float] = defaultdict(float)
    for read in reads:
        sums[read.role] += read.n_bytes
    return {role: sums[role] for role in Role if role in sums}


def active_parameters(model: Model, experts_used: int | None = None) -> float:
    """Return the parameters that one token is multiplied with: what one pass of one token reads, embeddings aside.

    Raises:
        ConfigError: More experts per token than the model has.
    """
    reads = weight_reads(model, ForwardPass(experts_used=experts_used))
    return sum(read.share * read.tensor.n_elements for read in reads if read.role is not Role.EMBEDDING)


def check_experts_used(model: Model, experts_used: int | None) -> None:
    """Refuse a number of experts per token that llama.cpp would refuse.

    Raises:
        ConfigError: The model is dense, or has fewer experts.
    """
    if experts_used is None:
        return
    if not model.geometry.experts:
        raise ConfigError("experts used: this model has no routed experts", "leave the number of experts out")
    if not 1 <= experts_used <= model.geometry.experts:
        raise ConfigError(f"experts used: {experts_used} of {model.geometry.experts} cannot be chosen")


def _share(tensor: TensorEntry, tokens: int, used: Mapping[int, int], experts_in_model: int) -> float:
    if tensor.role is Role.EMBEDDING:
        return min(tokens * tensor.shape[0] / tensor.n_elements, 1.0) if tensor.n_elements else 0.0
    if tensor.role is not Role.ROUTED_EXPERTS or tensor.layer is None:
        return 1.0
    experts = tensor.shape[-1] if "exps" in tensor.name else experts_in_model
    chosen = min(used.get(tensor.layer, 0), experts)
    return expected_distinct(experts, chosen, tokens) / experts if chosen else 1.0
