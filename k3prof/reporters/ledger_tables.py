"""Where the time of a token went, and what would help: the words and tables that all formats share."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from k3prof.core.counterfactuals import Counterfactual, counterfactuals
from k3prof.core.ledger import Crossings, Ledger, LineKind
from k3prof.reporters import formats

LINE_COLUMNS = ("where", "ms per token", "share")
WHAT_IF_COLUMNS = ("if", "at most tok/s", "gain", "assuming")
LEGEND = (
    "Each moment of the client's time counts once. Devices: computing; a moment in which something computes is not "
    "counted as copying, and so on down the list. Scheduler: the rest of a forward pass. Sampling and HTTP: between "
    "two passes. Of what no record tells of, as much as is usual counts; the rest is unexplained: pauses, lost records."
)

Row = tuple[str, ...]


@dataclass(frozen=True)
class LedgerSection:
    """What a report says of one ledger.

    Attributes:
        title: `tg32: 20.0 ms per token, of which 0.16 % is unexplained`.
        lines: One row of `LINE_COLUMNS` per line, and their sum.
        remarks: What is to be known of the figures, and how a pass goes from device to device.
        helps: One row of `WHAT_IF_COLUMNS` per thing that would help, highest ceiling first.
        does_not_help: Likewise, of what would not.
    """

    title: str
    lines: tuple[Row, ...]
    remarks: tuple[str, ...]
    helps: tuple[Row, ...]
    does_not_help: tuple[Row, ...]


def ledger_section(found: Ledger) -> LedgerSection:
    """Return what a report says of a ledger."""
    what_if = counterfactuals(found)
    token = f"{milliseconds(found.token_ms)} ms per token"
    return LedgerSection(
        f"{found.workload.name}: {token}, of which {closes_by(found)} is unexplained",
        tuple(_lines(found)),
        tuple(_remarks(found)),
        tuple(_what_if(one) for one in what_if if one.helps),
        tuple(_what_if(one) for one in what_if if not one.helps),
    )


def milliseconds(ms: float | None) -> str:
    """Return milliseconds without the unit, to three digits or the microsecond: `20.0`, `1.57`, `0.009`."""
    if ms is None:
        return formats.UNKNOWN
    digits = 1 if abs(ms) >= 9.995 else 2 if abs(ms) >= 0.9995 else 3
    return f"{ms:,.{digits}f}"


def closes_by(found: Ledger) -> str:
    """Return how much of the token's time stands under no heading: `0.16 %`."""
    return f"{found.closes_by_frac * 100:.2f} %"


def path(found: Crossings) -> str:
    """Return in a sentence how a pass goes from device to device, naming the ping-pong where there is one."""
    splits, devices = formats.count(found.splits, "split"), formats.count(found.devices, "device")
    words = f"A pass has {splits} and {formats.count(found.handovers, 'hand-over')} between its {devices}"
    if found.returns:
        words += f", {found.returns} more than one way through needs: ping-pong"
    if found.returns and found.returns == 2 * (found.devices - 1):
        words += ". Each boundary is crossed there, back and there again, which a Kimi-K3's attention residuals cause"
    if found.host_turns:
        words += f". It goes to the host and back {formats.count(found.host_turns, 'time')}"
    return f"{words}."


def as_json(found: Ledger) -> dict[str, Any]:
    """Return a ledger as `json.dumps` takes it."""
    return {
        "workload": found.workload.name,
        "token_ms": found.token_ms,
        "tokens": found.tokens,
        "explained_ms": found.explained_ms,
        "closes_by_frac": found.closes_by_frac,
        "lines": [{**asdict(line), "kind": line.kind.value} for line in found.lines],
        "busy_ms_per_token": dict(found.busy_ms),
        "per_pass": asdict(found.crossings),
        "what_if": [{**asdict(one), "helps": one.helps} for one in counterfactuals(found)],
    }


def _lines(found: Ledger) -> Iterator[Row]:
    for line in found.lines:
        where = f"{line.name} (host)" if line.kind is LineKind.HOST_COMPUTE else line.name
        yield where, milliseconds(line.ms_per_token), _percent(line.share)
    yield "a token", milliseconds(found.token_ms), _percent(1.0)


def _remarks(found: Ledger) -> Iterator[str]:
    if not found.device_times_known:
        yield (
            "When devices had finished is unknown, for a light trace does not wait for them. Their time, copies and "
            "the scheduler's part cannot be told apart and stand as unexplained; trace with --splits exact."
        )
    if overlap_ms := found.ms(LineKind.AT_ONCE):
        yield f"{milliseconds(overlap_ms)} ms in which several devices computed at once are counted once, as `at once`."
    yield path(found.crossings)


def _what_if(one: Counterfactual) -> Row:
    gain = "without limit" if one.gain_frac is None else f"+{one.gain_frac * 100:.1f} %"
    return (
        one.name,
        "without limit" if one.tokens_per_s is None else formats.rate(one.tokens_per_s),
        gain,
        one.assumption,
    )


def _percent(share: float | None) -> str:
    return formats.UNKNOWN if share is None else f"{share * 100:.1f} %"
