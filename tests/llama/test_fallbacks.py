from __future__ import annotations

import pytest

from k3prof.llama.fallbacks import FALLBACKS, find_fallbacks
from k3prof.llama.log_lines import read_lines

# What llama.cpp writes, with its formats filled in.
SAYINGS = [
    ("fit-gave-up", "common_fit_params: failed to fit params to free device memory: n_gpu_layers already set, abort"),
    ("fit-failed", "common_fit_params: encountered an error while trying to fit params to free device memory: x"),
    ("fit-skipped-device", "common_get: device CUDA1 did not report memory; --fit will not use it"),
    ("fit-without-draft", "x_y: failed to measure the memory of the extra model, fitting without it: x"),
    ("no-gpu", "warning: no usable GPU found, --gpu-layers option will be ignored"),
    ("no-cuda", "ggml_cuda_init: failed to initialize CUDA: no CUDA-capable device is detected"),
    (
        "no-offload",
        "warning: llama.cpp was compiled without support for GPU offload. Setting a tensor split has no effect.",
    ),
    (
        "overrides-with-mmap",
        "llama_model_loader: tensor overrides to CPU are used with mmap enabled - consider using x",
    ),
    (
        "other-buffer-type",
        "done_getting_tensors: tensor 'a.weight' (q8_0) (and 6 others) cannot be used with preferred buffer type CUDA0,"
        " using CPU instead",
    ),
    ("unused-tensor", "model has unused tensor blk.0.x (size = 9 bytes) -- ignoring"),
    (
        "override-ignored",
        "validate_override: Warning: Bad metadata override type for key 'a.b', expected int but got str",
    ),
    ("no-mmap", "llama_model_loader: mmap is not supported on this platform"),
    ("no-direct-io", "Failed to open file 'a.gguf' with error: x. Falling back to buffered I/O"),
    ("no-mlock", "warning: failed to mlock 9-byte buffer (after previously locking 0 bytes): Cannot allocate memory"),
    ("no-read-ahead", "warning: posix_madvise(.., POSIX_MADV_WILLNEED) failed: x"),
    ("no-pinned-memory", "ggml_cuda_host_malloc: failed to allocate 64.00 MiB of pinned memory: out of memory"),
    ("no-pipeline-memory", "sched_reserve: compute buffer allocation failed, retrying without pipeline parallelism"),
    ("no-graph-reuse", "llama_context: graph reuse disabled"),
    (
        "fa-elsewhere",
        "resolve_fused_ops: layer 3 is assigned to device CUDA1 but Flash Attention is assigned to device CPU (x)",
    ),
    ("no-flash-attention", "resolve_fused_ops: Flash Attention not supported, set to disabled"),
    ("no-flash-attention", "llama_context: Flash Attention was auto, set to disabled"),
    (
        "fa-converts-cache",
        "fattn_x: no FlashAttention vector kernel compiled for K/V types q5_0-f16, converting K and V",
    ),
    ("v-cache-padded", "llama_kv_cache: the V embeddings have different sizes across layers - padding V cache to 512"),
    ("no-tensor-cores", "The following devices will have suboptimal performance due to a lack of tensor cores:"),
    ("no-cuda-graphs", "ggml_backend_cuda_graph_compute: disabling CUDA graphs due to GPU architecture"),
    ("no-nccl", "NCCL disabled: virtual devices in use; falling back to internal AllReduce"),
    ("no-nccl", "internal AllReduce init failed (n_devices != 2?); falling back to meta-backend butterfly"),
    ("memory-unreadable", "ggml_backend_cuda_device_get_memory: cudaMemGetInfo failed (x), returning 0/0"),
    (
        "compute-buffer-grew",
        "~llama_context: CUDA0 compute buffer size of 9.0000 MiB, does not match expectation of 8.0000 MiB",
    ),
    ("context-beyond-training", "llama_context: n_ctx_seq (9) > n_ctx_train (8) -- possible training context overflow"),
    ("context-beyond-training", "the slot context (9) exceeds the training context of the model (8) - capping"),
    ("context-rounded", "llama_context: n_ctx is not divisible by n_seq_max - rounding down to 1536"),
    ("no-context-shift", "KV cache shifting is not supported for this context, disabling KV cache shifting"),
    ("no-cache-reuse", "cache_reuse is not supported by this context, it will be disabled"),
    ("no-cache-reuse", "slot x: id  0 | task 1 | cache reuse is not supported - ignoring n_cache_reuse = 16"),
    ("no-full-swa", "swa_full is not supported by this model, it will be disabled"),
    ("no-idle-slot-cache", "--cache-idle-slots requires --cache-ram, disabling"),
    ("slot-context-capped", "--kv-unified-per-slot (9) exceeds the per-slot pool capacity (8) - cap has no effect"),
    (
        "smaller-batches",
        "failed to find free space in the KV cache, retrying with smaller batch size, off = 0, n_batch = 256, ret = 1",
    ),
    ("context-shifted", "slot x: id  0 | task 1 | slot context shift, n_keep = 0, n_left = 9, n_discard = 4"),
    ("checkpoint-erased", "slot x: id  0 | task 1 | erasing old context checkpoint (pos_min = 1, pos_max = 2)"),
    ("full-reprocessing", "slot x: id  0 | task 1 | forcing full prompt re-processing due to lack of cache data"),
    ("no-backend-sampling", "set_sampler: sampler 'dry' for seq_id = 0, cannot be offloaded to the backend"),
    ("no-speculation", "speculative decoding not supported by this context"),
    ("no-rollback", "llama_context: n_rs_seq=7 requested but model does not support partial rollback; clamping to 0"),
    ("draft-clamped", "x_y: requested draft size (n_max=9, n_min=0) exceeds the trained block size 7 -- clamping to 7"),
    ("draft-on-host", "backend offload failed for seq_id=0; using CPU sampler"),
    ("numa-balancing", "/proc/sys/kernel/numa_balancing is enabled, this has been observed to impair performance"),
    ("too-many-threads", "cplan requested more threads (9) than available (8)"),
    ("too-few-cores", "Not enough set bits in CPU mask (1) to satisfy requested thread count: 2"),
    ("config-file", "common_params_parse: using config file: /home/x/.config/llama.cpp/config.ini"),
]


@pytest.mark.parametrize(("code", "saying"), SAYINGS)
def test_a_fallback_is_recognised_quoted_and_remedied(code: str, saying: str) -> None:
    (caveat,) = find_fallbacks(read_lines(f"0.00.100.000 W {saying}\n"))
    assert caveat.code == code
    assert caveat.message == " ".join(saying.split())
    assert caveat.remedy


def test_every_fallback_has_a_saying_and_a_code_of_its_own() -> None:
    codes = [fallback.code for fallback in FALLBACKS]
    assert len(codes) == len(set(codes))
    assert set(codes) == {code for code, _ in SAYINGS}


def test_a_fallback_that_comes_again_is_counted_and_told_once() -> None:
    line = "0.00.100.000 W slot x: id  0 | task {0} | slot context shift, n_keep = 0, n_left = 9, n_discard = 4\n"
    (caveat,) = find_fallbacks(read_lines(line.format(1) + line.format(2) + line.format(3)))
    assert caveat.message.endswith("(3 times)")


def test_a_usual_start_of_the_repacked_host_is_no_fallback() -> None:
    line = (
        "0.00.046.812 D done_getting_tensors: tensor 'token_embd.weight' (q8_0) (and 6 others) cannot be used with "
        "preferred buffer type CPU_REPACK, using CPU instead\n"
    )
    assert find_fallbacks(read_lines(line)) == ()


@pytest.mark.parametrize(
    "line",
    [
        "0.00.1 I llama_model_loader: - kv 1: general.name str = graph reuse disabled",
        '0.00.687.336 D Parsed message: {"content":"graph reuse disabled"}',
        "0.00.100.000 I srv x: init\nthe person wrote: graph reuse disabled",
    ],
)
def test_text_of_models_and_persons_is_no_fallback(line: str) -> None:
    assert find_fallbacks(read_lines(line)) == ()
