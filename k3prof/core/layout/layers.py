"""Which device each layer goes to, by llama.cpp's own arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

_ALMOST = 1e-3
"""Free memory of equal GPUs differs by about as much from one start to the next."""


def layer_devices(n_layers: int, shares: Sequence[float], gpu_layers: int | None = None) -> tuple[int | None, ...]:
    """Return which device each layer lives on (`load_tensors` in src/llama-model.cpp, all of it in float32).

    The output layer counts as one more, the last. If not all are to be offloaded, the first stay on the host.

    Args:
        n_layers: Layers of the model, MTP layers included.
        shares: One per device: what `--tensor-split` says, or each device's free memory; only proportions count.
        gpu_layers: Layers to offload, the output layer counted; None for all.

    Returns:
        For layers 0 to `n_layers`: the device's index in `shares`, or None for the host.
    """
    total = n_layers + 1
    offloaded = min(total if gpu_layers is None else max(gpu_layers, 0), total)
    if not shares or not offloaded:
        return (None,) * total
    splits = _split_points(shares)
    # `upper_bound`: the first split point above the layer's place.
    places = np.arange(offloaded, dtype=np.float32) / np.float32(offloaded)
    chosen = np.searchsorted(splits, places, side="right")
    return (None,) * (total - offloaded) + tuple(int(index) for index in chosen)


def layers_at_a_boundary(n_layers: int, shares: Sequence[float], gpu_layers: int | None = None) -> tuple[int, ...]:
    """Return the layers that a slightly different share would send to the neighbouring device."""
    first = n_layers + 1 - min(n_layers + 1 if gpu_layers is None else max(gpu_layers, 0), n_layers + 1)
    offloaded = n_layers + 1 - first
    boundaries = _split_points(shares)[:-1].astype(float) * offloaded if shares else np.zeros(0)
    return tuple(
        first + round(boundary)
        for boundary in boundaries
        if 0 < round(boundary) < offloaded and abs(boundary - round(boundary)) < _ALMOST * offloaded
    )


def _split_points(shares: Sequence[float]) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    sums = np.zeros(len(shares), dtype=np.float32)
    running = np.float32(0)
    for index, share in enumerate(shares):
        running += np.float32(share)
        sums[index] = running
    return sums / running
