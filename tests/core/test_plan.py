from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.plan import has_plateaued, remaining, seconds_left, warmup_workload
from k3prof.core.trial import (
    Failure,
    Outcome,
    RequestRecord,
    RequestStatus,
    ServerTimings,
    TrialRecord,
    TrialStatus,
    Workload,
)
from tests.core.test_trial import SPEC

PP, TG, TG4 = Workload("pp", 512), Workload("tg", 128), Workload("tg", 128, streams=4)
NOTHING = np.empty(0, np.int64)


def request(workload: Workload, repetition: int, stream: int = 0, status: RequestStatus = RequestStatus.OK):
    return RequestRecord(workload, "measure", repetition, stream, 0, NOTHING, NOTHING, 1, ServerTimings(), status)


def trial(status: TrialStatus, workloads: tuple[Workload, ...], requests=(), failure: Failure | None = None):
    spec = replace(SPEC, workloads=workloads)
    return TrialRecord(1, spec, (), 0, 1, 2, Outcome(status, failure), tuple(requests))


def test_a_placement_that_never_ran_is_wholly_left_to_do() -> None:
    spec = replace(SPEC, workloads=(PP, TG))
    assert remaining(spec, []) == spec


def test_a_measured_workload_is_not_measured_again() -> None:
    done = trial(TrialStatus.OK, (PP,), [request(PP, n) for n in range(3)])
    assert remaining(replace(SPEC, workloads=(PP, TG)), [done]) == replace(SPEC, workloads=(TG,))
    assert remaining(replace(SPEC, workloads=(PP,)), [done]) is None


def test_what_a_killed_trial_had_finished_counts() -> None:
    killed = trial(TrialStatus.INTERRUPTED, (PP, TG), [request(PP, n) for n in range(3)] + [request(TG, 0)])
    assert remaining(replace(SPEC, workloads=(PP, TG)), [killed]) == replace(SPEC, workloads=(TG,))


def test_more_repetitions_than_were_measured_are_measured_anew() -> None:
    done = trial(TrialStatus.OK, (PP,), [request(PP, n) for n in range(3)])
    assert remaining(replace(SPEC, workloads=(PP,), repeat=5), [done]) is not None


def test_a_repetition_counts_only_with_all_its_streams() -> None:
    torn = trial(TrialStatus.INTERRUPTED, (TG4,), [request(TG4, n, stream) for n in range(3) for stream in range(3)])
    assert remaining(replace(SPEC, workloads=(TG4,)), [torn]) is not None


def test_requests_that_failed_do_not_count() -> None:
    cut = trial(TrialStatus.INTERRUPTED, (PP,), [request(PP, n, status=RequestStatus.CUT) for n in range(3)])
    assert remaining(replace(SPEC, workloads=(PP,)), [cut]) is not None


def test_a_placement_that_ran_out_of_memory_is_not_loaded_again_unasked() -> None:
    failed = trial(TrialStatus.FAILED, (PP, TG), failure=Failure.OUT_OF_MEMORY)
    spec = replace(SPEC, workloads=(PP, TG))
    assert remaining(spec, [failed]) is None
    assert remaining(spec, [failed], retry_failed=True) == spec


def test_an_interrupted_retry_of_a_failed_placement_does_not_make_it_new() -> None:
    failed = trial(TrialStatus.FAILED, (PP,), failure=Failure.CRASHED)
    interrupted = trial(TrialStatus.INTERRUPTED, (PP,))
    assert remaining(replace(SPEC, workloads=(PP,)), [failed, interrupted]) is None


def test_three_equal_rates_are_a_plateau_and_two_are_none() -> None:
    assert has_plateaued([30.0, 30.0, 30.0])
    assert not has_plateaued([30.0, 30.0])


def test_a_climbing_rate_is_no_plateau_until_it_has_settled() -> None:
    assert not has_plateaued([10.0, 20.0, 30.0])
    assert has_plateaued([10.0, 20.0, 30.0, 30.5, 29.8])


@given(st.lists(st.floats(0.1, 1e6), min_size=3), st.floats(0.01, 100))
def test_a_plateau_does_not_depend_on_the_unit(rates: list[float], factor: float) -> None:
    worst = max(abs(rate / sorted(rates[-3:])[1] - 1) for rate in rates[-3:])
    if abs(worst - 0.05) > 1e-9:
        assert has_plateaued(rates) == has_plateaued([rate * factor for rate in rates]) == (worst <= 0.05)


@pytest.mark.parametrize("workload", [PP, TG, Workload("tg", 8), Workload("tg", 128, 32768, 4)])
def test_warming_up_keeps_kind_and_streams_and_costs_no_depth(workload: Workload) -> None:
    warm = warmup_workload(workload)
    assert (warm.kind, warm.streams, warm.depth) == (workload.kind, workload.streams, 0)
    assert warm.tokens <= workload.tokens


def test_time_left_is_unknown_before_the_first_trial_has_ended() -> None:
    assert seconds_left([], 3) is None
    assert seconds_left([10.0, 20.0], 3) == pytest.approx(45.0)
