"""The number formats of ggml tensors: how many bytes a run of elements takes."""

from __future__ import annotations

from dataclasses import dataclass

from k3prof.errors import ConfigError


@dataclass(frozen=True)
class GgmlType:
    """One number format: elements are stored in blocks of a fixed size.

    Attributes:
        id: Its number in a GGUF header (`enum ggml_type` in ggml.h).
        name: `Q8_0`, as tables and model files are labelled.
        block_elements: Elements per block.
        block_bytes: Bytes per block (`type_size` in ggml.c).
    """

    id: int
    name: str
    block_elements: int
    block_bytes: int

    @property
    def bits_per_weight(self) -> float:
        """Bits that one element takes, the block's scales included."""
        return 8 * self.block_bytes / self.block_elements

    def size_bytes(self, elements: int) -> int | None:
        """Return the bytes of that many consecutive elements; None when they do not fill whole blocks."""
        blocks, rest = divmod(elements, self.block_elements)
        return None if rest else blocks * self.block_bytes


GGML_TYPES: tuple[GgmlType, ...] = (
    GgmlType(0, "F32", 1, 4),
    GgmlType(1, "F16", 1, 2),
    GgmlType(2, "Q4_0", 32, 18),
    GgmlType(3, "Q4_1", 32, 20),
    GgmlType(6, "Q5_0", 32, 22),
    GgmlType(7, "Q5_1", 32, 24),
    GgmlType(8, "Q8_0", 32, 34),
    GgmlType(9, "Q8_1", 32, 36),
    GgmlType(10, "Q2_K", 256, 84),
    GgmlType(11, "Q3_K", 256, 110),
    GgmlType(12, "Q4_K", 256, 144),
    GgmlType(13, "Q5_K", 256, 176),
    GgmlType(14, "Q6_K", 256, 210),
    GgmlType(15, "Q8_K", 256, 292),
    GgmlType(16, "IQ2_XXS", 256, 66),
    GgmlType(17, "IQ2_XS", 256, 74),
    GgmlType(18, "IQ3_XXS", 256, 98),
    GgmlType(19, "IQ1_S", 256, 50),
    GgmlType(20, "IQ4_NL", 32, 18),
    GgmlType(21, "IQ3_S", 256, 110),
    GgmlType(22, "IQ2_S", 256, 82),
    GgmlType(23, "IQ4_XS", 256, 136),
    GgmlType(24, "I8", 1, 1),
    GgmlType(25, "I16", 1, 2),
    GgmlType(26, "I32", 1, 4),
    GgmlType(27, "I64", 1, 8),
    GgmlType(28, "F64", 1, 8),
    GgmlType(29, "IQ1_M", 256, 56),
    GgmlType(30, "BF16", 1, 2),
    GgmlType(34, "TQ1_0", 256, 54),
    GgmlType(35, "TQ2_0", 256, 66),
    GgmlType(39, "MXFP4", 32, 17),
    GgmlType(40, "NVFP4", 64, 36),
    GgmlType(41, "Q1_0", 128, 18),
    GgmlType(42, "Q2_0", 64, 18),
)

TYPES_BY_ID = {kind.id: kind for kind in GGML_TYPES}
_TYPES_BY_NAME = {kind.name.lower(): kind for kind in GGML_TYPES}

CACHE_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""What `--cache-type-k` and `--cache-type-v` accept (`kv_cache_types` in llama.cpp's common/arg.cpp)."""


def type_name(type_id: int) -> str:
    """Return the name of a format; `type 137` for one that only a fork, or a newer llama.cpp, knows."""
    known = TYPES_BY_ID.get(type_id)
    return known.name if known else f"type {type_id}"


def ggml_type(name: str) -> GgmlType | None:
    """Return the format of this name, in capitals or not, or None."""
    return _TYPES_BY_NAME.get(name.lower())


def cache_type(name: str) -> GgmlType:
    """Return the format of a KV cache type.

    Raises:
        ConfigError: llama-server takes no such cache type.
    """
    kind = ggml_type(name)
    if kind is None or name.lower() not in CACHE_TYPES:
        raise ConfigError(f"cache type {name!r} is unknown", f"use one of {', '.join(CACHE_TYPES)}")
    return kind
