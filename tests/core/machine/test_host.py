from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.machine.host import BusyProcess, HostActivity, HostSettings

# Sixteen threads on eight cores, numbered as Intel does: siblings are eight apart.
SIBLINGS = HostSettings(cores=tuple((cpu, cpu + 8) for cpu in range(8)))


def test_few_threads_are_spread_over_the_physical_cores():
    assert SIBLINGS.processors(1) == [0]
    assert SIBLINGS.processors(2) == [0, 4]
    assert SIBLINGS.processors(4) == [0, 2, 4, 6]
    assert SIBLINGS.processors(8) == list(range(8))


def test_cores_are_shared_only_when_all_are_used():
    assert SIBLINGS.processors(10) == [*range(8), 8, 9]


@given(st.integers(1, 16))
def test_every_thread_gets_a_processor_of_its_own(count):
    chosen = SIBLINGS.processors(count)
    assert len(set(chosen)) == len(chosen) == count
    assert len({cpu % 8 for cpu in chosen}) == min(count, 8)


def test_load_that_no_process_accounts_for_is_never_negative_and_unknown_without_a_total():
    busy = [BusyProcess(1, "a", 1.0)]
    assert HostActivity(0.5, busy_cores=0.9, busy=busy).unseen_cores == 0.0
    assert HostActivity(0.5, busy=busy).unseen_cores is None
