"""A full-size Kimi-K3 that takes a few MB of disk: a true header, and holes where the weights would be.

Shapes are those that llama.cpp's src/models/kimi-k3.cpp demands of the released model. The `gguf` package writes the
header, so a test that reads it back does not depend on this project's own idea of the format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Quant

LAYERS = 93
WIDTH, DENSE_FFN = 7168, 33792
HEADS, KDA_HEAD, CONV = 96, 128, 4
Q_LORA, KV_LORA, NOPE, ROPE, V_HEAD = 1536, 512, 128, 64, 128
LATENT, EXPERT_FFN, SHARED_EXPERTS, EXPERTS_USED = 3584, 3072, 2, 16
VOCABULARY = 163_840
CONTEXT = 1_048_576


@dataclass(frozen=True)
class K3:
    """What to write.

    Attributes:
        experts: Routed experts per MoE layer; 448 is the pruned model.
        trunk: Number format of all matrices outside the routed experts.
        routed: Number format of the routed experts.
        routed_larger: Format of the first few expert tensors, as mixed quantizations have them.
        n_routed_larger: How many of the 276 expert tensors have that format. Ten IQ1_S among Q1_0 make 1.14 bits.
        layers: Layers; fewer make a smaller header.
        tokens: Entries of the vocabulary, and as many merges.
        tensors_per_file: Split into shards of that many tensors; 0 for one file.
    """

    experts: int = 896
    trunk: Quant = Quant.Q8_0
    routed: Quant = Quant.Q1_0
    routed_larger: Quant = Quant.IQ1_S
    n_routed_larger: int = 10
    layers: int = LAYERS
    tokens: int = VOCABULARY
    tensors_per_file: int = 0

    def is_mla(self, layer: int) -> bool:
        """Every fourth layer and the last: 24 of 93."""
        return layer % 4 == 3 or layer == self.layers - 1

    def tensors(self) -> Iterator[tuple[str, tuple[int, ...], Quant]]:
        """Yield name, shape in ggml's order, and format of every tensor."""
        yield "token_embd.weight", (WIDTH, VOCABULARY), self.trunk
        for layer in range(self.layers):
            yield from self._layer(layer)
        yield "output_norm.weight", (WIDTH,), Quant.F32
        yield "output_res_score.weight", (WIDTH,), Quant.F32
        yield "output.weight", (WIDTH, VOCABULARY), self.trunk

    def _layer(self, layer: int) -> Iterator[tuple[str, tuple[int, ...], Quant]]:
        for stem in ("attn_norm", "ffn_norm", "attn_res_score", "ffn_res_score"):
            yield f"blk.{layer}.{stem}.weight", (WIDTH,), Quant.F32
        yield from self._mla(layer) if self.is_mla(layer) else self._kda(layer)
        if layer:
            yield from self._moe(layer)
        else:
            for stem, shape in _ffn(WIDTH, DENSE_FFN):
                yield f"blk.0.ffn_{stem}.weight", shape, self.trunk

    def _kda(self, layer: int) -> Iterator[tuple[str, tuple[int, ...], Quant]]:
        inner = HEADS * KDA_HEAD
        small = {
            **{f"ssm_conv1d_{part}.weight": (CONV, 1, inner) for part in "qkv"},
            "ssm_a": (HEADS,),
            "ssm_dt.bias": (inner,),
            "ssm_norm.weight": (KDA_HEAD,),
        }
        matrices = {
            **{f"attn_{part}.weight": (WIDTH, inner) for part in "qkv"},
            "ssm_f_a.weight": (WIDTH, KDA_HEAD),
            "ssm_f_b.weight": (KDA_HEAD, inner),
            "ssm_beta.weight": (WIDTH, HEADS),
            "ssm_g.weight": (WIDTH, inner),
            "attn_output.weight": (inner, WIDTH),
        }
        yield from self._block(layer, small, matrices)

    def _mla(self, layer: int) -> Iterator[tuple[str, tuple[int, ...], Quant]]:
        small = {"attn_q_a_norm.weight": (Q_LORA,), "attn_kv_a_norm.weight": (KV_LORA,)}
        matrices = {
            "attn_q_a.weight": (WIDTH, Q_LORA),
            "attn_q_b.weight": (Q_LORA, HEADS * (NOPE + ROPE)),
            "attn_kv_a_mqa.weight": (WIDTH, KV_LORA + ROPE),
            "attn_k_b.weight": (NOPE, KV_LORA, HEADS),
            "attn_v_b.weight": (KV_LORA, V_HEAD, HEADS),
            "attn_gate.weight": (WIDTH, HEADS * V_HEAD),
            "attn_output.weight": (HEADS * V_HEAD, WIDTH),
        }
        yield from self._block(layer, small, matrices)

    def _moe(self, layer: int) -> Iterator[tuple[str, tuple[int, ...], Quant]]:
        small = {
            "ffn_gate_inp.weight": (WIDTH, self.experts),
            "exp_probs_b.bias": (self.experts,),
            "ffn_routed_norm.weight": (LATENT,),
        }
        matrices = {
            "ffn_routed_down.weight": (WIDTH, LATENT),
            "ffn_routed_up.weight": (LATENT, WIDTH),
            **{f"ffn_{stem}_shexp.weight": shape for stem, shape in _ffn(WIDTH, SHARED_EXPERTS * EXPERT_FFN)},
        }
        yield from self._block(layer, small, matrices)
        for place, (stem, shape) in enumerate(_ffn(LATENT, EXPERT_FFN)):
            larger = 3 * (layer - 1) + place < self.n_routed_larger
            quant = self.routed_larger if larger else self.routed
            yield f"blk.{layer}.ffn_{stem}_exps.weight", (*shape, self.experts), quant

    def _block(
        self, layer: int, small: dict[str, tuple[int, ...]], matrices: dict[str, tuple[int, ...]]
    ) -> Iterator[tuple[str, tuple[int, ...], Quant]]:
        for name, shape in small.items():
            yield f"blk.{layer}.{name}", shape, Quant.F32
        for name, shape in matrices.items():
            yield f"blk.{layer}.{name}", shape, self._fitting(shape[0])

    def _fitting(self, row: int) -> Quant:
        """Q8_0 where a row does not fill the trunk format's blocks, as llama-quantize falls back."""
        return Quant.Q8_0 if row % gguf.GGML_QUANT_SIZES[self.trunk][0] else self.trunk


def _ffn(width: int, inner: int) -> tuple[tuple[str, tuple[int, int]], ...]:
    return ("gate", (width, inner)), ("up", (width, inner)), ("down", (inner, width))


def write_full_size_k3(path: Path, k3: K3 | None = None) -> Path:
    """Write the header and cut the file to its full size with a hole; return the (first) file."""
    k3 = k3 or K3()
    path.parent.mkdir(exist_ok=True)
    writer = gguf.GGUFWriter(path, "kimi-k3", split_max_tensors=k3.tensors_per_file)
    _add_keys(writer, k3)
    for name, shape, quant in k3.tensors():
        block, block_bytes = gguf.GGML_QUANT_SIZES[quant]
        n_bytes = int(np.prod(shape, dtype=object)) // block * block_bytes
        writer.add_tensor_info(name, shape[::-1], np.dtype(np.float32), n_bytes, raw_dtype=quant)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for file, tensors in zip(writer.fout, writer.tensors, strict=True):
        data_bytes = sum(writer.ggml_pad(tensor.nbytes, 32) for tensor in tensors.values())
        file.truncate(writer.ggml_pad(file.tell(), 32) + data_bytes)
    writer.close()
    return writer.format_shard_names(path)[0]


def _add_keys(writer: gguf.GGUFWriter, k3: K3) -> None:
    writer.add_name("Kimi K3")
    numbers = {
        "context_length": CONTEXT,
        "embedding_length": WIDTH,
        "block_count": k3.layers,
        "feed_forward_length": DENSE_FFN,
        "vocab_size": VOCABULARY,
        "attention.head_count": HEADS,
        "attention.key_length": KV_LORA + ROPE,
        "attention.value_length": KV_LORA,
        "attention.key_length_mla": NOPE + ROPE,
        "attention.value_length_mla": V_HEAD,
        "attention.q_lora_rank": Q_LORA,
        "attention.kv_lora_rank": KV_LORA,
        "rope.dimension_count": ROPE,
        "ssm.conv_kernel": CONV,
        "kda.head_dim": KDA_HEAD,
        "expert_count": k3.experts,
        "expert_used_count": EXPERTS_USED,
        "expert_feed_forward_length": EXPERT_FFN,
        "expert_latent_length": LATENT,
        "expert_shared_count": SHARED_EXPERTS,
        "leading_dense_block_count": 1,
        "expert_gating_func": 2,
        "attn_res.block_size": 12,
    }
    for key, value in numbers.items():
        writer.add_uint32(f"kimi-k3.{key}", value)
    writer.add_array("kimi-k3.attention.head_count_kv", [int(k3.is_mla(layer)) for layer in range(k3.layers)])
    writer.add_float32("kimi-k3.attention.layer_norm_rms_epsilon", 1e-5)
    writer.add_float32("kimi-k3.expert_weights_scale", 1.0)
    writer.add_float32("kimi-k3.kda.gate_lower_bound", -5.0)
    writer.add_float32("kimi-k3.activation.situ_beta", 4.0)
    writer.add_float32("kimi-k3.activation.situ_linear_beta", 25.0)
    writer.add_bool("kimi-k3.expert_weights_norm", True)
    writer.add_tokenizer_model("gpt2")
    writer.add_array("tokenizer.ggml.tokens", [f"token{index:x}" for index in range(k3.tokens)])
    writer.add_array("tokenizer.ggml.token_type", [1] * k3.tokens)
    writer.add_array("tokenizer.ggml.merges", [f"mer{index:x} ge{index % 97}" for index in range(k3.tokens)])
