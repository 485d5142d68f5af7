from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.machine.diagnosis import Diagnosis, Finding, Level, gigabytes, listed, ranges, refusal, worst_first
from k3prof.errors import MachineError
from tests.doubles.machines import FACTS

levels = st.sampled_from(list(Level))


@given(st.lists(levels))
def test_findings_come_worst_first_and_those_of_one_level_keep_their_order(order):
    found = [Finding(level, "subject", str(place)) for place, level in enumerate(order)]
    arranged = worst_first(found)
    assert sorted(arranged, key=found.index) == found
    severities = [list(Level).index(finding.level) for finding in arranged]
    assert severities == sorted(severities)
    for level in Level:
        places = [int(finding.message) for finding in arranged if finding.level is level]
        assert places == sorted(places)


@given(st.lists(levels))
def test_only_a_problem_stands_in_the_way_of_a_sweep(order):
    diagnosis = Diagnosis([Finding(level, "", "") for level in order], FACTS, (), None)
    assert diagnosis.can_sweep is (Level.PROBLEM not in order)


@given(st.sets(st.integers(0, 300)))
def test_a_list_of_processors_reads_back_as_the_same_processors(cpus):
    parts = [part.split("-") for part in ranges(cpus).split(",") if part]
    assert {cpu for part in parts for cpu in range(int(part[0]), int(part[-1]) + 1)} == cpus


def test_processors_are_listed_as_taskset_takes_them():
    assert ranges([8, 0, 1, 2, 3]) == "0-3,8"


def test_long_lists_stop_after_a_few_and_say_how_many_follow():
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed(["a", "b", "c", "d", "e"]) == "a, b, c and 2 more"


def test_sizes_are_in_decimal_gigabytes():
    assert gigabytes(46068 * 2**20) == "48.3 GB"


def test_an_error_that_a_sweep_would_end_with_is_a_problem_with_its_hint_as_remedy():
    finding = refusal("build", MachineError("it is gone", "make it again"))
    assert finding == Finding(Level.PROBLEM, "build", "it is gone", "make it again")
