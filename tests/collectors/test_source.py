from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.source import Schedule

times = st.integers(0, 2**62)
intervals = st.integers(1, 10**10)


@given(interval_ns=intervals, phase_ns=st.integers(0, 10**10), time_ns=times)
def test_the_next_deadline_is_the_first_of_the_grid_after_the_time(interval_ns, phase_ns, time_ns):
    deadline_ns = Schedule(interval_ns, phase_ns).next_after(time_ns)
    assert time_ns < deadline_ns <= time_ns + interval_ns
    assert (deadline_ns - phase_ns) % interval_ns == 0


@given(interval_ns=intervals, late_ns=times)
def test_a_late_reading_does_not_shift_later_deadlines(interval_ns, late_ns):
    schedule = Schedule(interval_ns)
    deadline_ns = schedule.next_after(0)
    assert (schedule.next_after(deadline_ns + late_ns) - deadline_ns) % interval_ns == 0
