"""A device's busy share where splits were traced: exactly 0 or 1, and what a counter says elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from k3prof.core.spans import Spans, computing
from k3prof.core.timeline import Phase, PhaseKind

Interval = tuple[int, int]
Steps = tuple[NDArray[np.int64], NDArray[np.float64]]
"""Edges, shape (steps + 1,), and the share between them, shape (steps,)."""

_MEASURED = frozenset({PhaseKind.PREFILL, PhaseKind.DECODE})


def traced_stretches(phases: Sequence[Phase], spans: Spans) -> list[Interval]:
    """Return the measured phases in which anything was traced, in order of time.

    Phases of several streams may overlap; a later one then begins where the one before ends.
    """
    found: list[Interval] = []
    reached_ns = np.maximum.accumulate(spans.end_ns)
    for phase in sorted(phases, key=lambda one: one.begin_ns):
        begin_ns = max(phase.begin_ns, found[-1][1] if found else phase.begin_ns)
        before_end = int(np.searchsorted(spans.begin_ns, phase.end_ns))
        traced = before_end > 0 and int(reached_ns[before_end - 1]) > begin_ns
        if phase.kind in _MEASURED and traced and begin_ns < phase.end_ns:
            found.append((begin_ns, phase.end_ns))
    return found


def with_splits(
    sampled: Steps, work: Spans, device: str, stretches: Sequence[Interval]
) -> tuple[Steps, list[Interval]]:
    """Put a device's splits in the place of its counter, wherever all of them are known to have ended.

    Args:
        sampled: What the counter says.
        work: The device's spans.
        device: Its name.
        stretches: Where splits were traced, disjoint and in order.

    Returns:
        The steps (NaN where neither is known), and the stretches in which they are exact.
    """
    pieces: list[Steps] = []
    exact: list[Interval] = []
    edges_ns = sampled[0]
    reached_ns = int(edges_ns[0]) if edges_ns.size else None
    for begin_ns, end_ns in stretches:
        intervals = computing(work, device, begin_ns, end_ns)
        if intervals is None:
            continue
        if reached_ns is not None:
            pieces.append(_cut(sampled, reached_ns, begin_ns))
        pieces.append(_alternating(*intervals, begin_ns, end_ns))
        exact.append((begin_ns, end_ns))
        reached_ns = end_ns
    if reached_ns is not None and edges_ns.size:
        pieces.append(_cut(sampled, reached_ns, int(edges_ns[-1])))
    return _joined([piece for piece in pieces if piece[1].size]), exact


def cut_at(edges_ns: NDArray[np.int64], share: NDArray[np.float64], times_ns: NDArray[np.int64]) -> Steps:
    """Return the same steps with more edges, at times that lie within them."""
    step = np.searchsorted(edges_ns, times_ns, "right") - 1
    new = edges_ns[step] < times_ns
    return np.insert(edges_ns, step[new] + 1, times_ns[new]), np.insert(share, step[new] + 1, share[step[new]])


def _cut(steps: Steps, begin_ns: int, end_ns: int) -> Steps:
    edges_ns, share = steps
    first = max(int(np.searchsorted(edges_ns, begin_ns, "right")) - 1, 0)
    last = max(int(np.searchsorted(edges_ns, end_ns, "left")), first)
    return _without_empty(edges_ns[first : last + 1].clip(begin_ns, max(end_ns, begin_ns)), share[first:last])


def _alternating(begins_ns: NDArray[np.int64], ends_ns: NDArray[np.int64], begin_ns: int, end_ns: int) -> Steps:
    edges_ns = np.concatenate([[begin_ns], np.stack([begins_ns, ends_ns], axis=1).ravel(), [end_ns]])
    return _without_empty(edges_ns, np.arange(edges_ns.size - 1, dtype=np.float64) % 2)


def _without_empty(edges_ns: NDArray[np.int64], share: NDArray[np.float64]) -> Steps:
    kept = np.diff(edges_ns) > 0
    return np.concatenate([edges_ns[:-1][kept], edges_ns[-1:]]), share[kept]


def _joined(pieces: Sequence[Steps]) -> Steps:
    if not pieces:
        return np.empty(0, np.int64), np.empty(0)
    edges_ns, share = [pieces[0][0]], [pieces[0][1]]
    for more_ns, values in pieces[1:]:
        apart = more_ns[0] > edges_ns[-1][-1]
        edges_ns.append(more_ns if apart else more_ns[1:])
        share += [np.full(int(apart), np.nan), values]
    return np.concatenate(edges_ns), np.concatenate(share)
