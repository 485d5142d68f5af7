"""A model's shape as its metadata gives it: layers, experts, and what each layer caches.

The rules are those by which llama.cpp builds its caches (`llama_model::create_memory` in src/llama-model.cpp,
`n_embd_k_gqa`, `n_embd_r` and `n_embd_s` in src/llama-hparams.cpp). Which architecture follows which rule is decided
in code there, not by metadata: gemma2 slides its window without any key that says so, and llada has all the keys of
grouped-query attention but no cache. So only architectures listed here have a known cache.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from k3prof.core.weights.roles import AttentionKind
from k3prof.errors import ConfigError

MAX_LAYERS = 4096
"""More than this is no model but a broken header; llama.cpp itself stops at 512."""


@dataclass(frozen=True)
class Skipped:
    """A metadata value too long to keep: a vocabulary, a chat template.

    Attributes:
        length: Elements of the array, or bytes of the text.
    """

    length: int


Scalar = bool | int | float | str
MetadataValue = Scalar | tuple[bool | int | float, ...] | Skipped
Metadata = Mapping[str, MetadataValue]


@dataclass(frozen=True)
class LayerCache:
    """Elements that one layer keeps.

    Attributes:
        k_elements: Keys per token, in the K cache type; 0 for a layer without attention.
        v_elements: Values per token, in the V cache type; 0 under MLA, whose latent serves as both.
        r_elements: Rolling convolution state per sequence, always f32.
        s_elements: Recurrent state per sequence, always f32.
    """

    k_elements: int = 0
    v_elements: int = 0
    r_elements: int = 0
    s_elements: int = 0


@dataclass(frozen=True)
class Layer:
    """One layer.

    Attributes:
        index: From 0, as in `blk.0`.
        attention: How it mixes tokens.
        mtp: Whether it only drafts further tokens; llama.cpp counts it in N when it deals out layers.
        experts_used: Routed experts per token; 0 in a dense layer.
        cache: What it keeps; None when that is not known for this architecture.
    """

    index: int
    attention: AttentionKind
    mtp: bool
    experts_used: int
    cache: LayerCache | None


@dataclass(frozen=True)
class Geometry:
    """A model's shape.

    Attributes:
        layers: All layers, MTP layers included (llama.cpp's `n_layer_all`).
        embedding_length: Width of the residual stream; None when the header does not say.
        context_length: Tokens of context it was trained for; None when the header does not say.
        experts: Routed experts per MoE layer; 0 in a dense model.
        cache_known: Whether KV and state can be computed for this architecture.
    """

    layers: tuple[Layer, ...]
    embedding_length: int | None
    context_length: int | None
    experts: int
    cache_known: bool

    @property
    def trunk_layers(self) -> int:
        """Layers that every token passes: all but MTP."""
        return sum(not layer.mtp for layer in self.layers)

    @property
    def experts_used(self) -> int:
        """Routed experts per token, the largest over the layers; 0 in a dense model."""
        return max((layer.experts_used for layer in self.layers), default=0)


_PLAIN_NAMES = (
    "apertus arcee arctic baichuan bailingmoe bailingmoe2 bitnet bloom chameleon chatglm codeshell cogvlm command-r "
    "dbrx deci deepseek deepseek2-ocr dots1 ernie4_5 exaone falcon gemma glm4 glm4moe gpt2 gptneox granite granitemoe "
    "grok grovemoe hunyuan-moe hy_v3 internlm2 jais jais2 llama maincoder minicpm minicpm3 minimax-m2 mistral3 mpt "
    "nemotron olmo olmoe openelm orion pangu-embedded phi2 phimoe plamo plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen3moe "
    "qwen3vl qwen3vlmoe refact seed_oss smollm3 stablelm starcoder starcoder2 xverse"
)
"""Architectures whose every layer keeps a full K and a full V cache: they get `create_memory`'s default and set
neither a window, nor a recurrent layer, nor head sizes of their own (src/models/*.cpp, 0.5.0-dev, commit 0c1e570)."""
_PLAIN = frozenset(_PLAIN_NAMES.split())

_MLA = frozenset({"deepseek2", "mistral4"})
_KDA = frozenset({"kimi-k3", "kimi-linear"})


def read_geometry(
    architecture: str, metadata: Metadata, kinds: Mapping[int, AttentionKind], experts_in: frozenset[int]
) -> Geometry:
    """Read a model's shape.

    Args:
        architecture: `general.architecture`.
        metadata: The header's keys and values.
        kinds: How each layer mixes tokens, as its tensors tell.
        experts_in: Layers that have routed experts.

    Raises:
        ConfigError: A key has a value that no model can have.
    """
    keys = _Keys(architecture, metadata)
    indices = _layer_indices(keys, kinds)
    trunk = len(indices) - min(keys.number("nextn_predict_layers") or 0, len(indices))
    cache = _cache_rule(architecture, keys, len(indices), trunk)
    layers = tuple(
        Layer(
            index=index,
            attention=kinds.get(index, AttentionKind.NONE),
            mtp=place >= trunk,
            experts_used=keys.per_layer("expert_used_count", place) or 0 if index in experts_in else 0,
            cache=cache[place] if cache else None,
        )
        for place, index in enumerate(indices)
    )
    return Geometry(
        layers=layers,
        embedding_length=keys.number("embedding_length"),
        context_length=keys.number("context_length"),
        experts=keys.number("expert_count") or 0,
        cache_known=cache is not None,
    )


def trunk_layers(architecture: str, metadata: Metadata) -> int | None:
    """Return the layers that come before the first MTP layer; None when the header gives no layer count."""
    keys = _Keys(architecture, metadata)
    count = keys.number("block_count")
    return None if count is None else max(count - (keys.number("nextn_predict_layers") or 0), 0)


def _layer_indices(keys: _Keys, kinds: Mapping[int, AttentionKind]) -> list[int]:
    count = keys.number("block_count")
    if count is None:
        return sorted(kinds)
    if count > MAX_LAYERS:
        raise ConfigError(f"{keys.full('block_count')}: {count} layers are more than any model has")
    return list(range(count))


@dataclass(frozen=True)
class _Keys:
    """Looks up an architecture's own keys."""

    architecture: str
    metadata: Metadata

    def full(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def number(self, key: str) -> int | None:
        """Return a whole number that is not negative; None when the key is absent."""
        value = self.metadata.get(self.full(key))
        return None if value is None else self._whole(key, value)

    def per_layer(self, key: str, layer: int) -> int | None:
        """Return a number that may be given once for all layers or as an array with one for each."""
        value = self.metadata.get(self.full(key))
        if not isinstance(value, tuple):
            return self.number(key)
        if layer >= len(value):
            raise ConfigError(f"{self.full(key)}: has {len(value)} values, but there is a layer {layer}")
        return self._whole(key, value[layer])

    def _whole(self, key: str, value: MetadataValue) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise ConfigError(f"{self.full(key)}: expected a whole number, got {value!r}")
        return value


def _cache_rule(architecture: str, keys: _Keys, layers: int, trunk: int) -> tuple[LayerCache, ...] | None:
    """Return what each layer keeps in the main context, where MTP layers keep nothing; None when unknown."""
    if architecture in _PLAIN | _MLA:
        rule = _attention_cache
    elif architecture in _KDA and trunk == layers:
        rule = _kimi_cache
    else:
        return None
    caches = [rule(keys, layer) if layer < trunk else LayerCache() for layer in range(layers)]
    known = [cache for cache in caches if cache is not None]
    return tuple(known) if len(known) == len(caches) else None


def _attention_cache(keys: _Keys, layer: int) -> LayerCache | None:
    """K and V rows of `head size × n_head_kv`; under MLA one K row that holds the latent, and no V.

    Files converted before MLA's latent cache (no `key_length_mla`) keep full K and V.
    """
    heads = keys.per_layer("attention.head_count", 0)
    heads_here = keys.per_layer("attention.head_count", layer)
    heads_kv = keys.per_layer("attention.head_count_kv", layer)
    heads_kv = heads_here if heads_kv is None else heads_kv
    width = keys.number("embedding_length")
    if not heads or heads_kv is None or width is None:
        return None
    k_head, v_head = keys.number("attention.key_length"), keys.number("attention.value_length")
    k_head = width // heads if k_head is None else k_head
    v_head = width // heads if v_head is None else v_head
    mla = [bool(keys.number(f"attention.{key}_length_mla")) for key in ("key", "value")]
    if any(mla) and not all(mla):
        return None
    return LayerCache(k_elements=k_head * heads_kv, v_elements=0 if all(mla) else v_head * heads_kv)


def _kimi_cache(keys: _Keys, layer: int) -> LayerCache | None:
    """MLA layers keep a latent per token; layers without KV heads are KDA and keep a state per sequence.

    R holds the last inputs of the q, k and v convolutions, `3 (d_conv - 1) · n_head · head_dim`;
    S one matrix per head, `head_dim² · n_head` (src/llama-hparams.cpp).
    """
    heads, head_dim = keys.per_layer("attention.head_count", 0), keys.number("kda.head_dim")
    conv, heads_kv = keys.number("ssm.conv_kernel"), keys.per_layer("attention.head_count_kv", layer)
    if not heads or not head_dim or conv is None or heads_kv is None:
        return None
    if heads_kv:
        cache = _attention_cache(keys, layer)
        return cache if cache and not cache.v_elements else None
    kept_inputs = conv - 1 if conv else 3
    return LayerCache(r_elements=3 * kept_inputs * heads * head_dim, s_elements=head_dim**2 * heads)
