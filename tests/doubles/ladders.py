"""What a placement with ladders found, with rates chosen by hand."""

from __future__ import annotations

from collections.abc import Sequence

from k3prof.core.layout.context_cost import ContextCost
from k3prof.core.summary import PlacementSummary, WorkloadSummary, spread
from k3prof.core.trial import Caveat, Outcome, TrialStatus, Workload


def workload(name: str, rates: Sequence[float], ttft_ms: Sequence[float] = ()) -> WorkloadSummary:
    return WorkloadSummary(
        Workload.parse(name), spread(list(rates)), spread(list(ttft_ms)), None, {}, rates=tuple(rates)
    )


def placement(
    *workloads: WorkloadSummary,
    name: str = "even",
    cost: ContextCost | None = None,
    caveats: tuple[Caveat, ...] = (),
) -> PlacementSummary:
    return PlacementSummary(name, Outcome(TrialStatus.OK), 2.0, workloads, caveats, context_cost=cost)
