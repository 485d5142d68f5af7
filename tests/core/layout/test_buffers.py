from __future__ import annotations

import pytest

from k3prof.core.layout.buffers import (
    ON_CUDA,
    ON_HOST,
    HostBuffers,
    cuda_computes,
    host_size_bytes,
    mapped_bytes,
)
from k3prof.core.weights.model import TensorHeader
from k3prof.core.weights.roles import Role

AVX2 = frozenset({"avx", "avx2", "fma"})
AMX = AVX2 | {"amx_int8", "avx512_vnni", "avx512f"}


def tensor(type_name: str, *shape: int, n_bytes: int = 0, shard: int = 0, offset: int = 0) -> TensorHeader:
    return TensorHeader("blk.0.t.weight", shape, type_name, n_bytes, shard, offset)


def test_the_host_rounds_up_to_32_bytes():
    assert [ON_HOST.padded(n, "F32", 1) for n in (0, 1, 32, 33)] == [0, 32, 32, 64]


def test_cuda_rounds_up_to_128_bytes():
    assert ON_CUDA.size_bytes(tensor("F32", 3, n_bytes=12)) == 128


def test_cuda_pads_quantized_rows_to_512_elements():
    # 576 elements: 448 more to 1024, as 14 blocks of 34 bytes.
    assert ON_CUDA.size_bytes(tensor("Q8_0", 576, 2, n_bytes=1224)) == 1792 == -(-(1224 + 14 * 34) // 128) * 128
    assert ON_CUDA.size_bytes(tensor("Q8_0", 1024, 2, n_bytes=2176)) == 2176
    assert ON_CUDA.size_bytes(tensor("F16", 576, 2, n_bytes=2304)) == 2304


def test_a_type_that_only_a_fork_knows_is_not_padded():
    assert ON_CUDA.size_bytes(tensor("type 137", 576, 2, n_bytes=1280)) == 1280


def test_mapped_files_count_from_their_first_to_their_last_tensor():
    held = [
        tensor("F16", 8, n_bytes=16, offset=1000),
        tensor("F16", 8, n_bytes=16, offset=5000),
        tensor("F16", 8, n_bytes=16, shard=2, offset=64),
    ]
    assert mapped_bytes(held) == {0: 4016, 2: 16}
    assert mapped_bytes([]) == {}


@pytest.mark.parametrize(
    ("pinned", "mapped", "expected"),
    [(True, False, "CUDA_Host"), (True, True, "CPU_Mapped"), (False, False, "CPU"), (False, True, "CPU_Mapped")],
)
def test_plain_weights_on_the_host(pinned, mapped, expected):
    assert HostBuffers(pinned, mapped).choose(tensor("Q8_0", 64, 64), Role.DENSE_FFN) == expected


def test_weights_are_repacked_where_the_processor_gains_from_it():
    host = HostBuffers(pinned=False, mapped=True, instruction_sets=AVX2)
    assert host.choose(tensor("Q4_0", 64, 64), Role.DENSE_FFN) == "CPU_REPACK"
    assert host.choose(tensor("Q8_0", 64, 64), Role.DENSE_FFN) == "CPU_Mapped"
    assert host.choose(tensor("Q4_0", 64, 60), Role.DENSE_FFN) == "CPU_Mapped", "rows in eights"
    assert host.choose(tensor("Q4_0", 64, 64), Role.EMBEDDING) == "CPU_Mapped", "looked up, not multiplied"


def test_stacked_weights_are_repacked_only_if_they_are_experts():
    host = HostBuffers(pinned=False, mapped=False, instruction_sets=AVX2)
    assert host.choose(tensor("Q4_0", 64, 64, 8), Role.ROUTED_EXPERTS) == "CPU_REPACK"
    assert host.choose(tensor("Q4_0", 64, 64, 8), Role.ATTENTION_MLA) == "CPU"


def test_arm_repacks_q8_0_in_fours():
    host = HostBuffers(pinned=False, mapped=False, instruction_sets=frozenset({"asimddp"}))
    assert host.choose(tensor("Q8_0", 64, 60), Role.DENSE_FFN) == "CPU_REPACK"


def test_page_locked_memory_comes_before_repacking():
    host = HostBuffers(pinned=True, mapped=False, instruction_sets=AVX2)
    assert host.choose(tensor("Q4_0", 64, 64), Role.DENSE_FFN) == "CUDA_Host"


def test_amx_has_a_layout_of_its_own():
    host = HostBuffers(pinned=False, mapped=False, instruction_sets=AMX)
    assert host.choose(tensor("Q8_0", 64, 96), Role.DENSE_FFN) == "AMX"
    assert host.choose(tensor("Q8_0", 64, 96, 4), Role.ROUTED_EXPERTS) == "CPU"
    # 96 rows of 2 blocks, each 34 bytes and a 4-byte compensation.
    assert host_size_bytes("AMX", tensor("Q8_0", 64, 96, n_bytes=96 * 68)) == 96 * 2 * 38
    assert host_size_bytes("CPU", tensor("Q8_0", 64, 96, n_bytes=96 * 68)) == 96 * 68


def test_what_cuda_has_no_kernel_for():
    assert cuda_computes(tensor("Q1_0", 128, 4), Role.ROUTED_EXPERTS)
    assert not cuda_computes(tensor("TQ2_0", 256, 4), Role.ROUTED_EXPERTS)
    assert cuda_computes(tensor("IQ4_NL", 256, 4), Role.EMBEDDING)
    assert not cuda_computes(tensor("IQ4_NL", 288, 4), Role.EMBEDDING)
