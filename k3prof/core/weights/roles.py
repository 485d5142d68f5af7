"""What each tensor of a model is for, read from its name.

The names are llama.cpp's (`LLM_TENSOR_NAMES` in src/llama-arch.cpp): `blk.<layer>.<stem>.<suffix>`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a tensor does. The text is how tables call it."""

    EMBEDDING = "embedding"
    """Looked up row by row, never multiplied: one row per token is read."""
    ATTENTION_MLA = "attention (MLA)"
    ATTENTION_KDA = "attention (KDA)"
    ATTENTION_GQA = "attention (GQA)"
    """Every attention with separate keys and values: multi-head, grouped-query, multi-query."""
    ATTENTION_OTHER = "attention (other)"
    """What mixes tokens by other means: Mamba, RWKV, short convolutions, gated delta nets."""
    ROUTER = "router"
    ROUTED_EXPERTS = "routed experts"
    SHARED_EXPERTS = "shared experts"
    LATENT = "latent projections"
    """Into and out of the narrower space in which routed experts work."""
    DENSE_FFN = "dense FFN"
    NORM = "norms"
    OUTPUT = "output head"
    MTP = "MTP"
    """Layers that draft further tokens; loaded and read only with `--spec-type draft-mtp`."""
    OTHER = "other"


class AttentionKind(StrEnum):
    """How a layer mixes tokens."""

    MLA = "MLA"
    KDA = "KDA"
    GQA = "GQA"
    OTHER = "other"
    NONE = "none"


_BLOCK = re.compile(r"(?:^|\.)blk\.(\d{1,9})\.(.+)")
_SUFFIX = re.compile(r"\.(?:weight|bias|scale|input_scale)$")
_EXPERT = re.compile(r"ffn_(?:gate|up|down|gate_up)(?:_(?:ch)?exps|\.\d+)")
_RECURRENT = re.compile(r"ssm_|time_mix_|shortconv\.")

_OUTSIDE_LAYERS = (
    (re.compile(r"token_embd|position_embd|token_types|per_layer_token_embd"), Role.EMBEDDING),
    (re.compile(r"output|cls(\.output)?"), Role.OUTPUT),
    (re.compile(r".*norm.*"), Role.NORM),
)
_IN_LAYER = (
    (_EXPERT, Role.ROUTED_EXPERTS),
    (re.compile(r".*norm.*|time_mix_ln"), Role.NORM),
    (re.compile(r"ffn_gate_inp|exp_probs_b(_vl)?|ffn_gate_tid2eid"), Role.ROUTER),
    (re.compile(r"ffn_(gate|up|down|gate_up|gate_inp)_shexp"), Role.SHARED_EXPERTS),
    (re.compile(r"ffn_(routed|latent)_(down|up)"), Role.LATENT),
    (re.compile(r"ffn_(gate|up|down)|ffn\.act|channel_mix_\w+"), Role.DENSE_FFN),
    (re.compile(r"(attn|ffn)_res_score"), Role.OTHER),
)
"""The first pattern that matches the whole stem decides."""
_MIXES_TOKENS = re.compile(r"(cross_)?attn_|indexer|ssm_|time_mix_|shortconv\.")

_KDA = frozenset({"ssm_f_a", "ssm_f_b", "ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v"})
_MLA = frozenset({"attn_kv_a_mqa", "attn_kv_b", "attn_k_b", "attn_v_b"})
_GQA = frozenset({"attn_q", "attn_k", "attn_v", "attn_qkv"})

_ATTENTION = {
    AttentionKind.MLA: Role.ATTENTION_MLA,
    AttentionKind.KDA: Role.ATTENTION_KDA,
    AttentionKind.GQA: Role.ATTENTION_GQA,
}


@dataclass(frozen=True)
class Place:
    """Where a tensor belongs.

    Attributes:
        layer: Its layer; None outside the layers.
        stem: Its name without layer and suffix: `ffn_gate_exps`.
    """

    layer: int | None
    stem: str


def place_of(name: str) -> Place:
    """Split a tensor's name: `blk.3.ffn_gate_exps.weight` is `ffn_gate_exps` in layer 3."""
    block = _BLOCK.search(name)
    layer, rest = (int(block[1]), block[2]) if block else (None, name)
    return Place(layer, _SUFFIX.sub("", rest))


def attention_kinds(places: Iterable[Place]) -> dict[int, AttentionKind]:
    """Return how each layer mixes tokens, told by the tensors that it has."""
    stems: dict[int, set[str]] = {}
    for place in places:
        if place.layer is not None:
            stems.setdefault(place.layer, set()).add(place.stem)
    return {layer: _attention_kind(found) for layer, found in stems.items()}


def _attention_kind(stems: set[str]) -> AttentionKind:
    if stems & _KDA:
        return AttentionKind.KDA
    if stems & _MLA:
        return AttentionKind.MLA
    if any(_RECURRENT.match(stem) for stem in stems):
        return AttentionKind.OTHER
    return AttentionKind.GQA if stems & _GQA else AttentionKind.NONE


def expert_layers(places: Iterable[Place]) -> frozenset[int]:
    """Return the layers that have routed experts."""
    return frozenset(p.layer for p in places if p.layer is not None and _EXPERT.fullmatch(p.stem))


def role_of(place: Place, kinds: Mapping[int, AttentionKind], trunk_layers: int | None) -> Role:
    """Return what a tensor is for.

    Args:
        place: Its layer and stem.
        kinds: How each layer mixes tokens.
        trunk_layers: Layers before the first that only drafts (MTP); None when the header does not say.
    """
    layer, stem = place.layer, place.stem
    if stem.startswith("nextn.") or (layer is not None and trunk_layers is not None and layer >= trunk_layers):
        return Role.MTP
    for pattern, role in _OUTSIDE_LAYERS if layer is None else _IN_LAYER:
        if pattern.fullmatch(stem):
            return role
    if layer is not None and _MIXES_TOKENS.match(stem):
        return _ATTENTION.get(kinds.get(layer, AttentionKind.NONE), Role.ATTENTION_OTHER)
    return Role.OTHER
