"""How figures are written for people: digits, units, spreads, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence

from k3prof.core.idle import Parallelism
from k3prof.core.summary import Spread
from k3prof.core.trial import Caveat, Outcome, TrialStatus

UNKNOWN = "unknown"


def rate(tokens_per_s: float | None) -> str:
    """Return tokens per second without the unit: `7.14`, `33.31`, `722.1`."""
    if tokens_per_s is None:
        return UNKNOWN
    return f"{tokens_per_s:.2f}" if tokens_per_s < 100 else f"{tokens_per_s:,.1f}"


def rate_with_unit(spread: Spread | None) -> str:
    """Return the median rate for running text: `33.31 tok/s`, `rate unknown`."""
    return "rate unknown" if spread is None else f"{rate(spread.median)} tok/s"


def rate_range(spread: Spread | None) -> str:
    """Return the smallest to the largest rate: `32.80–33.41`; empty for a single repetition."""
    if spread is None or spread.n < 2:
        return ""
    return f"{rate(spread.low)}–{rate(spread.high)}"


def repetitions(spread: Spread | None) -> str:
    """Return over how many repetitions a figure was taken: `n=3`."""
    return "" if spread is None else f"n={spread.n}"


def times_best(relative: float | None) -> str:
    """Return a rate over the best one's: `0.87×`."""
    return "" if relative is None else f"{relative:.2f}×"


def share(frac: float | None) -> str:
    """Return a busy share: `0.28`."""
    return UNKNOWN if frac is None else f"{frac:.2f}"


def degree(parallelism: Parallelism | None) -> str:
    """Return P without its interval: `0.74`."""
    return UNKNOWN if parallelism is None else f"{parallelism.degree:.2f}"


def interval(parallelism: Parallelism | None) -> str:
    """Return P's 90 % interval: `[0.72, 0.76]`; empty when it has none."""
    if parallelism is None or parallelism.low is None or parallelism.high is None:
        return ""
    return f"[{parallelism.low:.2f}, {parallelism.high:.2f}]"


def seconds(duration_s: float | None) -> str:
    """Return a duration: `2.1 s`, `4 min 07 s`, `1 h 02 min`."""
    if duration_s is None:
        return UNKNOWN
    if duration_s < 59.95:
        return f"{duration_s:.1f} s"
    minutes, rest = divmod(round(duration_s), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def resolution(period_ns: float) -> str:
    """Return a counter's period: `1 ns`, `20 µs`, `5 ms`, `2.5 s`."""
    for unit, unit_ns in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if period_ns >= unit_ns:
            return f"{period_ns / unit_ns:.3g} {unit}"
    return f"{period_ns:.3g} ns"


def usd(amount: float) -> str:
    """Return an amount of money: `$0.012`, `$4.20`."""
    return f"${amount:,.2f}" if amount >= 1 else f"${amount:.3f}"


def count(n: int, noun: str) -> str:
    """Return a number with its noun: `1 caveat`, `3 caveats`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def standing(outcome: Outcome) -> str:
    """Return how a trial ended, in a few words: `failed: out of memory`; empty when all went well."""
    if outcome.status is TrialStatus.OK:
        return ""
    return f"{outcome.status}: {outcome.failure}" if outcome.failure else str(outcome.status)


def note_of_caveats(caveats: Sequence[Caveat]) -> str:
    """Return how many reasons there are to doubt a row: `2 caveats`; empty for none."""
    return count(len(caveats), "caveat") if caveats else ""
