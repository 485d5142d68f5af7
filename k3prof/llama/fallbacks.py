"""What llama-server gives up silently, as its log tells it: each with what to do about it.

The wording was read in the source of llama.cpp (commit 0c1e57098); other versions word some of it alike.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate

from k3prof.core.trial import Caveat
from k3prof.llama.log_lines import LogLine, quote


@dataclass(frozen=True)
class Fallback:
    """One thing that llama.cpp reports and goes on without.

    Attributes:
        code: A stable short name.
        pattern: What the log says.
        remedy: What to do about it.
    """

    code: str
    pattern: re.Pattern[str]
    remedy: str


def _fallback(code: str, pattern: str, remedy: str) -> Fallback:
    return Fallback(code, re.compile(pattern), remedy)


FALLBACKS = (
    _fallback(
        "fit-gave-up",
        r"failed to fit params to free device memory",
        'set fit = "off" and place the model yourself, or drop the setting that stopped it (n-gpu-layers, '
        "tensor-split, override-tensor, n-cpu-moe); set ctx-size too, which may stay reduced",
    ),
    _fallback(
        "fit-failed",
        r"encountered an error while trying to fit params",
        'set fit = "off" and place the model yourself',
    ),
    _fallback(
        "fit-skipped-device",
        r"did not report memory; --fit will not use it",
        'set fit = "off" and name the device in tensor-split',
    ),
    _fallback(
        "fit-without-draft",
        r"failed to measure the memory of the extra model",
        "leave room for the draft model: raise fit-target",
    ),
    _fallback("no-gpu", r"no usable GPU found, --gpu-layers", "use a build with support for this machine's GPUs"),
    _fallback(
        "no-cuda",
        r"failed to initialize (?:CUDA|ROCm|MUSA): ",
        "no GPU is used: check nvidia-smi, the driver's version and CUDA_VISIBLE_DEVICES",
    ),
    _fallback("no-offload", r"compiled without support for GPU offload", "use a build with a GPU backend"),
    _fallback(
        "overrides-with-mmap",
        r"tensor overrides to CPU are used with mmap enabled",
        'set load-mode = "none": weights on the host then lie in pinned memory',
    ),
    _fallback(
        "other-buffer-type",
        r"cannot be used with preferred buffer type (?!CPU_REPACK)\S+, using",
        "the device lacks an operation for this type of weight: choose another quantisation or build",
    ),
    _fallback(
        "unused-tensor", r"model has unused tensor", "the file holds more than this build uses: a newer build may"
    ),
    _fallback(
        "override-ignored",
        r"Bad metadata override type for key",
        'write the type that the key has, for instance override-kv = "KEY=int:8"',
    ),
    _fallback("no-mmap", r"mmap is not (?:supported on this platform|available)", 'set load-mode = "none"'),
    _fallback(
        "no-direct-io", r"[Ff]alling back to buffered I/?O", "the file system lacks direct reads: expect a slower load"
    ),
    _fallback(
        "no-mlock", r"failed to mlock|mlock not supported", "raise the limit of locked memory: ulimit -l unlimited"
    ),
    _fallback("no-read-ahead", r"posix_[mf]advise\(.*failed|madvise\(.*failed", 'set load-mode = "none"'),
    _fallback(
        "no-pinned-memory",
        r"failed to allocate [\d.]+ MiB of pinned memory",
        "copies from host memory are slower: raise the limit of locked memory, or free host memory",
    ),
    _fallback(
        "no-pipeline-memory",
        r"compute buffer allocation failed, retrying without pipeline parallelism",
        "free memory on the devices (ubatch-size, ctx-size), or accept that prompt batches do not overlap",
    ),
    _fallback("no-graph-reuse", r"graph reuse disabled", "unset LLAMA_GRAPH_REUSE_DISABLE"),
    _fallback(
        "fa-elsewhere",
        r"is assigned to device \S+ but (?:Flash Attention|\S+(?: \S+)*) is assigned to device",
        'attention leaves the layer\'s device: try flash-attn = "on", another cache type, or kv-offload',
    ),
    _fallback(
        "no-flash-attention",
        r"Flash Attention not supported, set to disabled|Flash Attention was auto, set to disabled"
        r"|flash_attn is not compatible .* forcing off",
        'the device has no kernel for this head size or cache type: compare with flash-attn = "off" knowingly',
    ),
    _fallback(
        "fa-converts-cache",
        r"no FlashAttention vector kernel compiled for K/V types",
        "use equal cache types, or build with GGML_CUDA_FA_ALL_QUANTS=ON (newer: name the pair in GGML_CUDA_FA_QUANTS)",
    ),
    _fallback("v-cache-padded", r"V embeddings have different sizes .* padding V cache", 'set flash-attn = "on"'),
    _fallback(
        "no-tensor-cores", r"suboptimal performance due to a lack of tensor cores", "expect slow prompts on this GPU"
    ),
    _fallback("no-cuda-graphs", r"disabling CUDA graphs due to", "each operation is launched one by one on this GPU"),
    _fallback(
        "no-nccl",
        r"NCCL (?:not compiled in|init failed|disabled).*falling back|internal AllReduce init failed",
        "split-mode tensor exchanges by a slower way: build with NCCL",
    ),
    _fallback("memory-unreadable", r"cudaMemGetInfo failed", "free memory on this GPU is not known: leave more margin"),
    _fallback(
        "compute-buffer-grew",
        r"compute buffer size of .* does not match expectation",
        "memory predicted from the load is too low: leave more margin",
    ),
    _fallback(
        "context-beyond-training", r"n_ctx_seq \(\d+\) > n_ctx_train|exceeds the training context", "lower ctx-size"
    ),
    _fallback("context-rounded", r"n_ctx is not divisible by n_seq_max", "make ctx-size a multiple of parallel × 256"),
    _fallback(
        "no-context-shift", r"KV cache shifting is not supported|ctx_shift is not supported", "drop context-shift"
    ),
    _fallback(
        "no-cache-reuse",
        r"cache_reuse is not supported|cache reuse is not supported",
        "drop cache-reuse: prompts that differ in the middle are processed again",
    ),
    _fallback("no-full-swa", r"swa_full is not supported", "drop swa-full"),
    _fallback(
        "no-idle-slot-cache", r"--cache-idle-slots requires --cache-ram", "drop cache-idle-slots, or set cache-ram"
    ),
    _fallback("slot-context-capped", r"--kv-unified-per-slot .* exceeds", "raise ctx-size or drop kv-unified-per-slot"),
    _fallback(
        "smaller-batches",
        r"failed to find free space in the KV cache, retrying with smaller batch size",
        "prompts ran in smaller batches than asked: raise ctx-size or lower parallel",
    ),
    _fallback("context-shifted", r"slot context shift, n_keep", "text was dropped from the context: raise ctx-size"),
    _fallback(
        "checkpoint-erased",
        r"erasing old context checkpoint",
        "states to return to were thrown away: raise ctx-checkpoints, or expect whole prompts to run again",
    ),
    _fallback(
        "full-reprocessing",
        r"forcing full prompt re-processing",
        "such a request is cold: keep it apart from warm ones; raise ctx-checkpoints or lower checkpoint-min-step",
    ),
    _fallback(
        "no-backend-sampling",
        r"cannot be offloaded to the backend|backend sampling not supported",
        "drop backend-sampling",
    ),
    _fallback("no-speculation", r"speculative decoding not supported by this context", "drop the spec-* flags"),
    _fallback(
        "no-rollback",
        r"n_rs_seq ?= ?\d+ requested .* clamping to 0|disabling rollback snapshots",
        "drafts are undone by whole checkpoints: compare speculation only within this build",
    ),
    _fallback("draft-clamped", r"requested draft size .* exceeds the trained block size", "lower spec-draft-n-max"),
    _fallback(
        "draft-on-host",
        r"backend offload failed for seq_id",
        "drafts are sampled on the host: drop spec-draft-backend-sampling",
    ),
    _fallback("numa-balancing", r"numa_balancing is enabled", "echo 0 > /proc/sys/kernel/numa_balancing"),
    _fallback(
        "too-many-threads", r"cplan requested more threads", "lower threads to the cores that the server may use"
    ),
    _fallback("too-few-cores", r"Not enough set bits in CPU mask", "give cpu-mask as many cores as threads"),
    _fallback(
        "config-file",
        r"using config file: ",
        "empty it, or set XDG_CONFIG_HOME to an empty folder: it sets flags that nobody sees",
    ),
)


def find_fallbacks(lines: Iterable[LogLine]) -> tuple[Caveat, ...]:
    """Return what the server gave up, each once, with the first line that says so quoted, and how often it came."""
    reports = [line.text for line in lines if _reports(line)]
    joined = "\n".join(reports)
    ends = list(accumulate(len(text) + 1 for text in reports))
    caveats = []
    for fallback in FALLBACKS:
        found = sorted({bisect_right(ends, match.start()) for match in fallback.pattern.finditer(joined)})
        if found:
            times = f" ({len(found)} times)" if len(found) > 1 else ""
            caveats.append(Caveat(fallback.code, quote(reports[found[0]]) + times, fallback.remedy))
    return tuple(caveats)


def _reports(line: LogLine) -> bool:
    """Whether a line is the server's own report, not text from the model's file, a prompt or an answer."""
    if line.message.startswith("- kv ") or (line.level == "D" and not line.owner):
        return False
    return not line.follows or line.text.startswith("warning: ")
