"""One model taken apart: what its bytes are, what a token reads of them, and how fast that can be at best."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.weights.ggml import ggml_type
from k3prof.core.weights.model import Model, TensorEntry
from k3prof.core.weights.roles import Role
from k3prof.core.weights.traffic import (
    CacheTraffic,
    ForwardPass,
    active_parameters,
    bytes_by_role,
    cache_traffic,
    weight_reads,
)

TRUNK_TYPES = ("Q8_0", "Q6_K", "Q4_K")
"""What everything but the routed experts is usually quantized to."""

_FALLBACK = {"Q6_K": "Q8_0", "Q4_K": "Q5_0"}
_STAYS = (
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "ssm_conv1d",
    "shortconv.conv",
    "altup",
    "laurel",
)


@dataclass(frozen=True)
class RoleShare:
    """What a model has of one role.

    Attributes:
        role: The role.
        n_elements: Parameters.
        n_bytes: Their bytes in the file.
        type_bytes: Number formats and the bytes in each, the most first.
        read_bytes: What the pass reads of them; None when it does not touch them.
    """

    role: Role
    n_elements: int
    n_bytes: int
    type_bytes: tuple[tuple[str, int], ...]
    read_bytes: float | None

    @property
    def bits_per_weight(self) -> float | None:
        """Mean over the role; None for no weights."""
        return 8 * self.n_bytes / self.n_elements if self.n_elements else None


@dataclass(frozen=True)
class TrunkVariant:
    """The same model with everything but the routed experts in another number format.

    Attributes:
        type_name: The format; None for the file as it is.
        trunk_bytes: Read for every token whichever experts it chooses: weights outside the routed experts.
        read_bytes: All that the pass moves: trunk, routed experts and, where they are known, caches.
    """

    type_name: str | None
    trunk_bytes: float
    read_bytes: float

    def tokens_per_s(self, bandwidth: Bandwidth, tokens: int) -> float | None:
        """Return the ceiling for this variant; None when nothing is read."""
        return tokens_per_s(self.read_bytes, bandwidth, tokens)


@dataclass(frozen=True)
class Anatomy:
    """A model taken apart for one kind of forward pass.

    Attributes:
        model: The model.
        forward: The pass.
        shares: One per role that the model has.
        active_parameters: Parameters that one token is multiplied with.
        caches: What the pass moves in each layer's caches; None when not known for this architecture.
        variants: The file as it is, then one per trunk format.
        bandwidths: Devices to compute ceilings for.
    """

    model: Model
    forward: ForwardPass
    shares: tuple[RoleShare, ...]
    active_parameters: float
    caches: tuple[CacheTraffic, ...] | None
    variants: tuple[TrunkVariant, ...]
    bandwidths: tuple[Bandwidth, ...]

    @property
    def experts_used(self) -> int:
        """Routed experts per token: the model's own number, or the one asked for."""
        return self.forward.experts_used or self.model.geometry.experts_used

    @property
    def weight_bytes(self) -> float:
        """Weights that the pass reads."""
        return sum(share.read_bytes or 0 for share in self.shares)

    @property
    def kv_bytes(self) -> int | None:
        """KV cells that the pass reads and writes; None when not known."""
        return None if self.caches is None else sum(c.kv_read + c.kv_written for c in self.caches)

    @property
    def state_bytes(self) -> int | None:
        """Recurrent state that the pass reads and writes; None when not known."""
        return None if self.caches is None else sum(c.state_read + c.state_written for c in self.caches)

    @property
    def total_bytes(self) -> float | None:
        """All that the pass moves; None when the caches are not known."""
        if self.kv_bytes is None or self.state_bytes is None:
            return None
        return self.weight_bytes + self.kv_bytes + self.state_bytes


def tokens_per_s(read_bytes: float, bandwidth: Bandwidth, tokens: int = 1) -> float | None:
    """Return tokens per second when each pass moves these bytes through one memory at a time; None for no bytes."""
    return tokens * bandwidth.gb_per_s * 1e9 / read_bytes if read_bytes else None


def dissect(model: Model, forward: ForwardPass, bandwidths: Sequence[Bandwidth]) -> Anatomy:
    """Take a model apart.

    Raises:
        ConfigError: More experts than the model has, or a cache type that does not fit it.
    """
    read = bytes_by_role(weight_reads(model, forward))
    caches = cache_traffic(model, forward)
    moved = sum(cache.n_bytes for cache in caches or ())
    return Anatomy(
        model=model,
        forward=forward,
        shares=tuple(_shares(model, read)),
        active_parameters=active_parameters(model, forward.experts_used),
        caches=caches,
        variants=tuple(_variant(model, forward, kind, moved) for kind in (None, *TRUNK_TYPES)),
        bandwidths=tuple(bandwidths),
    )


def _shares(model: Model, read: dict[Role, float]) -> list[RoleShare]:
    shares = []
    for role in Role:
        tensors = [tensor for tensor in model.tensors if tensor.role is role]
        if not tensors and role not in read:
            continue
        types: Counter[str] = Counter()
        for tensor in tensors:
            types[tensor.type_name] += tensor.n_bytes
        shares.append(
            RoleShare(
                role=role,
                n_elements=sum(tensor.n_elements for tensor in tensors),
                n_bytes=types.total(),
                type_bytes=tuple(types.most_common()),
                read_bytes=read.get(role),
            )
        )
    return shares


def _variant(model: Model, forward: ForwardPass, type_name: str | None, moved: int) -> TrunkVariant:
    trunk = routed = 0.0
    for weight in weight_reads(model, forward):
        if weight.role is Role.ROUTED_EXPERTS:
            routed += weight.n_bytes
        elif type_name is None:
            trunk += weight.n_bytes
        else:
            trunk += replace(weight, tensor=_quantized(weight.tensor, type_name)).n_bytes
    return TrunkVariant(type_name, trunk, trunk + routed + moved)


def _quantized(tensor: TensorEntry, type_name: str) -> TensorEntry:
    """Return a tensor as llama-quantize would write it.

    It leaves vectors, norms, routers and convolutions as they are, and takes a format of 32-element blocks where rows
    do not fill 256, else F16 (`tensor_allows_quantization`, `tensor_type_fallback` in src/llama-quant.cpp).
    """
    if len(tensor.shape) < 2 or not tensor.name.endswith("weight") or any(part in tensor.name for part in _STAYS):
        return tensor
    for name in (type_name, _FALLBACK.get(type_name), "F16"):
        kind = ggml_type(name) if name else None
        if kind and tensor.shape[0] % kind.block_elements == 0:
            return replace(tensor, type_name=kind.name, n_bytes=kind.size_bytes(tensor.n_elements) or 0)
    return tensor
