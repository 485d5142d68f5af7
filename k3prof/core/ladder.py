"""What ladders show: how decode scales with streams, and what each token of context costs."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from k3prof.core.summary import PlacementSummary, Spread, WorkloadSummary, spread
from k3prof.core.trial import Workload

SATURATED_GAIN_FRAC = 0.10
"""A level that raises the aggregate by less than this gains nothing worth another stream."""
CONFIDENCE = 0.90


@dataclass(frozen=True)
class StreamsLevel:
    """One level of a streams ladder.

    Attributes:
        workload: What was asked.
        rate: Tokens per second of all streams together, over repetitions; None where no repetition counts.
        ttft_ms: Time to first token.
        scaling: Median rate over the first level's; None where either is not known.
        efficiency_frac: Scaling over how many times as many streams there are: 1 where no stream slows another.
    """

    workload: Workload
    rate: Spread | None
    ttft_ms: Spread | None
    scaling: float | None
    efficiency_frac: float | None

    @property
    def per_stream(self) -> float | None:
        """Median tokens per second of each stream."""
        return None if self.rate is None else self.rate.median / self.workload.streams


@dataclass(frozen=True)
class StreamsLadder:
    """One workload by rising number of streams.

    Attributes:
        levels: At least two.
        saturated_after: The first level from which on each step raises the median aggregate by less than
            `SATURATED_GAIN_FRAC`; None where the last step raises it by more, or fewer than two levels were measured.
    """

    levels: tuple[StreamsLevel, ...]
    saturated_after: Workload | None


@dataclass(frozen=True)
class DepthLevel:
    """One level of a depth ladder.

    Attributes:
        workload: What was asked.
        mean_context: Tokens that a computed token has before it, on average: see `mean_context`.
        ms_per_token: Milliseconds of a token of each stream, over repetitions; None where no repetition counts.
    """

    workload: Workload
    mean_context: float
    ms_per_token: Spread | None


@dataclass(frozen=True)
class Slope:
    """A straight line through the levels' medians, by least squares; in milliseconds per token per 1,000 of context.

    Attributes:
        ms: The slope.
        at_zero_ms: Where the line meets no context: milliseconds per token.
        low: Lower end of its interval at `CONFIDENCE`; None where there are fewer than three levels.
        high: Upper end.
        levels: How many levels it goes through.
    """

    ms: float
    at_zero_ms: float
    low: float | None
    high: float | None
    levels: int


@dataclass(frozen=True)
class DepthLadder:
    """One workload by rising depth.

    Attributes:
        levels: At least two.
        slope: What 1,000 tokens of context cost each token; None where fewer than two levels were measured.
        predicted_ms: The same by the traffic model, a lower bound; None where not known, and always for prefill,
            which computes more than it reads.
        unknown: Why it is not known; empty when it is.
    """

    levels: tuple[DepthLevel, ...]
    slope: Slope | None
    predicted_ms: float | None
    unknown: str


def mean_context(workload: Workload) -> float:
    """Return how many tokens a computed token has before it, on average.

    Generated tokens follow the depth. A prompt is processed from its first token on, depth included, so that its
    tokens have half of it before them.
    """
    if workload.kind == "tg":
        return workload.depth + workload.tokens / 2
    return (workload.depth + workload.tokens) / 2


def streams_ladders(summary: PlacementSummary) -> tuple[StreamsLadder, ...]:
    """Return a placement's decode workloads that differ in streams alone and stand at two levels or more."""
    groups: dict[Workload, list[WorkloadSummary]] = defaultdict(list)
    for one in summary.workloads:
        if one.workload.kind == "tg":
            groups[Workload("tg", one.workload.tokens, one.workload.depth)].append(one)
    return tuple(
        _streams_ladder(sorted(found, key=lambda one: one.workload.streams))
        for found in groups.values()
        if len(found) > 1
    )


def depth_ladders(summary: PlacementSummary) -> tuple[DepthLadder, ...]:
    """Return a placement's workloads that differ in depth alone and stand at two levels or more."""
    groups: dict[Workload, list[WorkloadSummary]] = defaultdict(list)
    for one in summary.workloads:
        level = one.workload
        groups[Workload(level.kind, level.tokens, streams=level.streams)].append(one)
    return tuple(
        _depth_ladder(sorted(found, key=lambda one: one.workload.depth), summary)
        for found in groups.values()
        if len(found) > 1
    )


def _streams_ladder(found: Sequence[WorkloadSummary]) -> StreamsLadder:
    first = found[0]

    def scaling(one: WorkloadSummary) -> float | None:
        if one.rate is None or first.rate is None:
            return None
        return one.rate.median / first.rate.median

    levels = []
    for one in found:
        times = scaling(one)
        more = one.workload.streams / first.workload.streams
        levels.append(StreamsLevel(one.workload, one.rate, one.ttft_ms, times, None if times is None else times / more))
    return StreamsLadder(tuple(levels), _saturated_after(levels))


def _saturated_after(levels: Sequence[StreamsLevel]) -> Workload | None:
    saturated = None
    for level, _, gain in reversed(list(gains(levels))):
        if gain >= SATURATED_GAIN_FRAC:
            break
        saturated = level
    return saturated


def gains(levels: Sequence[StreamsLevel]) -> Iterator[tuple[Workload, Workload, float]]:
    """Yield each two measured levels that follow each other, and by how much the second's median rate is higher."""
    known = [(level.workload, level.rate.median) for level in levels if level.rate is not None]
    for (level, rate), (following, higher) in itertools.pairwise(known):
        yield level, following, higher / rate - 1


def _depth_ladder(found: Sequence[WorkloadSummary], summary: PlacementSummary) -> DepthLadder:
    levels = tuple(
        DepthLevel(one.workload, mean_context(one.workload), spread(list(_ms_per_token(one)))) for one in found
    )
    points = [(one.mean_context, one.ms_per_token.median) for one in levels if one.ms_per_token is not None]
    predicted_ms, unknown = _predicted(found[0].workload, summary)
    return DepthLadder(levels, slope(points), predicted_ms, unknown)


def _ms_per_token(one: WorkloadSummary) -> Iterator[float]:
    for rate in one.rates:
        yield 1000 * one.workload.streams / rate


def _predicted(workload: Workload, summary: PlacementSummary) -> tuple[float | None, str]:
    if workload.kind == "pp":
        return None, "prefill computes more than it reads"
    cost = summary.context_cost
    if cost is None:
        return None, "the model's caches, or where they lie, are not known"
    if cost.of_unknown_speed:
        return None, f"the memory bandwidth of {', '.join(cost.of_unknown_speed)} is not known"
    return cost.ms_per_1000_tokens(workload.streams), ""


def slope(points: Sequence[tuple[float, float]]) -> Slope | None:
    """Fit a straight line through points (tokens of context, ms per token), each level a point.

    Its interval is Student's t on n - 2 degrees of freedom (ordinary least squares). Repetitions are not taken for
    points: those of one level follow each other, so that a machine that drifts between levels would look like a slope.

    Returns:
        None where the points do not stand at two depths at least.
    """
    context, ms = np.array(points, float).reshape(-1, 2).T
    if np.unique(context).size < 2:
        return None
    thousands = context / 1000
    centred, levels = thousands - thousands.mean(), len(points)
    spread_of_context = float(centred @ centred)
    estimate = float(centred @ ms) / spread_of_context
    at_zero_ms = float(ms.mean() - estimate * thousands.mean())
    if levels < 3:
        return Slope(estimate, at_zero_ms, None, None, levels)
    residuals = ms - at_zero_ms - estimate * thousands
    standard_error = math.sqrt(float(residuals @ residuals) / (levels - 2) / spread_of_context)
    half_width = float(stdtrit(levels - 2, (1 + CONFIDENCE) / 2)) * standard_error
    return Slope(estimate, at_zero_ms, estimate - half_width, estimate + half_width, levels)
