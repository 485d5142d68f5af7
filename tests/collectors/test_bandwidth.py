from __future__ import annotations

import itertools
import os
import threading
import time
from dataclasses import replace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.bandwidth import buffer_bytes, measure_bandwidth, read_rounds
from k3prof.collectors.host_facts import host_facts
from k3prof.collectors.host_settings import host_settings
from k3prof.core.machine.host import HostSettings
from k3prof.errors import MachineError
from tests.doubles.machines import FACTS, SETTINGS

MIB = 2**20


@given(cache=st.integers(0, 2**30), caches=st.integers(1, 32), available=st.integers(0, 2**42))
def test_the_buffer_is_far_larger_than_the_caches_and_at_most_a_quarter_of_what_is_free(cache, caches, available):
    facts = replace(FACTS, last_level_cache_bytes=cache, memory_available_bytes=available)
    settings = replace(SETTINGS, last_level_caches=caches)
    try:
        size = buffer_bytes(facts, settings)
    except MachineError as error:
        assert available / 4 < max(4 * cache * caches, 8 * MIB)
        assert "free " in error.hint
    else:
        assert 4 * cache * caches <= size <= available / 4


def test_an_unknown_cache_still_gives_half_a_gibibyte():
    assert buffer_bytes(replace(FACTS, last_level_cache_bytes=None), HostSettings(cores=((0,),))) == 512 * MIB


def test_bytes_are_counted_once_each_over_the_time_they_took(monkeypatch):
    """A clock that passes 1 ms per look: each look comes after one more block of 8 MiB, whatever the duration."""
    clock_ns = itertools.count(0, 1_000_000)
    monkeypatch.setattr(time, "perf_counter_ns", lambda: next(clock_ns))
    rates = read_rounds([min(os.sched_getaffinity(0))], 16 * MIB, rounds=3, round_s=0.0065)
    assert rates == (pytest.approx(8 * MIB / 1e6),) * 3


def test_this_process_may_run_everywhere_afterwards_and_no_thread_is_left():
    allowed = os.sched_getaffinity(0)
    read_rounds(sorted(allowed), 16 * MIB, 1, 0.01)
    assert os.sched_getaffinity(0) == allowed
    assert threading.active_count() == 1


def test_a_processor_that_does_not_exist_ends_all_threads_with_its_error():
    cpu = min(os.sched_getaffinity(0))
    with pytest.raises((OSError, threading.BrokenBarrierError)):
        read_rounds([cpu, 100_000], 16 * MIB, 1, 0.01)
    assert threading.active_count() == 1


def test_this_machine_is_measured_with_one_thread_up_to_all_its_cores():
    facts = replace(host_facts(), memory_available_bytes=min(psutil.virtual_memory().available, 2**30))
    facts = replace(facts, last_level_cache_bytes=MIB)
    told = []
    measured = measure_bandwidth(facts, host_settings(), lambda done, total: told.append((done, total)))
    threads = [reading.threads for reading in measured.readings]
    assert threads[0] == 1
    assert threads[-1] == max(int(facts.cores_usable), 1)
    assert told == [(done, len(threads)) for done in range(len(threads) + 1)]
    assert measured.buffer_bytes <= 2**28
    assert measured.is_of(facts)
    assert all(reading.gb_per_s > 0 for reading in measured.readings)


def test_without_known_processors_nothing_is_measured():
    with pytest.raises(MachineError, match="which processors"):
        measure_bandwidth(FACTS, HostSettings())
