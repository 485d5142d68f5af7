"""The parts of a Qwen3-MoE and a Llama, as llama.cpp asks for them in `src/models/qwen3moe.cpp` and `llama.cpp`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from k3prof.llama.demo_tensors import (
    BRANCH_GAIN,
    Architecture,
    Tensor,
    Value,
    embedding,
    feed_forward,
    matrix,
    norm,
    output,
)


@dataclass(frozen=True)
class Transformer:
    """What Qwen3-MoE and Llama have in common: grouped-query attention with rotary positions in every layer.

    Attributes:
        layers: Its layers.
        width: Length of the hidden state.
        heads: Attention heads.
        kv_heads: Heads with keys and values of their own, each shared by several attention heads.
        head_size: Length of a head.
        context: Context length it claims to be trained for, in tokens.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    context: int

    def keys(self) -> dict[str, Value]:
        """Return the keys of these sizes."""
        return {
            "context_length": self.context,
            "block_count": self.layers,
            "embedding_length": self.width,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_size,
            "attention.value_length": self.head_size,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "rope.dimension_count": self.head_size,
            "rope.freq_base": 10000.0,
        }

    def attention(self, block: str) -> Iterator[Tensor]:
        """Yield the attention tensors of a layer."""
        yield norm(block + "attn_norm", self.width)
        # Attention to few tokens, not evenly to all: which token comes next depends on where the others stand, and
        # greedy generation does not run in a circle.
        yield matrix(block + "attn_q", self.width, self.heads * self.head_size, gain=2.0)
        yield matrix(block + "attn_k", self.width, self.kv_heads * self.head_size, gain=2.0)
        yield matrix(block + "attn_v", self.width, self.kv_heads * self.head_size)
        yield matrix(block + "attn_output", self.heads * self.head_size, self.width, gain=BRANCH_GAIN)


@dataclass(frozen=True)
class Qwen3Moe:
    """Sizes of a Qwen3-MoE: routed experts in every layer.

    Attributes:
        body: Everything but the feed-forward networks.
        experts: Experts in each layer.
        experts_used: How many of them a token passes.
        expert_ff: Inner width of an expert.
    """

    body: Transformer
    experts: int
    experts_used: int
    expert_ff: int

    def architecture(self, vocabulary: int) -> Architecture:
        """Return its keys and tensors, for a number of tokens."""
        keys = self.body.keys() | {
            "vocab_size": vocabulary,
            "feed_forward_length": self.expert_ff * self.experts_used,
            "expert_count": self.experts,
            "expert_used_count": self.experts_used,
            "expert_feed_forward_length": self.expert_ff,
        }
        return Architecture("qwen3moe", keys, tuple(self._tensors(vocabulary)), "output.weight")

    def _tensors(self, vocabulary: int) -> Iterator[Tensor]:
        width = self.body.width
        yield embedding(width, vocabulary)
        for layer in range(self.body.layers):
            block = f"blk.{layer}."
            yield from self.body.attention(block)
            yield norm(block + "attn_q_norm", self.body.head_size)
            yield norm(block + "attn_k_norm", self.body.head_size)
            yield norm(block + "ffn_norm", width)
            yield matrix(block + "ffn_gate_inp", width, self.experts, storage="F32")
            yield from feed_forward(block, "_exps", width, self.expert_ff, self.experts)
        yield norm("output_norm", width)
        yield output(width, vocabulary)


@dataclass(frozen=True)
class Llama:
    """Sizes of a dense Llama that scores tokens with its embedding, like the small ones of the family.

    Attributes:
        body: Everything but the feed-forward networks.
        ff: Inner width of the feed-forward networks.
    """

    body: Transformer
    ff: int

    def architecture(self, vocabulary: int) -> Architecture:
        """Return its keys and tensors, for a number of tokens."""
        keys = self.body.keys() | {"vocab_size": vocabulary, "feed_forward_length": self.ff}
        return Architecture("llama", keys, tuple(self._tensors(vocabulary)), "token_embd.weight")

    def _tensors(self, vocabulary: int) -> Iterator[Tensor]:
        # As weak as scores are: a strong embedding, scored with itself, would make each token follow itself.
        yield matrix("token_embd", self.body.width, vocabulary)
        for layer in range(self.body.layers):
            block = f"blk.{layer}."
            yield from self.body.attention(block)
            yield norm(block + "ffn_norm", self.body.width)
            yield from feed_forward(block, "", self.body.width, self.ff)
        yield norm("output_norm", self.body.width)
