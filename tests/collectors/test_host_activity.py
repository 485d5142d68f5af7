from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.host_activity import (
    ProcessorTimes,
    Snapshot,
    activity_between,
    is_k3prof,
    parse_processor_times,
    running_programs,
    watch,
)
from k3prof.core.machine.host import Owner
from tests.doubles.busy import DUTY_CYCLE, next_account, running

STAT = """cpu  100 5 40 800 15 2 3 35 50 0
cpu0 50 2 20 400 8 1 2 17 25 0
cpu1 50 3 20 400 7 1 1 18 25 0
intr 1 2 3
"""


def test_stolen_time_is_kept_apart_from_busy_and_idle_time():
    """proc_stat(5): user nice system idle iowait irq softirq steal guest guest_nice; guest is in user already."""
    assert parse_processor_times(STAT) == ProcessorTimes(
        busy=100 + 5 + 40 + 2 + 3, steal=35, total=100 + 5 + 40 + 800 + 15 + 2 + 3 + 35, processors=2
    )


def test_an_old_kernel_without_steal_has_none():
    assert parse_processor_times("cpu 10 0 5 100\ncpu0 10 0 5 100\n") == ProcessorTimes(15, 0, 115, 1)


@given(st.text() | st.text().map(lambda text: f"cpu {text}"))
def test_any_text_in_place_of_proc_stat_is_survived(text):
    parse_processor_times(text)


def snapshot(at_s, busy, steal, total, processes=None, throttled_ns=None, swapped=None) -> Snapshot:
    return Snapshot(
        int(at_s * 1e9), ProcessorTimes(busy, steal, total, processors=4), processes or {}, throttled_ns, swapped
    )


def test_what_happened_between_two_snapshots_is_told_in_cores_and_shares():
    before = snapshot(10.0, 1000, 10, 10_000, {7: ("a", 3.0), 8: ("b", 5.0)}, 100, 5)
    after = snapshot(10.5, 1100, 20, 10_200, {7: ("a", 3.1), 8: ("b", 5.5), 9: ("c", 0.05)}, 600, 9)
    activity = activity_between(before, after, [])
    assert activity.interval_s == pytest.approx(0.5)
    assert activity.busy_cores == pytest.approx(2.0)  # 100 of 200 units, on 4 processors
    assert activity.steal_frac == pytest.approx(0.05)
    assert activity.steal_since_boot_frac == pytest.approx(20 / 10_200)
    assert [(one.pid, one.name, pytest.approx(one.cores)) for one in activity.busy] == [
        (8, "b", 1.0),
        (7, "a", 0.2),
        (9, "c", 0.1),
    ]
    assert (activity.throttled_ns, activity.swapped_in_pages) == (500, 4)


def test_without_counters_everything_but_the_processes_is_unknown():
    nothing = Snapshot(0, None, {}, None, None)
    later = Snapshot(500_000_000, None, {}, None, None)
    activity = activity_between(nothing, later, [])
    assert activity.busy_cores is activity.steal_frac is activity.throttled_ns is activity.swapped_in_pages is None


def test_a_process_that_works_is_seen_with_its_share_of_a_core_and_this_one_is_not_among_them():
    with running(DUTY_CYCLE) as process:
        next_account(process)
        began_ns, spent_ns = next_account(process)
        activity = watch(0.5, [])
        for _ in range(4):
            ended_ns, spent_later_ns = next_account(process)
    share = (spent_later_ns - spent_ns) / (ended_ns - began_ns)
    cores = {one.pid: one.cores for one in activity.busy}
    assert psutil.Process().pid not in cores
    # It works 30 ms in every 100 ms, where the machine lets it; the kernel counts in hundredths of a second.
    assert cores[process.pid] == pytest.approx(share, abs=0.2)
    assert activity.busy_cores >= cores[process.pid] - 0.2


@contextlib.contextmanager
def sleeping(argv: list[str], executable: str = "/bin/sleep") -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(argv, executable=executable) as process:
        try:
            yield process
        finally:
            process.kill()


def test_a_server_that_somebody_started_is_found_by_its_program():
    with sleeping(["/opt/llama/llama-server", "1000"]) as process:
        (found,) = [one for one in running_programs(["llama-server"]) if one.pid == process.pid]
    assert (found.name, found.owner) == ("llama-server", Owner.OTHER)
    assert found.memory_bytes > 0


_PARENT = """
import subprocess, sys
child = subprocess.Popen(["ggml-rpc-server", "1000"], executable="/bin/sleep", stdout=subprocess.DEVNULL)
print(child.pid, flush=True)
sys.stdin.readline()
child.kill()
"""


def test_a_server_of_a_running_sweep_is_known_by_its_parent(tmp_path: Path):
    program = tmp_path / "k3prof"
    program.write_text(_PARENT)
    assert owner_of_child([sys.executable, str(program), "sweep"], "ggml-rpc-server") is Owner.SWEEP


def test_a_server_with_k3profs_alias_and_another_parent_is_an_orphan():
    server = "exec -a llama-server /bin/sh -c 'echo $$; read line' --alias k3prof-0123456789abcdef"
    assert owner_of_child(["/bin/bash", "-c", f"({server}); true"], "llama-server") is Owner.ORPHAN


def owner_of_child(argv: list[str], program: str) -> Owner:
    """Start a command that starts a program, prints its pid and waits for a line; return who owns the program."""
    pipe = subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe, text=True) as parent:
        child = int(parent.stdout.readline())
        owners = {one.pid: one.owner for one in running_programs([program])}
        parent.communicate("\n")
    return owners[child]


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["/home/me/.venv/bin/python3", "/home/me/.venv/bin/k3prof", "sweep", "placements/"], True),
        (["python3.11", "-m", "k3prof.cli.main", "sweep"], True),
        (["k3prof"], True),
        (["code", "/home/me/k3prof"], False),
        (["/bin/bash", "-c", "k3prof sweep"], False),
        (["python3", "-m"], False),
        (["python3"], False),
        ([], False),
    ],
)
def test_k3prof_is_known_by_its_command(argv, expected):
    assert is_k3prof(argv) is expected
