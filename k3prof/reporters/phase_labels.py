"""Names for the stretches of a trial: repetitions of one workload share one label."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from k3prof.core.timeline import Phase, PhaseKind

_MEASURED = frozenset({PhaseKind.PREFILL, PhaseKind.DECODE})


@dataclass(frozen=True)
class Stretch:
    """Neighbouring phases under one label.

    Attributes:
        label: `load`, `warm-up`, `pp512 ×3`.
        full_label: The same with what it is: `prefill pp512 ×3`, `decode tg128`.
        begin_ns: Monotonic start of the first phase.
        end_ns: Monotonic end of the last.
        measured: Whether its figures count; false for loading, warm-up and idle time.
    """

    label: str
    full_label: str
    begin_ns: int
    end_ns: int
    measured: bool


def stretches(phases: Sequence[Phase]) -> tuple[Stretch, ...]:
    """Return phases in order of time, neighbours of one workload (or one kind without one) taken together."""
    found = []
    for name, neighbours in groupby(phases, key=_name):
        group = list(neighbours)
        begin_ns, end_ns = group[0].begin_ns, max(phase.end_ns for phase in group)
        if group[0].kind not in _MEASURED:
            found.append(Stretch(name, name, begin_ns, end_ns, measured=False))
            continue
        repetitions = len({phase.repetition for phase in group})
        label = f"{name} ×{repetitions}" if repetitions > 1 else name
        kind = max(group, key=lambda phase: phase.end_ns - phase.begin_ns).kind
        found.append(Stretch(label, f"{kind} {label}", begin_ns, end_ns, measured=True))
    return tuple(found)


def _name(phase: Phase) -> str:
    return phase.workload if phase.kind in _MEASURED and phase.workload else str(phase.kind)
