"""Fewer steps for drawing, with the area under them unchanged and the extremes kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Steps:
    """A quantity that is constant between edges.

    Attributes:
        edges_ns: Monotonic times, shape (steps + 1,), int64.
        mean: Mean over each step, shape (steps,); NaN where nothing was observed.
        low: Smallest value that was merged into the step, shape (steps,).
        high: Largest.
    """

    edges_ns: NDArray[np.int64]
    mean: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


def thin_steps(
    edges_ns: NDArray[np.int64],
    value: NDArray[np.float64],
    bins: int,
    whole: Sequence[tuple[int, int]] = (),
) -> Steps:
    """Merge neighbouring steps into about `bins` of equal length.

    The merged edges are a subset of the given ones, so the sum of mean times length over any run of merged steps is
    that of the steps they replace. Steps that were not observed (NaN) are never merged with steps that were.

    Args:
        edges_ns: Edges, shape (steps + 1,), int64, strictly increasing; empty for no steps.
        value: Values between them, shape (steps,); NaN for not observed.
        bins: How many steps to aim for.
        whole: Intervals in which every edge stays.
    """
    if value.size <= bins:
        return Steps(edges_ns, value, value, value)
    ticks_ns = np.linspace(edges_ns[0], edges_ns[-1], bins + 1)
    borders = np.flatnonzero(np.diff(np.isnan(value).astype(np.int8))) + 1
    kept = [
        np.arange(np.searchsorted(edges_ns, begin_ns, "left"), np.searchsorted(edges_ns, end_ns, "right"))
        for begin_ns, end_ns in whole
    ]
    picked = np.unique(np.concatenate([np.searchsorted(edges_ns, ticks_ns), borders, *kept, [0, value.size]]))
    picked = picked.astype(np.intp)
    first, picked_ns = picked[:-1], edges_ns[picked]
    area = np.add.reduceat(value * np.diff(edges_ns), first)
    return Steps(
        picked_ns, area / np.diff(picked_ns), np.minimum.reduceat(value, first), np.maximum.reduceat(value, first)
    )
