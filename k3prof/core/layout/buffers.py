"""Where llama.cpp puts a tensor's data, and how many bytes that takes: buffer types, alignment, mapped files.

From `make_cpu_buft_list`, `select_weight_buft`, `get_mapping_range` in llama.cpp's src, and the backends in ggml/src.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k3prof.core.device import DeviceKind
from k3prof.core.weights.ggml import ggml_type
from k3prof.core.weights.model import TensorHeader
from k3prof.core.weights.roles import Role

CPU, MAPPED, PINNED, REPACK, AMX = "CPU", "CPU_Mapped", "CUDA_Host", "CPU_REPACK", "AMX"


@dataclass(frozen=True)
class Allocation:
    """How a backend rounds a tensor up (`get_alignment`, `get_alloc_size`).

    Attributes:
        alignment_bytes: Each tensor is rounded up to a multiple of it.
        row_elements: Quantized tensors are padded as if the last row had a multiple of that many elements; 1 for none.
    """

    alignment_bytes: int
    row_elements: int = 1

    def size_bytes(self, tensor: TensorHeader) -> int:
        """Return what a tensor takes in a buffer that was allocated."""
        return self.padded(tensor.n_bytes, tensor.type_name, tensor.shape[0] if tensor.shape else 1)

    def padded(self, n_bytes: int, type_name: str, row_elements: int) -> int:
        """Return what data with rows of this type and length takes."""
        kind = ggml_type(type_name)
        missing = -row_elements % self.row_elements
        if kind is not None and kind.block_elements > 1 and missing:
            n_bytes += kind.size_bytes(missing) or 0
        return -(-n_bytes // self.alignment_bytes) * self.alignment_bytes


ON_HOST = Allocation(alignment_bytes=32)
"""`TENSOR_ALIGNMENT` in ggml-impl.h; also over RPC, which asks the other side."""
ON_CUDA = Allocation(alignment_bytes=128, row_elements=512)
"""`MATRIX_ROW_PADDING` in ggml-cuda."""


def allocation(kind: DeviceKind) -> Allocation:
    """Return how a kind of device rounds tensors up."""
    return ON_CUDA if kind is DeviceKind.CUDA else ON_HOST


_CUDA_TYPES = (
    "F32 F16 BF16 Q1_0 Q2_0 Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 MXFP4 NVFP4 Q2_K Q3_K Q4_K Q5_K Q6_K Q8_K "
    "IQ1_M IQ1_S IQ2_S IQ2_XS IQ2_XXS IQ3_S IQ3_XXS IQ4_NL IQ4_XS"
)
_CUDA_MULTIPLIES = frozenset(_CUDA_TYPES.split())
_CUDA_LOOKS_UP = _CUDA_MULTIPLIES - {"Q8_K", "NVFP4"}
_LOOKED_UP_BY_256 = frozenset({"IQ4_NL", "MXFP4"})


def cuda_computes(tensor: TensorHeader, role: Role) -> bool:
    """Return whether CUDA has a kernel for a weight; one without stays on the host whatever its layer's device is.

    From `ggml_backend_cuda_device_supports_op`: matrices are multiplied, embeddings looked up by row. Types that this
    table does not know are taken to be supported.
    """
    if ggml_type(tensor.type_name) is None:
        return True
    if role is not Role.EMBEDDING:
        return tensor.type_name in _CUDA_MULTIPLIES
    fits = tensor.type_name not in _LOOKED_UP_BY_256 or tensor.shape[0] % 256 == 0
    return tensor.type_name in _CUDA_LOOKS_UP and fits


@dataclass(frozen=True)
class HostBuffers:
    """The buffer types that the host offers, in llama.cpp's order of preference.

    Attributes:
        pinned: Whether the first GPU offers page-locked memory (`CUDA_Host`).
        mapped: Whether the file is mapped into memory instead of read.
        instruction_sets: The processor's extensions by the kernel's names; empty without repacking.
    """

    pinned: bool
    mapped: bool
    instruction_sets: frozenset[str] = frozenset()

    def choose(self, tensor: TensorHeader, role: Role) -> str:
        """Return the buffer type of a tensor that goes to the host.

        Mapped pages cannot be page-locked, so a mapped model's are plain host memory. Repacked weights are copies in
        either case.
        """
        if self.pinned and cuda_computes(tensor, role):
            return MAPPED if self.mapped else PINNED
        if role is not Role.EMBEDDING:
            if _amx_takes(tensor, role, self.instruction_sets):
                return AMX
            if _repack_takes(tensor, role, self.instruction_sets):
                return REPACK
        return MAPPED if self.mapped else CPU


def host_size_bytes(buffer_type: str, tensor: TensorHeader) -> int:
    """Return what a tensor takes in one of the host's allocated buffers."""
    row_bytes = _AMX_BLOCK_BYTES.get(tensor.type_name)
    if buffer_type != AMX or row_bytes is None:
        return ON_HOST.size_bytes(tensor)
    kind = ggml_type(tensor.type_name)
    blocks = tensor.shape[0] // kind.block_elements if kind else 0
    return ON_HOST.padded(tensor.shape[1] * blocks * row_bytes, "F32", 1)


def mapped_bytes(tensors: Iterable[TensorHeader]) -> Mapping[int, int]:
    """Return the size of the mapped buffer in each file: one range from the first to the end of the last tensor.

    Other tensors that lie between are counted in, though nothing reads them there.
    """
    begin: dict[int, int] = {}
    end: dict[int, int] = {}
    for tensor in tensors:
        begin[tensor.shard] = min(tensor.offset, begin.get(tensor.shard, tensor.offset))
        end[tensor.shard] = max(tensor.offset + tensor.n_bytes, end.get(tensor.shard, 0))
    return {shard: end[shard] - begin[shard] for shard in sorted(begin)}


_AMX_BLOCK_BYTES = {"Q4_0": 18, "Q4_1": 20, "Q8_0": 38, "Q4_K": 148, "Q5_K": 180, "Q6_K": 210, "IQ4_XS": 138}
"""Bytes of a block as AMX stores it (`get_row_size` in ggml-cpu/amx/mmq.cpp)."""
_AMX_SET = frozenset({"amx_int8", "avx512_vnni"})


def _amx_takes(tensor: TensorHeader, role: Role, instruction_sets: frozenset[str]) -> bool:
    if not instruction_sets >= _AMX_SET or role is Role.ROUTED_EXPERTS or len(tensor.shape) < 2:
        return False
    if tensor.type_name == "F16":
        return tensor.shape[1] % 32 == 0 and tensor.shape[0] % 16 == 0
    return tensor.type_name in _AMX_BLOCK_BYTES and tensor.shape[1] % 32 == 0


def _repack_takes(tensor: TensorHeader, role: Role, instruction_sets: frozenset[str]) -> bool:
    """Tell whether ggml interleaves a tensor's rows (`ggml_repack_get_optimal_repack_type` in ggml-cpu/repack.cpp)."""
    stacked = any(extent > 1 for extent in tensor.shape[2:])
    if len(tensor.shape) < 2 or stacked is not (role is Role.ROUTED_EXPERTS):
        return False
    return any(
        needed in instruction_sets and tensor.type_name in types and tensor.shape[1] % rows == 0
        for needed, types, rows in _REPACKED
    )


_REPACKED = (
    ("avx512f", frozenset({"Q2_K"}), 8),
    ("avx2", frozenset({"Q4_0", "Q4_K", "IQ4_NL", "MXFP4"}), 8),
    ("asimddp", frozenset({"Q4_K", "Q5_K", "Q6_K"}), 8),
    ("asimddp", frozenset({"Q4_0", "Q8_0", "Q1_0", "IQ4_NL", "MXFP4"}), 4),
)
"""Extensions that the build uses, formats it then interleaves, and the rows it interleaves at once."""
