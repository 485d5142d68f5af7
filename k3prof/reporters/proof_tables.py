"""What a trial's log proves, as tables: asked against done, and memory predicted against memory allocated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from k3prof.core.evidence.check import Agreement
from k3prof.core.evidence.loaded import BufferKind
from k3prof.core.evidence.proof import MemoryTerm, Proof
from k3prof.reporters import formats

CHECK_COLUMNS = ("flag", "asked", "done", "")
MEMORY_LEGEND = (
    "MiB. ✓: predicted from the model's header before the server started, and allocated just so, to 0.01 MiB. "
    "Compute and output buffers are not predicted here."
)
AGREES = "✓"

Row = tuple[str, ...]


def check_rows(proof: Proof) -> tuple[Row, ...]:
    """Return one row of `CHECK_COLUMNS` per thing asked, what differs first and what the log does not tell last."""
    order = (Agreement.DIFFERS, Agreement.SAME, Agreement.UNKNOWN)
    checks = sorted(proof.certificate.checks, key=lambda check: order.index(check.agreement))
    return tuple(
        (check.name, check.asked, check.done or formats.UNKNOWN, _verdict(check.agreement, check.reason))
        for check in checks
    )


def memory_columns(proof: Proof) -> Row:
    """Return the headings of `memory_rows`."""
    return ("device", *_kinds(proof.memory))


def memory_rows(proof: Proof) -> tuple[Row, ...]:
    """Return one row per device: what it holds of each kind, and whether that was predicted."""
    terms = {(term.device, term.kind): term for term in proof.memory}
    devices = dict.fromkeys(term.device for term in proof.memory)
    kinds = _kinds(proof.memory)
    return tuple((device, *(_cell(terms.get((device, kind))) for kind in kinds)) for device in devices)


def memory_word(proof: Proof, device: str) -> str:
    """Return what a device holds in all, in MiB, and how its terms compare: `76.5 ✓`, `80.0 not as predicted`."""
    terms = [term for term in proof.memory if term.device == device]
    if not terms:
        return ""
    if any(term.actual_mib is None for term in terms):
        return formats.UNKNOWN
    total = f"{sum(term.actual_mib or 0.0 for term in terms):,.1f}"
    agreements = [term.agrees for term in terms if term.predicted_mib is not None]
    if False in agreements:
        return f"{total} not as predicted"
    return f"{total} {AGREES}" if agreements else total


def as_json(proof: Proof) -> dict[str, Any]:
    """Return the proof as `json.dumps` takes it."""
    return {
        "checks": [asdict(check) for check in proof.certificate.checks],
        "memory": [{**asdict(term), "agrees": term.agrees} for term in proof.memory],
    }


def _kinds(terms: Sequence[MemoryTerm]) -> tuple[BufferKind, ...]:
    present = {term.kind for term in terms}
    return tuple(kind for kind in BufferKind if kind in present)


def _cell(term: MemoryTerm | None) -> str:
    if term is None:
        return ""
    actual = formats.UNKNOWN if term.actual_mib is None else f"{term.actual_mib:,.2f}"
    if term.agrees:
        return f"{actual} {AGREES}"
    return actual if term.predicted_mib is None else f"{actual}, predicted {term.predicted_mib:,.2f}"


def _verdict(agreement: Agreement, reason: str) -> str:
    words = {Agreement.SAME: AGREES, Agreement.DIFFERS: "differs", Agreement.UNKNOWN: "not in the log"}
    return ": ".join(filter(None, [words[agreement], reason]))
