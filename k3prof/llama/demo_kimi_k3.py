"""The parts of a Kimi-K3, as llama.cpp asks for them in `src/models/kimi-k3.cpp`.

It refuses a file in which a tensor is missing or left over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import sqrt

from k3prof.llama.demo_tensors import (
    BRANCH_GAIN,
    Architecture,
    Storage,
    Tensor,
    Value,
    embedding,
    feed_forward,
    matrix,
    norm,
    output,
)

_SHARED_EXPERTS = 2


@dataclass(frozen=True)
class KimiK3:
    """Sizes of a Kimi-K3. What is not listed is as in the real one.

    Attributes:
        layers: Its layers: every fourth and the last have full attention (MLA), the others linear attention (KDA).
        width: Length of the hidden state.
        heads: Attention heads, of either kind.
        head_size: Length of a KDA head, and of the value and the own part of the key of an MLA head.
        shared_key_size: Length of the part of the key that all MLA heads share.
        query_rank: Length of the latent state from which MLA queries are made.
        cache_rank: Length of the latent state from which MLA keys and values are made; it is what is cached.
        dense_ff: Inner width of the first layer's feed-forward network, the only one without experts.
        experts: Routed experts in each other layer.
        experts_used: How many of them a token passes.
        expert_ff: Inner width of an expert.
        latent: Length of the hidden state that routed experts work on.
        residual_block: Layers from one checkpoint of the attention residuals to the next.
        expert_storage: Number format of the routed experts.
        context: Context length it claims to be trained for, in tokens.
    """

    layers: int
    width: int
    heads: int
    head_size: int
    shared_key_size: int
    query_rank: int
    cache_rank: int
    dense_ff: int
    experts: int
    experts_used: int
    expert_ff: int
    latent: int
    residual_block: int
    expert_storage: Storage
    context: int

    def architecture(self, vocabulary: int) -> Architecture:
        """Return its keys and tensors, for a number of tokens."""
        return Architecture("kimi-k3", self._keys(vocabulary), tuple(self._tensors(vocabulary)), "output.weight")

    def _is_mla(self, layer: int) -> bool:
        return layer % 4 == 3 or layer == self.layers - 1

    def _keys(self, vocabulary: int) -> dict[str, Value]:
        return {
            "vocab_size": vocabulary,
            "context_length": self.context,
            "block_count": self.layers,
            "embedding_length": self.width,
            "feed_forward_length": self.dense_ff,
            "leading_dense_block_count": 1,
            "attention.head_count": self.heads,
            # No heads with keys and values: that is how llama.cpp tells a KDA layer.
            "attention.head_count_kv": tuple(int(self._is_mla(layer)) for layer in range(self.layers)),
            "attention.layer_norm_rms_epsilon": 1e-5,
            "attention.q_lora_rank": self.query_rank,
            "attention.kv_lora_rank": self.cache_rank,
            "attention.key_length": self.cache_rank + self.shared_key_size,
            "attention.value_length": self.cache_rank,
            "attention.key_length_mla": self.head_size + self.shared_key_size,
            "attention.value_length_mla": self.head_size,
            "rope.dimension_count": self.shared_key_size,
            "ssm.conv_kernel": 4,
            "kda.head_dim": self.head_size,
            "kda.gate_lower_bound": -5.0,
            "expert_count": self.experts,
            "expert_used_count": self.experts_used,
            "expert_shared_count": _SHARED_EXPERTS,
            "expert_feed_forward_length": self.expert_ff,
            "expert_latent_length": self.latent,
            "expert_gating_func": 2,  # sigmoid
            "expert_weights_norm": True,
            "expert_weights_scale": 1.0,
            "activation.situ_beta": 4.0,
            "activation.situ_linear_beta": 25.0,
            "attn_res.block_size": self.residual_block,
        }

    def _tensors(self, vocabulary: int) -> Iterator[Tensor]:
        yield embedding(self.width, vocabulary)
        for layer in range(self.layers):
            block = f"blk.{layer}."
            yield norm(block + "attn_norm", self.width)
            yield self._residual_score(block + "attn_res_score")
            yield from self._mla(block) if self._is_mla(layer) else self._kda(block)
            yield norm(block + "ffn_norm", self.width)
            yield self._residual_score(block + "ffn_res_score")
            yield from self._experts(block) if layer else feed_forward(block, "", self.width, self.dense_ff)
        yield norm("output_norm", self.width)
        yield self._residual_score("output_res_score")
        yield output(self.width, vocabulary)

    def _residual_score(self, name: str) -> Tensor:
        # Scores of variance 1, so that the softmax over the checkpoints mixes them all.
        return Tensor(f"{name}.weight", (self.width,), "F32", 1 / sqrt(self.width))

    def _kda(self, block: str) -> Iterator[Tensor]:
        inner = self.heads * self.head_size
        for part in "qkv":
            yield matrix(f"{block}attn_{part}", self.width, inner)
            yield Tensor(f"{block}ssm_conv1d_{part}.weight", (4, 1, inner, 1), "F32", 0.5)
        yield matrix(block + "ssm_f_a", self.width, self.head_size)
        yield matrix(block + "ssm_f_b", self.head_size, inner)
        yield matrix(block + "ssm_beta", self.width, self.heads)
        yield Tensor(block + "ssm_a", (self.heads,), "F32", 0.2, -1.0)
        # The state keeps exp(-5 sigmoid(-4)), some 90 %, from token to token.
        yield Tensor(block + "ssm_dt.bias", (inner,), "F32", 1.0, -4.0)
        yield matrix(block + "ssm_g", self.width, inner)
        yield norm(block + "ssm_norm", self.head_size)
        yield matrix(block + "attn_output", inner, self.width, gain=BRANCH_GAIN)

    def _mla(self, block: str) -> Iterator[Tensor]:
        inner = self.heads * self.head_size
        yield matrix(block + "attn_q_a", self.width, self.query_rank)
        yield norm(block + "attn_q_a_norm", self.query_rank)
        yield matrix(block + "attn_q_b", self.query_rank, inner + self.heads * self.shared_key_size)
        yield matrix(block + "attn_kv_a_mqa", self.width, self.cache_rank + self.shared_key_size)
        yield norm(block + "attn_kv_a_norm", self.cache_rank)
        yield matrix(block + "attn_k_b", self.head_size, self.cache_rank, self.heads)
        yield matrix(block + "attn_v_b", self.cache_rank, self.head_size, self.heads)
        yield matrix(block + "attn_gate", self.width, inner)
        yield matrix(block + "attn_output", inner, self.width, gain=BRANCH_GAIN)

    def _experts(self, block: str) -> Iterator[Tensor]:
        yield matrix(block + "ffn_gate_inp", self.width, self.experts, storage="F32")
        yield Tensor(block + "exp_probs_b.bias", (self.experts,), "F32", 0.01)
        yield matrix(block + "ffn_routed_down", self.width, self.latent)
        yield from feed_forward(block, "_exps", self.latent, self.expert_ff, self.experts, storage=self.expert_storage)
        yield norm(block + "ffn_routed_norm", self.latent)
        yield matrix(block + "ffn_routed_up", self.latent, self.width, gain=BRANCH_GAIN)
        yield from feed_forward(block, "_shexp", self.width, self.expert_ff * _SHARED_EXPERTS)
