"""The ways in which a llama.cpp server fails, as its log tells them: a table, the most telling causes first.

Messages were read in the source of llama.cpp (commit 0c1e57098) and provoked from its programs; those of GPUs come
from the source and from public reports.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from k3prof.core.trial import Failure


@dataclass(frozen=True)
class Cause:
    """One way to fail.

    Attributes:
        pattern: What the log says; searched in all its messages, one a line.
        failure: The kind of failure.
        message: What to tell the person; `{name}` stands for the pattern's group of that name.
    """

    pattern: re.Pattern[str]
    failure: Failure
    message: str


def _causes(failure: Failure, *rows: tuple[str, str]) -> tuple[Cause, ...]:
    return tuple(Cause(re.compile(pattern, re.MULTILINE), failure, message) for pattern, message in rows)


_REFUSED_BY = r'^error while handling (?:argument|environment variable) "(?P<what>[^"\n]+)": '
_GPU = r"(?:CUDA|ROCm|HIP|MUSA)"
_MALLOC = r"(?:cuda|hip|musa)Malloc\w* failed"

CAUSES = (
    *_causes(
        Failure.REFUSED_FLAG,
        (r"^error: (?:invalid|unknown) argument: (?P<what>\S+)", "this build does not know {what}"),
        (_REFUSED_BY + r"sto(?:i|f|l|ul|ull)\b", "the value of {what} is not a number, or too large"),
        (_REFUSED_BY + r"(?:error: )?(?P<why>[^\n]+)", "the build refuses {what}: {why}"),
        (r"^error: unknown device: (?P<what>\S+)", "there is no device {what}"),
        (r"^error: (?P<why>(?:the argument|argument|--)[^\n]*)", "the build refuses the command line: {why}"),
    ),
    *_causes(
        Failure.PORT_TAKEN,
        (
            r"couldn't bind HTTP server socket, hostname: (?P<host>[^,\n]+), port: (?P<port>\d+)",
            "another process listens on {host}:{port}, or the address is not this machine's",
        ),
        (
            r"^Failed to create server socket|couldn't bind|[Aa]ddress already in use",
            "the address is taken, or is not this machine's",
        ),
    ),
    *_causes(
        Failure.ASSERTION,
        (
            r"GGML_ASSERT\([^\n]*LLAMA_MAX_EXPERTS",
            "this build is too old: the model has more experts than it was compiled for (LLAMA_MAX_EXPERTS)",
        ),
    ),
    *_causes(
        Failure.OUT_OF_MEMORY,
        (
            rf"allocating (?P<mib>[\d.]+) MiB on device (?P<gpu>\d+): {_MALLOC}: out of memory",
            "GPU {gpu} has no room for {mib} MiB",
        ),
        (rf"{_GPU} error(?: \d+)?: out of memory", "a GPU ran out of memory while it worked"),
        (_MALLOC, "a GPU has not enough free memory"),
        (
            r"ErrorOutOf(?:Device|Host)Memory|OutOf(?:Device|Host)MemoryError",
            "a device has not enough free memory",
        ),
        (
            r"insufficient memory \(attempted to allocate +(?P<mib>[\d.]+) MB\)",
            "the host, or the processor behind a stand-in, has no room for {mib} MiB",
        ),
        (
            r"failed to allocate (?P<where>(?!buffer|compute|graph|output)\S+) buffer of size (?P<bytes>\d+)",
            "no room for {bytes} bytes on {where}",
        ),
        (r"unable to allocate (?P<where>\S+) buffer", "no room for the weights on {where}"),
        (
            r"failed to allocate (?:compute (?:pp |tg )?buffers|buffer (?:of size|for)|output buffer|graph)"
            r"|Failed to allocate input buffer|std::bad_alloc|[Cc]annot allocate memory"
            r"|failed to map segment from shared object",
            "there is not enough memory",
        ),
    ),
    *_causes(
        Failure.CRASHED,
        (
            r"error while loading shared libraries: (?P<what>[^:\s]+): cannot open",
            "the build's library {what} is missing on this machine",
        ),
        (
            r"no kernel image is available",
            "the build has no kernels for this GPU: compile it for its compute capability",
        ),
    ),
    *_causes(
        Failure.DEVICE_LOST,
        (r"Failed to connect to (?P<what>\S+)", "no ggml-rpc-server answers at {what}"),
        (r"RPC handshake failed for (?P<what>\S+)", "{what} answers, but not as a ggml-rpc-server"),
        (
            r"RPC server version mismatch",
            "server and ggml-rpc-server are of two versions: start both from one build",
        ),
        (
            r"Remote RPC server crashed or returned malformed response",
            "a ggml-rpc-server died or broke the connection while it was in use",
        ),
        (
            r"ErrorDeviceLost|DeviceLostError|GPU has fallen off the bus|uncorrectable (?:NVLink|ECC) error",
            "a GPU was lost while it worked: the kernel's log has Xid messages",
        ),
    ),
    *_causes(
        Failure.BAD_MODEL,
        (
            r"failed to open GGUF file '[^'\n]*' \((?P<why>[^)\n]+)\)",
            "the model's file cannot be opened: {why}",
        ),
        (r"invalid magic characters", "this is not a GGUF file"),
        (
            r"data is not within the file bounds|failed to read (?:magic|header|key-value pairs|tensor)"
            r"|model is corrupted or incomplete|unexpectedly reached end of file",
            "the model's file is cut off or damaged: compare its size and checksum with the source",
        ),
        (
            r"unknown model architecture: '(?P<what>[^'\n]+)'",
            "this build does not know the architecture {what}: a newer one may",
        ),
        (
            r"(?:missing tensor '|tensor ')(?P<what>[^'\n]+)'(?: not found)?$",
            "the model's file lacks {what}, which this build expects",
        ),
        (
            r"wrong number of tensors|has wrong shape|invalid ggml type|invalid split (?:file|count)"
            r"|illegal split file|key not found in model|failed to load GGUF split",
            "the model's file does not hold what this build expects",
        ),
    ),
    *_causes(
        Failure.REFUSED_FLAG,
        (
            r"LLAMA_SPLIT_MODE_TENSOR not implemented for architecture '(?P<what>[^'\n]+)'",
            "split-mode tensor does not work for {what}: use layer",
        ),
        (r"does not support split buffers", "split-mode row does not work on this device: use layer"),
        (
            r"does not support different K \((?P<k>\w+)\) and V \((?P<v>\w+)\) cache types",
            "this model wants one type for both caches: cache-type-k is {k}, cache-type-v is {v}",
        ),
        (
            r"(?:requires|needs) flash_attn to be enabled|cache type \w+ with block size \d+ does not divide"
            r"|invalid value for main_gpu|SPLIT_MODE_TENSOR needs|n_batch and n_ubatch cannot both be zero",
            "a setting does not fit this model or this machine",
        ),
    ),
    *_causes(
        Failure.ASSERTION,
        (r"GGML_ASSERT\((?P<what>[^\n]*)\) failed", "llama.cpp's own check failed: {what}"),
    ),
    *_causes(
        Failure.CRASHED,
        (rf"{_GPU} error(?: \d+)?: (?P<why>[^\n]+)", "a GPU operation failed: {why}"),
    ),
    *_causes(
        Failure.BAD_MODEL,
        (r"error loading model: (?P<why>[^\n]+)", "the model was refused: {why}"),
    ),
    *_causes(
        Failure.CRASHED,
        (r"failed to initialize the context: (?P<why>[^\n]+)", "the context could not be made: {why}"),
        (r"^ *what\(\): +(?P<why>[^\n]+)", "an exception was not caught: {why}"),
        (r"^\S+\.(?:cpp|c|cu|cuh|h|hpp|m):\d+: (?P<why>[^\n]+)", "llama.cpp gave up: {why}"),
    ),
)

SURVIVED = re.compile(r"pinned memory|will not use it|[Ff]alling back|register_host")
"""Lines that report a loss with which llama.cpp goes on."""

RETRIED = re.compile(r"retrying without pipeline parallelism|retrying with smaller batch size")
"""Lines that make the failed attempt just before them harmless."""

AFTERMATH = re.compile(
    r"failed to load model|failed to create.context|exiting due to|cleaning up before exit"
    r"|[Uu]nable to load model|failed to initialize HTTP"
)
"""Lines that only repeat that something failed before."""

SAVING_PROMPT = re.compile(r"prompt_save|saving prompt with length")
"""What the server says just before it copies a conversation's state into host memory."""
