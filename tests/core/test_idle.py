from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from k3prof.core.idle import parallelism
from k3prof.core.timeline import Counter, Series, busy_share, busy_steps

MS = 1_000_000
S = 1_000_000_000


def alternating(devices: int, slot_ms: float, seconds: float, sample_ms: float = 5, overlap: float = 0.0):
    """Cumulative busy time of devices that take turns of `slot_ms`, each staying on for `overlap` of the next turn."""
    time_ns = np.arange(0, int(seconds * S) + 1, int(sample_ms * MS))
    cycle_ms = devices * slot_ms
    found = []
    for device in range(devices):
        ms = time_ns / MS - device * slot_ms
        turns, into = np.divmod(ms, cycle_ms)
        busy_ms = turns * slot_ms * (1 + overlap) + np.minimum(into, slot_ms * (1 + overlap))
        found.append(Series(f"RPC{device}", Counter.CPU_TIME_NS, int(sample_ms * MS), time_ns, busy_ms * MS))
    return found


@pytest.mark.parametrize("devices", [2, 3, 5])
def test_devices_that_take_turns_have_a_parallelism_of_one(devices: int) -> None:
    found = parallelism(alternating(devices, 28, 12), [(S, 11 * S)])
    assert found is not None
    assert found.degree == pytest.approx(1.0, abs=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 1.0 + 0.01
    assert found.high >= 1.0 - 0.01
    assert not found.proves_overlap


def test_devices_that_overlap_half_of_each_turn_have_a_parallelism_of_one_and_a_half() -> None:
    found = parallelism(alternating(3, 28, 12, overlap=0.5), [(S, 11 * S)])
    assert found is not None
    assert found.degree == pytest.approx(1.5, abs=0.03)
    assert found.proves_overlap


def test_one_device_that_was_not_observed_makes_the_whole_unknown() -> None:
    complete, short = alternating(2, 28, 12)
    short = Series(short.device, short.counter, short.period_ns, short.time_ns[:100], short.value[:100])
    assert parallelism([complete, short], [(5 * S, 10 * S)]) is None
    assert parallelism([], [(0, S)]) is None


def test_one_block_gives_a_degree_without_an_interval() -> None:
    found = parallelism(alternating(2, 28, 3), [(S, S + S // 2)])
    assert found is not None
    assert (found.blocks, found.low, found.high) == (1, None, None)


def test_a_percent_counter_widens_the_interval_by_its_rounding() -> None:
    time_ns = np.arange(0, 60 * S, S // 5)
    flat = [Series(f"CUDA{n}", Counter.BUSY_FRAC, S // 5, time_ns, np.full(time_ns.size, 0.2)) for n in range(5)]
    found = parallelism(flat, [(S, 50 * S)])
    assert found is not None
    assert found.degree == pytest.approx(1.0)
    assert found.low == pytest.approx(1.0 - 5 * 0.005)
    assert found.high == pytest.approx(1.0 + 5 * 0.005)


def test_the_interval_covers_the_true_degree_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    covered = 0
    rounds = 2000
    for _ in range(rounds):
        time_ns = np.arange(0, 8 * S + 1, S)
        busy = np.concatenate([[0.0], np.cumsum(random.normal(0.8, 0.05, 8)) * S])
        found = parallelism([Series("RPC0", Counter.CPU_TIME_NS, S // 200, time_ns, busy)], [(0, 8 * S)])
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.8 <= found.high
    assert covered / rounds == pytest.approx(0.90, abs=0.02)  # three standard errors of 2,000 rounds


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=40),
    st.integers(0, 10**9),
    st.integers(1, 10**9),
)
def test_busy_time_is_the_integral_of_the_steps(shares: list[float], begin: int, length: int) -> None:
    time_ns = np.arange(len(shares) + 1) * 50 * MS
    value = np.concatenate([[0.0], np.cumsum(shares)]) * 50 * MS
    series = Series("RPC0", Counter.CPU_TIME_NS, 50 * MS, time_ns, value)
    begin_ns = begin % int(time_ns[-1])
    end_ns = min(begin_ns + length, int(time_ns[-1]))
    share = busy_share(series, begin_ns, end_ns)
    if end_ns == begin_ns:
        assert share is None
        return
    fine = np.unique(np.concatenate([time_ns[(time_ns > begin_ns) & (time_ns < end_ns)], [begin_ns, end_ns]]))
    middle = (fine[1:] + fine[:-1]) / 2
    at_middle = np.array(shares)[np.minimum((middle // (50 * MS)).astype(int), len(shares) - 1)]
    expected = float(np.sum(at_middle * np.diff(fine))) / (end_ns - begin_ns)
    assert share == pytest.approx(expected, abs=1e-6)


def test_steps_add_up_to_the_busy_time() -> None:
    series = alternating(3, 28, 4)[1]
    edges_ns, shares = busy_steps(series, S, 3 * S)
    total = integrate.trapezoid(np.repeat(shares, 2), np.repeat(edges_ns, 2)[1:-1])
    covered = busy_share(series, int(edges_ns[0]), int(edges_ns[-1]))
    assert covered is not None
    assert total == pytest.approx(covered * (edges_ns[-1] - edges_ns[0]), rel=1e-9)


def test_a_time_that_was_not_sampled_is_unknown() -> None:
    series = alternating(2, 28, 4)[0]
    assert busy_share(series, 3 * S, 5 * S) is None
    assert busy_share(series, 2 * S, 2 * S) is None
