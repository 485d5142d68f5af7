"""Models described in a few lines, without a file: names, shapes and formats go in, a `Model` comes out."""

from __future__ import annotations

from collections.abc import Mapping

from k3prof.core.weights.geometry import MetadataValue
from k3prof.core.weights.ggml import ggml_type
from k3prof.core.weights.model import Model, Shard, TensorHeader, describe


def model(
    architecture: str,
    keys: Mapping[str, MetadataValue],
    tensors: Mapping[str, tuple[int, ...]],
    formats: Mapping[str, str] | None = None,
) -> Model:
    """Describe a model.

    Args:
        architecture: llama.cpp's name.
        keys: Keys of the architecture, without its prefix.
        tensors: Names to shapes, in ggml's order.
        formats: Number formats of some tensors; the others are F16.
    """
    headers, offset = [], 4096
    for name, shape in tensors.items():
        kind = ggml_type((formats or {}).get(name, "F16"))
        header = TensorHeader(name, shape, kind.name, 0, 0, offset)
        n_bytes = kind.size_bytes(header.n_elements)
        headers.append(TensorHeader(name, shape, kind.name, n_bytes, 0, offset))
        offset += n_bytes
    metadata = {"general.architecture": architecture, **{f"{architecture}.{key}": value for key, value in keys.items()}}
    return describe(architecture, metadata, headers, [Shard("tiny.gguf", offset)])


def dense(architecture: str = "qwen3", tied: bool = False, **changed: MetadataValue) -> Model:
    """Two layers of grouped-query attention: width 64, 4 heads of 32, 2 of them with keys and values."""
    keys: dict[str, MetadataValue] = {
        "block_count": 2,
        "embedding_length": 64,
        "context_length": 512,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 32,
        "attention.value_length": 32,
        **{key.replace("__", "."): value for key, value in changed.items()},
    }
    tensors: dict[str, tuple[int, ...]] = {"token_embd.weight": (64, 1000), "output_norm.weight": (64,)}
    if not tied:
        tensors["output.weight"] = (64, 1000)
    for layer in range(2):
        tensors |= {f"blk.{layer}.{stem}.weight": shape for stem, shape in _DENSE_LAYER.items()}
    return model(architecture, {k: v for k, v in keys.items() if v is not None}, tensors)


def experts(**changed: MetadataValue) -> Model:
    """`dense` with 8 routed experts, of which 2 are used, in its second layer."""
    keys = {"expert_count": 8, "expert_used_count": 2, **changed}
    tensors = {"token_embd.weight": (64, 1000), "output.weight": (64, 1000)}
    tensors |= {f"blk.0.{stem}.weight": shape for stem, shape in _DENSE_LAYER.items()}
    tensors |= {f"blk.1.{stem}.weight": shape for stem, shape in _DENSE_LAYER.items() if not stem.startswith("ffn_")}
    tensors |= {
        "blk.1.ffn_gate_inp.weight": (64, 8),
        "blk.1.ffn_gate_exps.weight": (64, 32, 8),
        "blk.1.ffn_up_exps.weight": (64, 32, 8),
        "blk.1.ffn_down_exps.weight": (32, 64, 8),
    }
    base: dict[str, MetadataValue] = {
        "block_count": 2,
        "embedding_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 32,
        "attention.value_length": 32,
    }
    return model("qwen3moe", base | keys, tensors)


_DENSE_LAYER: dict[str, tuple[int, ...]] = {
    "attn_norm": (64,),
    "attn_q": (64, 128),
    "attn_k": (64, 64),
    "attn_v": (64, 64),
    "attn_output": (128, 64),
    "ffn_gate": (64, 256),
    "ffn_up": (64, 256),
    "ffn_down": (256, 64),
}
