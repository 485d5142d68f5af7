"""How many tokens and sequences a server's caches hold: `--ctx-size`, `--parallel` and what llama.cpp makes of them."""

from __future__ import annotations

from dataclasses import dataclass

from k3prof.core.layout.flag_reader import FlagReader
from k3prof.core.weights.ggml import CACHE_TYPES, cache_type
from k3prof.core.weights.model import Model
from k3prof.errors import ConfigError

_STEP_TOKENS = 256
"""Contexts are rounded up to it (`llama_context` in src/llama-context.cpp)."""
_AUTO_SLOTS = 4
"""Without `--parallel`, llama-server has four slots over one cache."""
MOST_SEQUENCES = 256
"""Slots that llama-server takes (`LLAMA_MAX_SEQ`)."""
_ROLLBACK_TYPES = frozenset({"draft-mtp", "draft-eagle3", "draft-dflash", "draft-dspark"})
_ROLLBACK_NAMES = (
    "kimi-k3 qwen35 qwen35moe qwen4exp deepseek4 glm5-next nemotron_h nemotron_h_moe lfm2 lfm2moe bailingmoe3"
)
_ROLLBACK_ARCHITECTURES = frozenset(_ROLLBACK_NAMES.split())
"""`need_n_rs_seq` in common/common.h and `llm_arch_supports_rs_rollback` in src/llama-arch.cpp."""


@dataclass(frozen=True)
class ContextShape:
    """What the caches have to hold.

    Attributes:
        sequences: Slots (`n_seq_max`).
        unified: Whether all slots share one cache.
        cells: Tokens that each stream of the KV cache holds (`n_ctx_seq`).
        slot_tokens: Context of one slot: capped by the model's training and by `--kv-unified-per-slot`.
        state_copies: Recurrent states kept per sequence: 1, and as many more as drafts can be rolled back.
        cache_type_k: Type of the K cache.
        cache_type_v: Type of the V cache.
        offloaded: Whether the caches lie with their layers, or all on the host.
    """

    sequences: int
    unified: bool
    cells: int
    slot_tokens: int
    state_copies: int
    cache_type_k: str
    cache_type_v: str
    offloaded: bool

    @property
    def streams(self) -> int:
        """Separate KV caches, one behind the other in each layer's tensor."""
        return 1 if self.unified else self.sequences

    @property
    def tokens(self) -> int:
        """Tokens that all sequences together can hold (`n_ctx`)."""
        return self.cells * self.streams


def context_shape(reader: FlagReader, model: Model) -> ContextShape:
    """Return the shape of a server's context.

    Raises:
        ConfigError: A flag has no possible value, or the cache types do not go with the model.
    """
    slots = reader.whole("parallel", -1, least=-1)
    unified = slots < 0 or reader.switch("kv-unified", False)
    sequences = slots if slots >= 0 else _AUTO_SLOTS
    if not 0 < sequences <= MOST_SEQUENCES:
        raise reader.problem("parallel", f"llama-server has 1 to {MOST_SEQUENCES} slots, not {sequences}")
    per_slot = reader.whole("kv-unified-per-slot", 0)
    trained = model.geometry.context_length or 0
    total = reader.whole("ctx-size", 0) or (per_slot * sequences if "ctx-size" not in reader.flags else 0) or trained
    if not total:
        raise reader.problem("ctx-size", "the model does not say what context it was trained for", "set ctx-size")
    total = _rounded_up(total)
    cells = total if unified else _rounded_up(total // sequences)
    type_k, type_v = _cache_types(reader, model)
    return ContextShape(
        sequences=sequences,
        unified=unified,
        cells=cells,
        slot_tokens=min(limit for limit in (cells, per_slot, trained) if limit),
        state_copies=1 + _rolled_back(reader, model),
        cache_type_k=type_k,
        cache_type_v=type_v,
        offloaded=reader.switch("kv-offload", True),
    )


def _rounded_up(tokens: int) -> int:
    return -(-tokens // _STEP_TOKENS) * _STEP_TOKENS


def _cache_types(reader: FlagReader, model: Model) -> tuple[str, str]:
    type_k = reader.choice("cache-type-k", "f16", CACHE_TYPES)
    type_v = reader.choice("cache-type-v", "f16", CACHE_TYPES)
    caches = [layer.cache for layer in model.geometry.layers if layer.cache]
    latent = any(cache.k_elements and not cache.v_elements for cache in caches)
    if latent and type_k != type_v:
        given = "cache-type-v" if "cache-type-v" in reader.flags else "cache-type-k"
        raise reader.problem(
            given,
            f"{type_k} for K and {type_v} for V: {model.architecture} keeps one latent for both",
            f'set cache-type-k and cache-type-v to "{type_k if given == "cache-type-k" else type_v}"',
        )
    if reader.text("flash-attn", "auto") in ("off", "false", "0") and cache_type(type_v).block_elements > 1:
        raise reader.problem(
            "cache-type-v", f"{type_v} needs flash attention, which is switched off", "leave flash-attn out"
        )
    try:
        model.kv_bytes_per_token(type_k, type_v)
    except ConfigError as error:
        raise reader.problem("cache-type-k", error.message, error.hint) from None
    return type_k, type_v


def _rolled_back(reader: FlagReader, model: Model) -> int:
    """Return how many earlier states llama.cpp keeps per sequence so that it can take drafts back."""
    kinds = set(reader.text("spec-type", "none").split(","))
    if not kinds & _ROLLBACK_TYPES or model.architecture not in _ROLLBACK_ARCHITECTURES:
        return 0
    return reader.whole("spec-draft-n-max", 3)
