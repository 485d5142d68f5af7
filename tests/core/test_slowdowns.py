from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.device import Device, DeviceKind
from k3prof.core.slowdowns import SLOWDOWNS, slowdown_caveats, slowed_frac
from k3prof.core.summary import phases, summarize_trial
from k3prof.core.timeline import Counter, Phase, PhaseKind, Series
from tests.doubles.nvml_gpu import HARDWARE_THERMAL, POWER_BRAKE, POWER_CAP, THERMAL, FakeGpu, fields_of_an_a40
from tests.doubles.polled_gpus import watched_gpu_trial
from tests.doubles.trials import gpu_trial, stand_in_trial

MS, S = 1_000_000, 1_000_000_000
GPUS = [Device(f"CUDA{n}", DeviceKind.CUDA, "NVIDIA A40") for n in range(3)]
PHASES = [
    Phase(PhaseKind.LOAD, 0, 10 * S),
    Phase(PhaseKind.WARMUP, 10 * S, 20 * S, "tg128"),
    Phase(PhaseKind.PREFILL, 20 * S, 24 * S, "pp512"),
    Phase(PhaseKind.DECODE, 24 * S, 44 * S, "tg128"),
    Phase(PhaseKind.UNTRACED, 44 * S, 60 * S, "tg128"),
]


def sampled(counter: Counter, at: Callable[[float], float], device: str = "CUDA1", period_ns: int = S) -> Series:
    """Return readings of a function of the seconds."""
    time_ns = np.arange(0, 60 * S + 1, period_ns, dtype=np.int64)
    return Series(device, counter, period_ns, time_ns, np.array([at(float(one) / S) for one in time_ns.tolist()]))


def during(begin_s: float, end_s: float, share: float = 1.0) -> Callable[[float], float]:
    """Return the ns for which a slowdown has held by a time, if it does for a share of an interval."""
    return lambda at_s: share * S * min(max(at_s - begin_s, 0.0), end_s - begin_s)


def busy(device: str = "CUDA1", share: float = 0.2) -> Series:
    return sampled(Counter.BUSY_FRAC, lambda _: share, device)


def codes(*series: Series) -> dict[str, str]:
    return {one.code: one.message for one in slowdown_caveats(GPUS, PHASES, series)}


@pytest.mark.parametrize(("counter", "slowdown"), SLOWDOWNS.items())
def test_a_slowdown_is_told_with_its_device_its_phase_and_its_share(counter, slowdown):
    (caveat,) = slowdown_caveats(GPUS, PHASES, [sampled(counter, during(24, 44, 0.34))])
    assert (caveat.code, caveat.message) == (slowdown.code, f"{slowdown.what}: CUDA1 for 34 % of decode")
    assert caveat.remedy


def test_devices_and_phases_of_one_slowdown_stand_in_one_caveat():
    capped = [sampled(Counter.POWER_CAPPED_NS, during(20, 44, share), f"CUDA{n}") for n, share in enumerate((0.5, 0.1))]
    assert codes(*capped) == {
        "power-capped": "the power limit held the clocks down: CUDA0 for 50 % of prefill and 50 % of decode, "
        "CUDA1 for 10 % of prefill and 10 % of decode"
    }


def test_what_held_while_nothing_was_measured_does_not_count():
    assert codes(*(sampled(counter, during(0, 20)) for counter in SLOWDOWNS)) == {}
    assert codes(*(sampled(counter, during(44, 60)) for counter in SLOWDOWNS)) == {}


@pytest.mark.parametrize(("counter", "slowdown"), SLOWDOWNS.items())
def test_shares_too_small_to_show_in_a_figure_are_not_told(counter, slowdown):
    assert not codes(sampled(counter, during(20, 44, 0.9 * slowdown.least_frac)))
    assert codes(sampled(counter, during(20, 44, 1.1 * slowdown.least_frac)))


def test_a_phase_that_the_readings_do_not_cover_is_unknown():
    whole = sampled(Counter.POWER_CAPPED_NS, during(0, 60))
    lost = replace(whole, time_ns=whole.time_ns[:30], value=whole.value[:30])
    assert codes(lost) == {"power-capped": "the power limit held the clocks down: CUDA1 for 100 % of prefill"}
    assert codes() == {}


def test_a_phase_shorter_than_the_counters_period_is_unknown():
    assert slowed_frac(sampled(Counter.POWER_CAPPED_NS, during(0, 60)), [(5 * S, 5 * S + 900 * MS)]) is None
    assert slowed_frac(sampled(Counter.POWER_CAPPED_NS, during(0, 60)), [(5 * S, 6 * S)]) == 1.0


@given(share=st.floats(0, 1), begin_s=st.integers(0, 40), length_s=st.integers(1, 20))
def test_a_steady_slowdown_has_its_share_in_any_interval(share, begin_s, length_s):
    steady = sampled(Counter.THERMAL_SLOWDOWN_NS, during(0, 60, share))
    found = slowed_frac(steady, [(begin_s * S, (begin_s + length_s) * S)])
    assert found == pytest.approx(share, abs=1e-9)


def test_a_link_that_stays_slow_at_work_is_told_against_the_best_of_its_kind():
    fast, slow = sampled(Counter.PCIE_GENERATION, lambda _: 4, "CUDA0"), sampled(Counter.PCIE_GENERATION, lambda _: 1)
    width = sampled(Counter.PCIE_WIDTH, lambda _: 16)
    assert codes(busy(), fast, slow, width) == {
        "pcie-slow": "PCIe links were slow at work: CUDA1 at gen1 x16, where gen4 x16 was seen (in prefill and decode)"
    }


def test_a_link_that_only_sleeps_between_measurements_is_no_matter():
    generation = sampled(Counter.PCIE_GENERATION, lambda at_s: 4 if 20 <= at_s <= 44 else 1)
    assert codes(busy(), generation) == {}


def test_a_link_of_a_gpu_without_work_may_sleep():
    generation = sampled(Counter.PCIE_GENERATION, lambda at_s: 4 if at_s < 20 else 1)
    assert "pcie-slow" in codes(busy(share=0.2), generation)
    assert codes(busy(share=0.0), generation) == codes(generation) == {}


def test_gpus_of_another_kind_set_no_standard():
    others = [GPUS[0], replace(GPUS[1], description="NVIDIA T4")]
    links = [sampled(Counter.PCIE_GENERATION, lambda _: 4, "CUDA0"), sampled(Counter.PCIE_GENERATION, lambda _: 3)]
    assert slowdown_caveats(others, PHASES, [busy(), *links]) == []


@pytest.mark.parametrize(("state", "where"), [(0, None), (2, None), (8, "CUDA1 P8 (in prefill), CUDA1 P8 (in decode)")])
def test_work_in_the_performance_state_of_rest_is_told(state, where):
    found = codes(busy(), sampled(Counter.P_STATE, lambda _: state))
    assert found == ({"low-clocks": f"GPUs worked in the performance state of rest: {where}"} if where else {})


def test_a_trials_caveats_hold_what_the_driver_counted_while_it_was_measured():
    trial, _ = gpu_trial()
    decode = next(phase for phase in phases(trial) if phase.kind is PhaseKind.DECODE and phase.workload == "tg128")
    wide = fields_of_an_a40()[POWER_CAP][0]
    capped = {POWER_CAP: (wide, during(decode.begin_ns / S, decode.end_ns / S))}
    hot = {THERMAL: (wide, lambda at_s: 0.5 * S * at_s)}
    gpus = [
        FakeGpu("", 1, fields=fields_of_an_a40() | capped),
        FakeGpu("", 2, fields=fields_of_an_a40() | hot),
        FakeGpu("", 3, fields={}),
    ]
    found = summarize_trial(*watched_gpu_trial(gpus)).caveats
    assert [caveat.code for caveat in found] == ["power-capped", "gpu-hot"]
    # It held all through one of two repetitions; at its edges one reading a second says so to a few percent.
    (share,) = map(float, re.findall(r"CUDA0 for (\d+) % of decode", found[0].message))
    assert share == pytest.approx(50, abs=3)
    assert "CUDA1 for 50 % of prefill and 50 % of decode" in found[1].message


def test_fields_by_their_numbers_become_the_caveats_of_their_kinds():
    wide = fields_of_an_a40()[POWER_CAP][0]
    always = {number: (wide, lambda at_s: S * at_s) for number in (POWER_CAP, THERMAL, HARDWARE_THERMAL, POWER_BRAKE)}
    found = summarize_trial(*watched_gpu_trial([FakeGpu("", 1, fields=fields_of_an_a40() | always)])).caveats
    assert [caveat.code for caveat in found] == ["power-capped", "gpu-hot", "gpu-hot-hardware", "power-brake"]


def test_a_trial_on_stand_ins_has_none_unless_a_quota_stopped_it():
    trial, series = stand_in_trial()
    assert summarize_trial(trial, series).caveats == ()
    time_ns = series[0].time_ns
    quota = Series("host", Counter.THROTTLED_NS, 100 * MS, time_ns, (time_ns - time_ns[0]) * 0.25)
    (caveat,) = summarize_trial(trial, (*series, quota)).caveats
    assert caveat.code == "cpu-quota"
    assert "host for 25 % of prefill and 25 % of decode" in caveat.message
