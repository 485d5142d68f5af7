from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.process import Process, ProcessMemory, ProcessorTime, ProcessStat, parse_stat
from k3prof.collectors.tick import Tick
from k3prof.core.timeline import Counter
from tests.doubles.busy import ASLEEP, ENDED_THREAD, next_account, running


@given(
    name=st.text(st.characters(exclude_characters="\0"), max_size=15),
    state=st.sampled_from("RSDTtZXI"),
    major_faults=st.integers(0, 2**63),
)
def test_a_program_of_any_name_does_not_shift_the_fields(name, state, major_faults):
    text = f"4242 ({name}) {state} 1 4242 4242 0 -1 4194304 832 0 {major_faults} 77 16 2 0 0 20 0 1 0 123 1 1\n"
    assert parse_stat(text) == ProcessStat(state, major_faults)
    assert parse_stat(text).dead == (state in "ZX")


@given(st.text(st.characters(exclude_characters=")"), max_size=40))
def test_a_line_that_ends_too_early_is_refused(text):
    with pytest.raises(ValueError, match="no line of /proc"):
        parse_stat(f"4242 (x) S 1 2 3 {''.join(text.split())}")


def test_threads_that_have_ended_count():
    with running(ENDED_THREAD) as child:
        _, spent_ns = next_account(child)
        process = Process(child.pid)
        seen_ns = process.processor_time_ns()
        process.close()
    assert spent_ns >= 300_000_000
    assert seen_ns is not None
    # What it spends between accounting and sleeping is a few system calls.
    assert 0 <= seen_ns - spent_ns < 20_000_000


def test_memory_is_what_psutil_sees_of_a_sleeping_process():
    with running(ASLEEP) as child:
        next_account(child)
        process = Process(child.pid)
        reading = process.memory_and_faults()
        process.close()
        expected_bytes = psutil.Process(child.pid).memory_info().rss
    assert reading is not None
    assert reading[0] == pytest.approx(expected_bytes, rel=0.05)
    assert reading[1] == pytest.approx(0, abs=10_000)


def test_an_ended_process_is_unknown_even_before_its_parent_asks():
    with running(ASLEEP) as child:
        next_account(child)
        process = Process(child.pid)
        assert process.memory_and_faults() is not None
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert Path(f"/proc/{child.pid}").exists()
        assert process.memory_and_faults() is None
        assert process.processor_time_ns() is None
        process.close()


def test_a_process_that_was_asked_for_after_its_end_is_unknown():
    with running(ASLEEP) as child:
        next_account(child)
        process = Process(child.pid)
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert process.processor_time_ns() is None
        assert process.memory_and_faults() is None
        never = Process(child.pid)
        assert (never.processor_time_ns(), never.memory_and_faults()) == (None, None)
        process.close()
        never.close()


def test_the_files_of_a_process_do_not_pass_to_another_of_the_same_pid():
    last_pid = Path("/proc/sys/kernel/ns_last_pid")
    if not os.access(last_pid, os.W_OK):
        pytest.skip("choosing the next pid needs root")
    with running(ASLEEP) as child:
        next_account(child)
        process = Process(child.pid)
        child.kill()
        child.wait()
        assert process.processor_time_ns() is None
    for _ in range(200):
        last_pid.write_text(str(child.pid - 1))
        with running(ASLEEP) as successor:
            if successor.pid == child.pid:
                assert process.processor_time_ns() is None
                assert process.memory_and_faults() is None
                return
    pytest.skip("another program took every pid that was asked for")


def test_one_dead_process_leaves_the_readings_of_others_in_their_places():
    with running(ASLEEP) as dying, running(ASLEEP) as living:
        next_account(dying)
        next_account(living)
        processes = [("RPC0", Process(dying.pid)), ("RPC1", Process(living.pid))]
        times = ProcessorTime(processes, 5_000_000, Tick(4_000_000, 0))
        memory = ProcessMemory(processes, 500_000_000)
        dying.kill()
        dying.wait()
        dead_ns, alive_ns = times.read()
        assert dead_ns is None
        assert alive_ns is not None
        assert alive_ns > 0
        assert [value is None for value in memory.read()] == [True, True, False, False]
        for _, process in processes:
            process.close()
    assert [(channel.device, channel.counter) for channel in times.channels] == [
        ("RPC0", Counter.CPU_TIME_NS),
        ("RPC1", Counter.CPU_TIME_NS),
    ]
    assert {channel.period_ns for channel in times.channels} == {4_000_000}


def test_readings_that_were_torn_apart_are_taken_again():
    class Clock(Process):
        """Its time is how often it was read; the first reading is held up."""

        def __init__(self) -> None:
            self.reads = 0

        def processor_time_ns(self) -> int:
            self.reads += 1
            if self.reads == 1:
                time.sleep(0.005)
            return self.reads

    first, second = Clock(), Clock()
    second.reads = 1
    one, other = ProcessorTime([("RPC0", first), ("RPC1", second)], 5_000_000, None).read()
    assert one >= 2
    assert other == one + 1
