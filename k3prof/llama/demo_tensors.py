"""What a demo model consists of: keys and tensors of random weights, and the kinds of tensors that all have.

The deviations keep a forward pass in bounds without training: normalised input, of variance 1, leaves a matrix with
variance 1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod, sqrt
from typing import Literal

Value = bool | int | float | str | tuple[int, ...]
Storage = Literal["F32", "Q8_0", "Q4_0"]

BRANCH_GAIN = 0.5
"""Strength of what a layer adds to the residual stream: below 1, rounding that differs between devices stays small."""


@dataclass(frozen=True)
class Tensor:
    """One tensor of independent weights, uniformly distributed.

    Attributes:
        name: Its full name in the file: `blk.0.attn_q.weight`.
        shape: Its sizes in ggml's order, the length of a row first.
        storage: ggml's name of the number format.
        std: Standard deviation of its weights.
        mean: Their mean; 0 unless stored as F32.
    """

    name: str
    shape: tuple[int, ...]
    storage: Storage
    std: float
    mean: float = 0.0

    @property
    def elements(self) -> int:
        """The number of its weights."""
        return prod(self.shape)


@dataclass(frozen=True)
class Architecture:
    """A model but for its weights and tokenizer.

    Attributes:
        name: llama.cpp's name of the architecture: `kimi-k3`.
        keys: What the architecture's own keys say, without the name that prefixes them.
        tensors: All tensors, in the order of the file.
        head: Name of the tensor with one row of scores per token: `output.weight`, or `token_embd.weight` if tied.
    """

    name: str
    keys: Mapping[str, Value]
    tensors: tuple[Tensor, ...]
    head: str


def matrix(name: str, *shape: int, storage: Storage = "Q8_0", gain: float = 1.0) -> Tensor:
    """Return a matrix, or a stack of them, that multiplies the deviation of its input by `gain`."""
    return Tensor(f"{name}.weight", shape, storage, gain / sqrt(shape[0]))


def norm(name: str, width: int) -> Tensor:
    """Return the weights of an RMS norm."""
    return Tensor(f"{name}.weight", (width,), "F32", 0.1, 1.0)


def embedding(width: int, vocabulary: int) -> Tensor:
    """Return the hidden state that each token starts with."""
    return Tensor("token_embd.weight", (width, vocabulary), "Q8_0", 1.0)


def output(width: int, vocabulary: int) -> Tensor:
    """Return the scores of each token.

    Their deviation lets a few tokens be much more likely than others, as in a trained model.
    """
    return matrix("output", width, vocabulary, gain=3.0)


def feed_forward(
    block: str, kind: str, width: int, inner: int, *experts: int, storage: Storage = "Q8_0"
) -> Iterator[Tensor]:
    """Yield a gated feed-forward network: of a layer, or of each expert (`kind` is `_exps`) of a layer."""
    yield matrix(f"{block}ffn_gate{kind}", width, inner, *experts, storage=storage)
    yield matrix(f"{block}ffn_up{kind}", width, inner, *experts, storage=storage)
    yield matrix(f"{block}ffn_down{kind}", inner, width, *experts, storage=storage, gain=BRANCH_GAIN)
