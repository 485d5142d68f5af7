from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.tick import Tick, observe_tick, tick_from

periods = st.sampled_from([1_000_000, 3_333_333, 4_000_000, 10_000_000])


def circular_distance(one_ns: int, other_ns: int, period_ns: int) -> int:
    return min((one_ns - other_ns) % period_ns, (other_ns - one_ns) % period_ns)


@given(
    period_ns=periods,
    phase_frac=st.floats(0, 0.999),
    first=st.integers(0, 10**9),
    delays_ns=st.lists(st.integers(0, 20_000), min_size=9, max_size=9),
    interruptions_ns=st.lists(st.integers(0, 9_000_000), max_size=3),
)
def test_the_phase_is_found_although_some_ticks_are_seen_late(
    period_ns, phase_frac, first, delays_ns, interruptions_ns
):
    phase_ns = int(phase_frac * period_ns)
    seen_ns = [(first + number) * period_ns + phase_ns + delay_ns for number, delay_ns in enumerate(delays_ns)]
    for place, interruption_ns in enumerate(interruptions_ns):
        seen_ns[2 * place + 1] += interruption_ns
    tick = tick_from(seen_ns, period_ns)
    assert tick is not None
    assert tick.period_ns == period_ns
    assert 0 <= tick.phase_ns < period_ns
    assert circular_distance(tick.phase_ns, phase_ns, period_ns) <= 20_000


def test_a_clock_that_advances_at_no_steady_time_has_no_tick():
    assert tick_from([k * 4_000_000 + k * 450_000 for k in range(9)], 4_000_000) is None


@given(period_ns=periods, ticks=st.floats(0, 250))
def test_readings_are_taken_at_whole_ticks_as_near_to_the_asked_interval_as_they_come(period_ns, ticks):
    interval_ns = max(int(ticks * period_ns), 1)
    schedule = Tick(period_ns, 123).schedule(interval_ns)
    assert schedule.interval_ns % period_ns == 0
    assert schedule.interval_ns > 0
    if interval_ns >= period_ns:
        assert abs(schedule.interval_ns - interval_ns) <= period_ns / 2 + 1


def test_the_tick_of_this_machine_has_the_period_of_its_coarse_clock():
    tick = observe_tick()
    assert tick is None or tick.period_ns == round(time.clock_getres(6) * 1e9)
