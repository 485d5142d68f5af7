from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.spans import SplitMode
from k3prof.core.summary import PlacementSummary, Spread, WorkloadSummary, merge, phases, rank, spread, summarize_trial
from k3prof.core.timeline import Counter, PhaseKind, Series
from k3prof.core.trial import Caveat, Outcome, RequestRecord, ServerTimings, TrialRecord, TrialStatus, Workload
from tests.core.test_trial import SPEC

MS, S = 1_000_000, 1_000_000_000
TG, PP, TG2 = Workload("tg", 3), Workload("pp", 8), Workload("tg", 3, streams=2)


def request(workload: Workload, sent_ms: int, arrivals_ms: tuple[int, ...], role="measure", repetition=0, stream=0):
    return RequestRecord(
        workload=workload,
        role=role,
        repetition=repetition,
        stream=stream,
        sent_ns=sent_ms * MS,
        arrivals_ns=np.array(arrivals_ms, np.int64) * MS,
        tokens=np.ones(len(arrivals_ms), np.int64),
        ended_ns=(max(arrivals_ms, default=sent_ms) + 1) * MS,
        timings=ServerTimings(prompt_n=1, prompt_ms=5.0, predicted_n=3, predicted_ms=20.0),
    )


def trial(*requests: RequestRecord, devices: int = 2, workloads=(TG,)) -> TrialRecord:
    names = [Device(f"RPC{number}", DeviceKind.STAND_IN) for number in range(devices)]
    spec = replace(SPEC, workloads=workloads)
    return TrialRecord(1, spec, (*names, HOST), 0, 10 * MS, 9 * S, Outcome(TrialStatus.OK), requests)


def busy(device: str, share: float, counter: Counter = Counter.CPU_TIME_NS) -> Series:
    time_ns = np.arange(0, 10 * S, 5 * MS, dtype=np.int64)
    return Series(device, counter, 5 * MS, time_ns, time_ns * share)


def summary(placement: str, rate: float | None, status=TrialStatus.OK, workload: Workload = TG) -> PlacementSummary:
    found = WorkloadSummary(workload, None if rate is None else Spread(rate, rate, rate, 1), None, None, {})
    return PlacementSummary(placement, Outcome(status), None, (found,), ())


def test_phases_follow_from_the_clients_own_times() -> None:
    warm = request(TG, 20, (30, 40, 50), role="warmup")
    one = request(TG, 60, (70, 80, 90))
    assert [(one.kind, one.begin_ns // MS, one.end_ns // MS) for one in phases(trial(one, warm))] == [
        (PhaseKind.LOAD, 0, 10),
        (PhaseKind.WARMUP, 20, 51),
        (PhaseKind.PREFILL, 60, 70),
        (PhaseKind.DECODE, 70, 90),
    ]


def test_streams_decode_together_from_the_last_first_token_to_the_first_last_one() -> None:
    first = request(TG2, 20, (30, 50, 70))
    second = request(TG2, 20, (40, 60, 90), stream=1)
    found = {one.kind: (one.begin_ns // MS, one.end_ns // MS) for one in phases(trial(first, second))}
    assert found[PhaseKind.PREFILL] == (20, 40)
    assert found[PhaseKind.DECODE] == (40, 70)


def test_a_repetition_without_any_token_has_no_phase_and_no_rate() -> None:
    silent = trial(request(TG, 60, ()))
    assert {one.kind for one in phases(silent)} == {PhaseKind.LOAD}


def test_busy_shares_stand_in_the_order_of_the_devices_not_of_their_names() -> None:
    # As the trace returns them: by name, RPC10 before RPC2.
    names = sorted([f"RPC{number}" for number in range(12)] + ["CPU"])
    series = [busy(name, 0.05) for name in names]
    found = summarize_trial(trial(request(TG, 2000, (3000, 4000, 8000)), devices=12), series)
    (workload,) = found.workloads
    assert list(workload.busy_frac) == [*(f"RPC{number}" for number in range(12)), "CPU"]
    assert workload.parallelism is not None
    assert workload.parallelism.degree == pytest.approx(12 * 0.05)


def test_the_host_is_shown_but_not_counted_in_the_parallelism() -> None:
    series = [busy("RPC0", 0.3), busy("RPC1", 0.4), busy("CPU", 0.9)]
    (workload,) = summarize_trial(trial(request(TG, 2000, (3000, 4000, 8000))), series).workloads
    assert workload.parallelism is not None
    assert workload.parallelism.degree == pytest.approx(0.7)
    assert workload.busy_frac == pytest.approx({"RPC0": 0.3, "RPC1": 0.4, "CPU": 0.9})
    assert workload.rate == Spread(100.0, 100.0, 100.0, 1)  # two gaps in 20 ms


def test_warm_ups_are_never_counted() -> None:
    (workload,) = summarize_trial(trial(request(TG, 2000, (3000, 4000, 8000), role="warmup")), []).workloads
    assert workload.rate is None


def test_only_placements_that_ran_as_asked_are_ranked_fastest_first() -> None:
    rows = [
        summary("slow", 5.0),
        summary("void", 99.0, TrialStatus.VOID),
        summary("fast", 7.0),
        summary("failed", 50.0, TrialStatus.FAILED),
        summary("unknown", None),
        summary("other", 9.0, workload=PP),
    ]
    assert [one.placement for one in rank(rows, TG)] == ["fast", "slow"]


def test_a_later_trial_adds_to_an_earlier_one_and_takes_nothing_away() -> None:
    early = replace(summary("even", 5.0), load_s=3.0, caveats=(Caveat("a", "b"),))
    late = replace(summary("even", None), caveats=(Caveat("a", "b"), Caveat("c", "d")))
    other = summary("even", 9.0, workload=PP)
    found = merge([early, late, other])
    assert found.of(TG) == early.of(TG)
    assert found.of(PP) == other.of(PP)
    assert found.load_s == 3.0
    assert found.caveats == (Caveat("a", "b"), Caveat("c", "d"))
    assert found.outcome == other.outcome


def test_a_spread_of_nothing_is_unknown() -> None:
    assert spread([]) is None
    assert spread([3.0, 1.0, 2.0]) == Spread(2.0, 1.0, 3.0, 3)


@pytest.mark.parametrize(
    ("workload", "mode", "known"),
    [
        (PP, SplitMode.EXACT, False),
        (TG2, SplitMode.EXACT, False),
        (TG, SplitMode.EXACT, True),
        (PP, SplitMode.LIGHT, True),
        (TG2, SplitMode.OFF, True),
    ],
)
def test_p_is_unknown_where_the_tracer_kept_devices_from_overlapping(workload, mode, known):
    requests = [request(workload, 2000, (3000, 4000, 8000), stream=stream) for stream in range(workload.streams)]
    asked = trial(*requests, workloads=(workload,))
    traced = replace(asked, spec=replace(asked.spec, splits=mode))
    found = summarize_trial(traced, [busy("RPC0", 0.3), busy("RPC1", 0.3)])
    assert (found.workloads[0].parallelism is not None) is known
    assert found.workloads[0].busy_frac["RPC0"] == pytest.approx(0.3)
    codes = [caveat.code for caveat in found.caveats]
    assert codes == ([] if known else ["splits-in-turn"])
