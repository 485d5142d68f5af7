"""What ladders show: the words, tables and plain data that all formats share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from k3prof.core.ladder import (
    CONFIDENCE,
    SATURATED_GAIN_FRAC,
    DepthLadder,
    DepthLevel,
    Slope,
    StreamsLadder,
    StreamsLevel,
    depth_ladders,
    gains,
    streams_ladders,
)
from k3prof.core.layout.context_cost import ContextCost
from k3prof.core.summary import PlacementSummary, Spread
from k3prof.core.trial import TrialStatus, Workload
from k3prof.reporters import formats
from k3prof.reporters.ledger_tables import milliseconds

STREAMS_COLUMNS = ("streams", "tok/s", "min–max", "n", "per stream", "scaling", "efficiency", "time to first token")
DEPTH_COLUMNS = ("depth", "mean context", "ms per token", "min–max", "n")
STREAMS_LEGEND = (
    "tok/s: all streams together, median over n repetitions. Scaling: that over the first level's. Efficiency: scaling "
    "over how many times as many streams there are. All levels run on one server, which has as many slots as the "
    "widest level that it is asked for has streams, with prompts that it has not seen before."
)
DEPTH_LEGEND = (
    "Measured: the slope of a straight line through the levels' medians, by least squares, with its 90 % interval "
    "(Student's t over levels, since the repetitions of one share what the machine was doing then), right as far as "
    "the cost rises in a straight line. Predicted: the bytes of KV cache that a token of context adds to each step, "
    "over the memory bandwidth of the devices where they lie; a lower bound, since computing attention takes time "
    "too. Mean context: the tokens before a computed one, on average; a prompt is computed from its first token on, "
    "depth included."
)

Row = tuple[str, ...]


@dataclass(frozen=True)
class LadderSection:
    """What is said of one ladder of one placement.

    Attributes:
        title: `tg128 by streams`.
        columns: The headings.
        rows: One per level.
        finding: What it shows, in one sentence.
        ladder: The ladder, to draw it.
    """

    title: str
    columns: Row
    rows: tuple[Row, ...]
    finding: str
    ladder: StreamsLadder | DepthLadder


def ladder_sections(summary: PlacementSummary) -> tuple[LadderSection, ...]:
    """Return what is said of a placement's ladders, by streams first; nothing unless it ran as asked, to its end."""
    if summary.outcome.status is not TrialStatus.OK:
        return ()
    return (
        *(_streams_section(one) for one in streams_ladders(summary)),
        *(_depth_section(one, summary.context_cost) for one in depth_ladders(summary)),
    )


def legends(sections: Sequence[LadderSection]) -> Iterator[str]:
    """Yield what the tables' columns mean, of the kinds of ladders that there are."""
    if any(isinstance(one.ladder, StreamsLadder) for one in sections):
        yield STREAMS_LEGEND
    if any(isinstance(one.ladder, DepthLadder) for one in sections):
        yield DEPTH_LEGEND


def _streams_section(ladder: StreamsLadder) -> LadderSection:
    first = ladder.levels[0].workload
    of = Workload("tg", first.tokens, first.depth)
    rows = tuple(_streams_row(one) for one in ladder.levels)
    return LadderSection(f"{of.name} by streams", STREAMS_COLUMNS, rows, saturation(ladder), ladder)


def _streams_row(level: StreamsLevel) -> Row:
    return (
        f"x{level.workload.streams}",
        formats.rate(level.rate.median if level.rate else None),
        formats.rate_range(level.rate),
        str(level.rate.n) if level.rate else "",
        formats.rate(level.per_stream),
        formats.UNKNOWN if level.scaling is None else f"{level.scaling:.2f}×",
        formats.UNKNOWN if level.efficiency_frac is None else _percent(level.efficiency_frac),
        formats.UNKNOWN if level.ttft_ms is None else f"{level.ttft_ms.median:,.0f} ms",
    )


def saturation(ladder: StreamsLadder) -> str:
    """Return where a ladder saturates, as a sentence."""
    steps = list(gains(ladder.levels))
    if not steps:
        return "Where it saturates is not known: fewer than two levels were measured."
    least, saturated = _percent(SATURATED_GAIN_FRAC), ladder.saturated_after
    if saturated is None:
        before, last, gain = steps[-1]
        return (
            f"It does not saturate up to x{last.streams}, which gains {100 * gain:.1f} % over x{before.streams} "
            f"(at least {least}, by medians over repetitions)."
        )
    later = [
        f"x{level.streams} {100 * gain:.1f} %" for before, level, gain in steps if before.streams >= saturated.streams
    ]
    return (
        f"It saturates after x{saturated.streams}: from there on a level gains less than {least} over the one before "
        f"({', '.join(later)}, by medians over repetitions)."
    )


def _depth_section(ladder: DepthLadder, cost: ContextCost | None) -> LadderSection:
    first = ladder.levels[0].workload
    of = Workload(first.kind, first.tokens, streams=first.streams)
    rows = tuple(_depth_row(one) for one in ladder.levels)
    return LadderSection(f"{of.name} by depth", DEPTH_COLUMNS, rows, slopes(ladder, cost), ladder)


def _depth_row(level: DepthLevel) -> Row:
    ms = level.ms_per_token
    return (
        f"{level.workload.depth:,}",
        f"{level.mean_context:,.0f}",
        milliseconds(ms.median if ms else None),
        f"{milliseconds(ms.low)}–{milliseconds(ms.high)}" if ms and ms.n > 1 else "",
        str(ms.n) if ms else "",
    )


def slopes(ladder: DepthLadder, cost: ContextCost | None) -> str:
    """Return what 1,000 tokens of context cost, measured and predicted, as a sentence."""
    if ladder.predicted_ms is None:
        predicted = f"predicted {formats.UNKNOWN}, since {ladder.unknown}"
    else:
        predicted = f"predicted at least {_small(ladder.predicted_ms)} ms"
        if cost is not None:
            predicted += f" ({cost.n_bytes:,} bytes of KV cache per token on {', '.join(cost.bytes_by_device)})"
    return f"1,000 tokens of context add to each token: measured {_measured(ladder.slope)}; {predicted}."


def _measured(slope: Slope | None) -> str:
    if slope is None:
        return f"{formats.UNKNOWN}, since fewer than two levels were measured"
    if slope.low is None or slope.high is None:
        return f"{_small(slope.ms)} ms, its interval {formats.UNKNOWN} with {formats.count(slope.levels, 'level')}"
    within = ", which holds 0" if slope.low <= 0 <= slope.high else ""
    return f"{_small(slope.ms)} ms [{_small(slope.low)}, {_small(slope.high)}]{within}"


def _percent(frac: float) -> str:
    return f"{100 * frac:.0f} %"


def _small(ms: float) -> str:
    return f"{ms:.3g}"


def as_json(summary: PlacementSummary) -> dict[str, Any]:
    """Return a placement's ladders as plain data: null for what is not known, nothing rounded."""
    cost = summary.context_cost
    return {
        "by_streams": [_streams_json(one) for one in streams_ladders(summary)],
        "by_depth": [_depth_json(one) for one in depth_ladders(summary)],
        "context_cost": None
        if cost is None
        else {"kv_bytes_per_token": dict(cost.bytes_by_device), "gb_per_s": dict(cost.gb_per_s)},
    }


def _streams_json(ladder: StreamsLadder) -> dict[str, Any]:
    return {
        "levels": [
            {
                "workload": one.workload.name,
                "streams": one.workload.streams,
                "rate_tok_per_s": _spread(one.rate),
                "rate_per_stream_tok_per_s": one.per_stream,
                "scaling": one.scaling,
                "efficiency_frac": one.efficiency_frac,
                "ttft_ms": _spread(one.ttft_ms),
            }
            for one in ladder.levels
        ],
        "saturated_after": ladder.saturated_after.name if ladder.saturated_after else None,
        "saturated_below_gain_frac": SATURATED_GAIN_FRAC,
    }


def _depth_json(ladder: DepthLadder) -> dict[str, Any]:
    slope = ladder.slope
    return {
        "levels": [
            {
                "workload": one.workload.name,
                "depth": one.workload.depth,
                "mean_context_tokens": one.mean_context,
                "ms_per_token": _spread(one.ms_per_token),
            }
            for one in ladder.levels
        ],
        "measured_ms_per_1000_tokens": None
        if slope is None
        else {
            "slope": slope.ms,
            "low": slope.low,
            "high": slope.high,
            "confidence": CONFIDENCE,
            "levels": slope.levels,
        },
        "predicted_ms_per_1000_tokens": ladder.predicted_ms,
        "prediction_unknown": ladder.unknown or None,
    }


def _spread(spread: Spread | None) -> dict[str, Any] | None:
    return None if spread is None else asdict(spread)
