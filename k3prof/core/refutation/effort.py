"""What testing hypotheses takes: the time of legs that were run, and from it the time of those to come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import fmean

from k3prof.core.refutation.gather import Leg


def leg_seconds(leg: Leg) -> float | None:
    """Return how long a leg took, from the start of its devices to the end; None when it was cut short."""
    trial = leg.measured.trial
    return None if trial.ended_ns is None else (trial.ended_ns - trial.started_ns) / 1e9


def total_seconds(legs: Iterable[Leg]) -> float:
    """Return how long rounds took together, from each one's first start to its last end.

    What is done between two legs counts, such as profiling ops; pauses between rounds, which may be days, do not.
    """
    rounds: dict[int, list[tuple[int, int]]] = {}
    for leg in legs:
        trial = leg.measured.trial
        if trial.ended_ns is not None:
            rounds.setdefault(leg.place.round, []).append((trial.started_ns, trial.ended_ns))
    return sum(max(end for _, end in spans) - min(begin for begin, _ in spans) for spans in rounds.values()) / 1e9


def expected_seconds(placements: Iterable[str], legs: Sequence[Leg]) -> float | None:
    """Return how long legs of these placements will probably take.

    Args:
        placements: One per leg to come. One that has run takes as long as its legs did on average, another one as long
            as all legs did.
        legs: Those that were run.

    Returns:
        Seconds; None while no leg has been run.
    """
    took: dict[str, list[float]] = {}
    for leg in legs:
        if (seconds := leg_seconds(leg)) is not None:
            took.setdefault(leg.place.placement, []).append(seconds)
    if not took:
        return None
    mean = fmean(seconds for some in took.values() for seconds in some)
    return sum(fmean(took[name]) if name in took else mean for name in placements)
