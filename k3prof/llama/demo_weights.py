"""The bytes of a demo model's tensors: random weights in ggml's number formats, made from a seed and a name."""

from __future__ import annotations

import hashlib
from math import sqrt

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from numpy.typing import NDArray

from k3prof.llama.demo_tensors import Tensor


def size_bytes(tensor: Tensor) -> int:
    """Return how many bytes a tensor takes."""
    block_weights, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[tensor.storage]]
    return tensor.elements // int(block_weights) * int(block_bytes)


def encode(tensor: Tensor, seed: int, row_strength: NDArray[np.float64] | None = None) -> NDArray[np.uint8]:
    """Make a tensor's bytes.

    A quantized block gets random integers, and the scale that gives them the tensor's deviation: nothing needs to be
    quantized. Their deviation is that of the uniform distribution on the integers that the format holds.

    Args:
        tensor: What to make.
        seed: Another one gives other weights.
        row_strength: Factor for the weights of each row, shape (rows,); None for none.

    Returns:
        Shape (bytes,).
    """
    match tensor.storage:
        case "F32":
            integers = _random_bytes(tensor, seed, 2 * tensor.elements).view("<u2")
            uniform = (integers - 32767.5) / 32768
            return (tensor.mean + tensor.std * sqrt(3) * uniform).astype("<f4").view(np.uint8)
        case "Q8_0":
            # llama.cpp's own quantization keeps to -127..127.
            integers = np.maximum(_random_bytes(tensor, seed, tensor.elements).view(np.int8), -127)
            quants, quants_std = integers.view(np.uint8).reshape(-1, 32), sqrt((256**2 - 1) / 12)
        case "Q4_0":
            pairs = _without_bias(_random_bytes(tensor, seed, tensor.elements // 2))
            quants, quants_std = pairs.reshape(-1, 16), sqrt(2 * sum(n**2 for n in range(8)) / 16)
    rows = tensor.elements // tensor.shape[0]
    scales = np.full(rows, tensor.std / quants_std)
    if row_strength is not None:
        scales *= row_strength
    blocks = np.empty(len(quants), [("scale", "<f2"), ("quants", np.uint8, quants.shape[1])])
    blocks["scale"] = np.repeat(scales, len(blocks) // rows)
    blocks["quants"] = quants
    return blocks.view(np.uint8)


def _random_bytes(tensor: Tensor, seed: int, count: int) -> NDArray[np.uint8]:
    # The same on every machine, with every version of numpy: its own generators do not promise that.
    text = f"k3prof demo model {seed}: {tensor.name}"
    return np.frombuffer(hashlib.shake_256(text.encode()).digest(count), np.uint8)


def _without_bias(pairs: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Replace each -8, which has no positive counterpart, by 0; half a byte holds a number plus 8."""
    four = np.uint8(4)
    low, high = pairs & np.uint8(15), pairs >> four
    low[low == 0] = 8
    high[high == 0] = 8
    return low | (high << four)
