from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.machine.host_bandwidth import BandwidthReading, HostBandwidth, thread_counts
from tests.doubles.machines import FACTS


def measured(*rates: float) -> HostBandwidth:
    readings = tuple(BandwidthReading(threads, (rate / 2, rate)) for threads, rate in enumerate(rates, start=1))
    return HostBandwidth("AMD EPYC 7453", 4, 1 << 30, 1_790_000_000, readings)


def test_the_plateau_begins_where_more_threads_gain_less_than_five_percent():
    assert measured(17, 33, 39, 40, 39.9).plateau.threads == 3
    assert measured(17, 33, 37, 40).plateau.threads == 4


def test_the_ceiling_is_the_best_round_of_the_best_reading_and_says_that_it_was_measured():
    bandwidth = measured(17, 33.5, 30).bandwidth
    assert (bandwidth.gb_per_s, bandwidth.origin) == (33.5, "measured")


@given(st.lists(st.floats(0.1, 1000), min_size=1))
def test_the_plateau_never_needs_more_threads_than_the_best(rates):
    bandwidth = measured(*rates)
    assert bandwidth.plateau.threads <= bandwidth.best.threads
    assert bandwidth.plateau.gb_per_s >= 0.95 * bandwidth.best.gb_per_s


def test_a_measurement_belongs_to_a_machine_of_that_processor_and_that_many_cores():
    assert measured(17).is_of(FACTS)
    assert not measured(17).is_of(replace(FACTS, cpu_quota_cores=2.0))
    assert not measured(17).is_of(replace(FACTS, cpu_model="another"))


def test_every_number_of_threads_is_tried_while_there_are_few_and_ever_fewer_of_many():
    assert thread_counts(1) == [1]
    assert thread_counts(2) == [1, 2]
    assert thread_counts(7) == [1, 2, 3, 4, 6, 7]
    assert thread_counts(96) == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96]


@given(st.integers(1, 1024))
def test_thread_counts_rise_from_one_to_the_most(most):
    counts = thread_counts(most)
    assert counts == sorted(set(counts))
    assert (counts[0], counts[-1]) == (1, most)
    assert len(counts) <= 2 * most.bit_length()
