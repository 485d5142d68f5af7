from __future__ import annotations

from dataclasses import replace

import numpy as np

from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import RequestStatus
from k3prof.reporters.measurement import measurement
from tests.doubles.imported_runs import traced
from tests.doubles.trials import failed_trial, gpu_trial, stand_in_trial


def facts(trials, series) -> dict[str, str]:
    return dict(measurement(trials, series))


def test_counters_are_named_with_their_resolution():
    trial, series = stand_in_trial(repeat=1)
    assert facts([trial], series)["busy share of RPC0, RPC1, RPC2, CPU"].endswith("read every 5 ms")
    trial, series = gpu_trial(repeat=1)
    assert facts([trial], series)["busy share of CUDA0, CUDA1, CUDA2, CUDA3, CUDA4"].endswith("a mean over 200 ms")


def test_what_a_profiler_timed_is_told_with_its_resolution():
    run = traced([("GPU0", 0, 100)])
    trial, _ = gpu_trial(repeat=1)
    assert facts([trial], run.series)["busy share of GPU0, GPU1"].endswith("summed from each begin and end, to 1 ns")


def test_lateness_is_told_by_its_median_and_its_worst():
    late = Series("host", Counter.LATENESS_NS, 5_000_000, np.arange(101), np.arange(101) * 10_000.0)
    assert facts([], [late])["sampler lateness"] == (
        "median 0.50 ms, 99 % within 0.99 ms, at most 1.00 ms (101 readings)"
    )


def test_read_errors_are_counted_over_all_trials():
    one = Series("host", Counter.READ_ERRORS, 5_000_000, np.arange(3), np.array([0.0, 1.0, 2.0]))
    assert facts([], [one, one])["readings that failed"] == "4"


def test_warm_ups_and_repetitions_are_told():
    trial, series = stand_in_trial(repeat=3)
    assert facts([trial], series)["warm-up"] == "2 requests in each trial, not counted"
    fewer = replace(trial, requests=trial.requests[1:])
    assert facts([trial, fewer], series)["warm-up"] == "1 to 2 requests in a trial, until a plateau; not counted"
    assert facts([trial], series)["repetitions"] == "3 of each workload asked for"


def test_requests_that_do_not_count_are_told_with_their_reason():
    trial, series = stand_in_trial(repeat=1)
    last = replace(trial.requests[-1], status=RequestStatus.IMPLAUSIBLE, reason="95,000 tok/s")
    spoilt = replace(trial, requests=(*trial.requests[:-1], last))
    assert facts([spoilt], series)["requests that do not count"] == "1 implausible (95,000 tok/s)"


def test_without_samples_everything_is_unknown_and_nothing_zero():
    trial, series = failed_trial()
    found = facts([trial], series)
    assert found["busy share"] == found["sampler lateness"] == found["readings that failed"] == "unknown"
    assert found["warm-up"] == "unknown"
