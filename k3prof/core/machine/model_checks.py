"""A model's weights held against the memory that is free: what cannot fit, before anything is loaded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from k3prof.core.machine.diagnosis import Finding, Level, gigabytes

_TIGHT_FRAC = 0.9


@dataclass(frozen=True)
class FreeMemory:
    """What is free now.

    Attributes:
        host_bytes: On the host; None when not known.
        gpu_bytes: On each GPU, by name; None when not known.
    """

    host_bytes: int | None
    gpu_bytes: Sequence[tuple[str, int | None]] = ()


def check_model(model_bytes: int, free: FreeMemory) -> Finding:
    """Say whether a model's weights can be held, as far as sums of bytes tell.

    A sum proves only what does not fit: layers come in pieces, and caches and compute buffers come on top.

    Args:
        model_bytes: All its tensors.
        free: The memory.
    """
    known = [(name, n_bytes) for name, n_bytes in free.gpu_bytes if n_bytes is not None]
    if len(known) < len(free.gpu_bytes):
        return _unknown(model_bytes, "a GPU does not tell how much memory is free")
    if not known:
        return _on_stand_ins(model_bytes, free.host_bytes)
    on_gpus = sum(n_bytes for _, n_bytes in known)
    if model_bytes > on_gpus:
        return _on_host_too(model_bytes, on_gpus, free.host_bytes)
    return _on_gpus(model_bytes, known)


def _on_stand_ins(model_bytes: int, host_bytes: int | None) -> Finding:
    if host_bytes is None:
        return _unknown(model_bytes, "the kernel does not tell how much memory is free")
    if model_bytes > host_bytes:
        return Finding(
            Level.PROBLEM,
            "model",
            f"{gigabytes(model_bytes)} of weights, {gigabytes(host_bytes)} of memory free: stand-ins hold their layers "
            "in memory",
            "take a smaller model: --model demo:k3; --devices cpu reads from disk what does not fit, for every token",
        )
    if model_bytes > _TIGHT_FRAC * host_bytes:
        return Finding(
            Level.WARNING,
            "model",
            f"{gigabytes(model_bytes)} of weights in {gigabytes(host_bytes)} of free memory: little is left for caches",
            "stop what takes memory, or lower ctx-size",
        )
    return Finding(Level.OK, "model", f"{gigabytes(model_bytes)} of weights, {gigabytes(host_bytes)} of memory free")


def _on_host_too(model_bytes: int, on_gpus: int, host_bytes: int | None) -> Finding:
    rest = model_bytes - on_gpus
    if host_bytes is None:
        return _unknown(model_bytes, "the kernel does not tell how much memory is free")
    if rest > host_bytes:
        return Finding(
            Level.WARNING,
            "model",
            f"{gigabytes(model_bytes)} of weights; {gigabytes(on_gpus)} free on the GPUs, {gigabytes(host_bytes)} on "
            "the host: the rest comes from disk, again and again",
            "take a smaller quantisation, or a machine with more memory",
        )
    return Finding(
        Level.NOTE,
        "model",
        f"{gigabytes(model_bytes)} of weights, {gigabytes(on_gpus)} free on the GPUs: at least {gigabytes(rest)} stay "
        "on the host and set the pace",
        "compare n-cpu-moe and override-tensor: `k3prof predict` counts the bytes of each device",
    )


def _on_gpus(model_bytes: int, known: Sequence[tuple[str, int]]) -> Finding:
    roomiest, most = max(known, key=lambda gpu: gpu[1])
    fullest, least = min(known, key=lambda gpu: gpu[1])
    if len(known) > 1 and model_bytes <= most:
        return Finding(
            Level.NOTE,
            "model",
            f"{gigabytes(model_bytes)} of weights may fit on one GPU, which is often faster than several",
            f'measure that too: device = "{roomiest}" under [flags] of one placement',
        )
    share = model_bytes / len(known)
    if share > least:
        return Finding(
            Level.NOTE,
            "model",
            f"an even split puts {gigabytes(share)} on each GPU; {fullest} has {gigabytes(least)} free",
            "give it less with tensor-split: `k3prof predict` counts the bytes of each device",
        )
    return Finding(
        Level.OK,
        "model",
        f"{gigabytes(model_bytes)} of weights, {gigabytes(share)} on each GPU; the fullest has {gigabytes(least)} free",
    )


def _unknown(model_bytes: int, reason: str) -> Finding:
    return Finding(
        Level.NOTE,
        "model",
        f"whether {gigabytes(model_bytes)} of weights fit is unknown: {reason}",
        "watch the first load: the server says where it ran out of memory",
    )
