"""A leg: one fresh server of one placement, as part of a round; and what its figures are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.ledger import Ledger
from k3prof.core.summary import phases
from k3prof.core.timeline import PhaseKind, Series
from k3prof.core.trial import Failure, Outcome, TrialRecord, TrialStatus, Workload
from k3prof.core.weights.model import Model

_LASTING = frozenset({Failure.OUT_OF_MEMORY, Failure.REFUSED_FLAG, Failure.BAD_MODEL, Failure.ASSERTION})


def would_fail_again(outcome: Outcome) -> bool:
    """Return whether another start of the same server would end the same way, so that none need be paid for."""
    return outcome.status is TrialStatus.VOID or outcome.failure in _LASTING


@dataclass(frozen=True)
class LegPlace:
    """Where a leg stands in the order of running.

    Attributes:
        round: The round, from 0 in each trace.
        position: Its place in the round, from 0.
        placement: The placement that it starts.
        twin: In a round of one placement against itself, whether it stands for the second of the two.
    """

    round: int
    position: int
    placement: str
    twin: bool = False


@dataclass(frozen=True, eq=False)
class MeasuredLeg:
    """A leg's trial with all that metrics are computed from.

    Attributes:
        trial: The trial.
        series: What was sampled while it ran.
        ledgers: Where a token's time went, one per workload; empty when splits were not traced.
        model: What the model's header says; None when the trace does not hold it.
        bandwidths: How fast each device's memory can be read; those that are not known are left out.
        price_per_hour: What the machine costs, in USD; None when not given.
        op_shares: Shares of a decode pass by part, role and op: `part.moe`, `op.mul_mat`; empty when not profiled.
    """

    trial: TrialRecord
    series: tuple[Series, ...]
    ledgers: tuple[Ledger, ...] = ()
    model: Model | None = None
    bandwidths: Mapping[str, Bandwidth] = field(default_factory=dict)
    price_per_hour: float | None = None
    op_shares: Mapping[str, float] = field(default_factory=dict)

    def ledger(self, workload: Workload) -> Ledger | None:
        """Return the ledger of a workload, or None when its splits were not traced."""
        return next((one for one in self.ledgers if one.workload == workload), None)


_TIMED = (PhaseKind.PREFILL, PhaseKind.DECODE, PhaseKind.UNTRACED)


def timed_intervals(trial: TrialRecord) -> list[tuple[int, int]]:
    """Return when a trial's figures were taken, in monotonic ns: in its repetitions, with the tracer and without it."""
    return [(phase.begin_ns, phase.end_ns) for phase in phases(trial) if phase.kind in _TIMED]
