from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from k3prof.core.refutation.evidence import Figure
from k3prof.core.refutation.leg import MeasuredLeg
from k3prof.core.refutation.leg_metrics import find_metric
from k3prof.core.spans import SplitMode
from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import RequestRecord, RequestStatus, ServerTimings, TrialRecord, Workload
from tests.doubles.tokens import TG as LEDGER_TG
from tests.doubles.tokens import known_ledger
from tests.doubles.trials import A40S, MS, PP512, START_NS, TG128, gpu_trial, stand_in_trial

S = 1_000_000_000


def figure(leg: MeasuredLeg, name: str, workload: Workload = TG128) -> Figure | None:
    metric = find_metric(name)
    assert metric is not None
    return metric.compute(leg, workload)


def value(leg: MeasuredLeg, name: str, workload: Workload = TG128) -> float | None:
    found = figure(leg, name, workload)
    return None if found is None else found.value


def with_requests(trial: TrialRecord, *changed: RequestRecord) -> TrialRecord:
    return replace(trial, requests=changed)


def decode(repetition: int, token_ms: float, role: str = "measure", status=RequestStatus.OK) -> RequestRecord:
    """Return a request whose 128 tokens come so many milliseconds apart."""
    begin_ns = START_NS + (10 + 5 * repetition + (2 if role == "untraced" else 0)) * S
    arrivals_ns = begin_ns + (token_ms * MS * np.arange(128)).astype(np.int64)
    return RequestRecord(
        TG128,
        role,
        repetition,
        0,
        begin_ns - 40 * MS,
        arrivals_ns,
        np.ones(128, np.int64),
        int(arrivals_ns[-1]),
        ServerTimings(1, 40.0, 128, 127 * token_ms),
        status,
    )


def leg_of(*requests: RequestRecord, splits: SplitMode = SplitMode.OFF) -> MeasuredLeg:
    trial, series = stand_in_trial()
    spec = replace(trial.spec, workloads=(TG128,), splits=splits)
    return MeasuredLeg(replace(trial, spec=spec, requests=requests), series, price_per_hour=2.2)


def test_a_speed_is_the_median_of_the_measured_repetitions() -> None:
    leg = leg_of(decode(0, 99.0, "warmup"), decode(0, 10.0), decode(1, 12.5), decode(2, 20.0))
    assert value(leg, "tg") == pytest.approx(80.0)
    assert value(leg, "itl") == pytest.approx(12.5)
    assert value(leg, "ttft") == pytest.approx(40.0)


@pytest.mark.parametrize("status", [RequestStatus.CUT, RequestStatus.REFUSED, RequestStatus.IMPLAUSIBLE])
def test_a_repetition_that_did_not_end_well_does_not_count(status: RequestStatus) -> None:
    leg = leg_of(decode(0, 10.0), decode(1, 5.0, status=status), decode(2, 20.0))
    assert value(leg, "tg") == pytest.approx(75.0)


def test_of_a_traced_leg_the_repetitions_without_the_tracer_count() -> None:
    traced = [decode(0, 20.0), decode(1, 20.0)]
    untraced = [decode(0, 10.0, "untraced"), decode(1, 10.0, "untraced")]
    assert value(leg_of(*traced, *untraced, splits=SplitMode.EXACT), "tg") == pytest.approx(100.0)
    assert value(leg_of(*traced, splits=SplitMode.EXACT), "tg") is None


def test_without_a_repetition_every_figure_of_requests_is_unknown_and_none_is_zero() -> None:
    leg = leg_of(decode(0, 10.0, status=RequestStatus.CUT))
    for name in ("pp", "tg", "ttft", "itl", "parallelism", "busy.RPC0", "usd_per_million", "energy_per_token"):
        assert figure(leg, name) is None


def test_parallelism_is_the_sum_of_what_each_device_is_busy() -> None:
    """8, 6 and 7 of each 30 ms in decode."""
    leg = MeasuredLeg(*stand_in_trial(turns_ms=(8, 6, 7), token_ms=30))
    assert value(leg, "busy.RPC0") == pytest.approx(8 / 30, rel=2e-3)
    assert value(leg, "busy.RPC1") == pytest.approx(6 / 30, rel=2e-3)
    assert value(leg, "busy.RPC2") == pytest.approx(7 / 30, rel=2e-3)
    assert value(leg, "parallelism") == pytest.approx(21 / 30, rel=2e-3)
    in_prefill = value(leg, "parallelism", PP512)
    assert in_prefill is not None
    assert in_prefill > 1.0


def test_parallelism_is_unknown_unless_every_device_was_watched() -> None:
    trial, series = stand_in_trial()
    watched = tuple(one for one in series if one.device != "RPC1")
    leg = MeasuredLeg(trial, watched)
    assert value(leg, "parallelism") is None
    assert value(leg, "busy.RPC1") is None
    assert value(leg, "busy.RPC0") is not None
    assert value(leg, "busy.RPC7") is None


def test_whole_percents_bias_what_is_read_from_them() -> None:
    leg = MeasuredLeg(*gpu_trial())
    degree, share, host = (figure(leg, name) for name in ("parallelism", "busy.CUDA0", "busy.CPU"))
    assert degree is not None
    assert degree.value == pytest.approx(132 / 140, abs=0.02)
    assert (degree.bias_low, degree.bias_high) == pytest.approx((5 * 0.005, 5 * 0.01))
    assert share is not None
    assert (share.bias_low, share.bias_high) == (0.005, 0.01)
    assert host is not None
    assert (host.bias_low, host.bias_high) == (0.0, 0.0)


def energy(trial: TrialRecord, watts: dict[str, float]) -> tuple[Series, ...]:
    """Return what energy counters read every 100 ms under constant power."""
    assert trial.ended_ns is not None
    time_ns = np.arange(START_NS, trial.ended_ns + S, 100 * MS, dtype=np.int64)
    since_s = (time_ns - START_NS) / 1e9
    return tuple(
        Series(device, Counter.ENERGY_J, 100 * MS, time_ns, 5_000.0 + power_w * since_s)
        for device, power_w in watts.items()
    )


def test_energy_is_that_of_all_gpus_over_the_tokens_of_the_phase() -> None:
    trial, series = gpu_trial()
    watts = {device.name: 100.0 + 20 * place for place, device in enumerate(A40S)}
    leg = MeasuredLeg(trial, (*series, *energy(trial, watts)))
    measured = [one for one in trial.requests if one.workload == TG128 and one.role == "measure"]
    decoded_s = sum(float(one.arrivals_ns[-1] - one.arrivals_ns[0]) / 1e9 for one in measured)
    prefilled = [one for one in trial.requests if one.workload == PP512 and one.role == "measure"]
    prefilled_s = sum(float(one.arrivals_ns[0] - one.sent_ns) / 1e9 for one in prefilled)
    assert value(leg, "energy_per_token") == pytest.approx(700.0 * decoded_s / (127 * len(measured)))
    assert value(leg, "energy_per_token", PP512) == pytest.approx(700.0 * prefilled_s / (512 * len(prefilled)))


def test_energy_is_unknown_unless_every_gpu_counts_it() -> None:
    trial, series = gpu_trial()
    some = energy(trial, {device.name: 100.0 for device in A40S[:4]})
    assert value(MeasuredLeg(trial, (*series, *some)), "energy_per_token") is None
    assert value(MeasuredLeg(trial, series), "energy_per_token") is None


def test_stand_ins_have_no_energy_even_where_something_counts_it() -> None:
    trial, series = stand_in_trial()
    counted = energy(trial, {"RPC0": 100.0, "RPC1": 100.0, "RPC2": 100.0})
    assert value(MeasuredLeg(trial, (*series, *counted)), "energy_per_token") is None


def test_a_million_tokens_cost_the_hours_that_they_take() -> None:
    """At 100 tokens a second they take 10,000 s."""
    leg = leg_of(decode(0, 10.0))
    assert value(leg, "usd_per_million") == pytest.approx(10_000 / 3600 * 2.2)
    assert value(replace(leg, price_per_hour=None), "usd_per_million") is None


def test_loading_lasts_until_the_server_answers() -> None:
    leg = leg_of()
    assert value(leg, "load_s") == pytest.approx(1.4)
    assert value(replace(leg, trial=replace(leg.trial, ready_ns=None)), "load_s") is None


def test_the_ledgers_lines_are_its_milliseconds_and_their_shares_of_a_token() -> None:
    """20 ms: RPC0 computes for 6 and RPC1 for 7.5, the host for 0.5; copies take 1.25.

    A pass lasts for 18 ms; of the 2 until the next the host waits for 0.25.
    """
    leg = replace(leg_of(), ledgers=(known_ledger(),))
    known_ms = {"devices": 13.5, "at_once": 0.0, "host_compute": 0.5, "copies": 1.25, "between": 1.75}
    known_ms["scheduler"] = 18.0 - 13.5 - 0.5 - 1.25 + 0.25
    for line, ms in {**known_ms, "unexplained": 0.0}.items():
        assert value(leg, f"ledger_ms.{line}", LEDGER_TG) == pytest.approx(ms)
        assert value(leg, f"ledger.{line}", LEDGER_TG) == pytest.approx(ms / 20.0)
    assert sum(known_ms.values()) == 20.0


def test_a_light_trace_and_none_at_all_leave_the_ledger_unknown() -> None:
    """A light trace does not know when devices end: what it calls unexplained is their work."""
    for leg in (leg_of(), replace(leg_of(), ledgers=(known_ledger(finished=False),))):
        for line in ("devices", "at_once", "between", "unexplained"):
            assert value(leg, f"ledger.{line}", LEDGER_TG) is None
            assert value(leg, f"ledger_ms.{line}", LEDGER_TG) is None


def test_the_ledger_is_that_of_the_workload() -> None:
    leg = replace(leg_of(), ledgers=(known_ledger(),))
    assert value(leg, "ledger.devices", TG128) is None


def test_shares_of_ops_are_those_of_decode() -> None:
    leg = replace(leg_of(), op_shares={"part.moe": 0.4, "role.routed-experts": 0.25, "op.mul_mat_id": 0.2})
    assert value(leg, "part.moe") == 0.4
    assert value(leg, "role.routed-experts") == 0.25
    assert value(leg, "op.mul_mat_id") == 0.2
    assert value(leg, "op.mul_mat") is None
    assert value(leg, "part.moe", PP512) is None
    assert value(leg_of(), "part.moe") is None
