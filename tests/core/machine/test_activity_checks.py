from __future__ import annotations

from dataclasses import replace

import pytest

from k3prof.core.machine.activity_checks import check_activity
from k3prof.core.machine.diagnosis import Finding, Level
from k3prof.core.machine.host import BusyProcess, HostActivity, Owner, RunningProgram
from tests.doubles.machines import QUIET


def check(activity: HostActivity, load_average: float | None = 0.1) -> list[Finding]:
    return check_activity(activity, cores_visible=4, cpu_quota_cores=1.5, load_average=load_average)


def test_a_quiet_machine_gives_no_finding():
    assert check(QUIET) == []


def test_what_a_machine_does_not_tell_is_held_against_nothing():
    assert check_activity(HostActivity(0.5), None, None, None) == []


BUSY = [BusyProcess(31, "cc1plus", 1.0), BusyProcess(32, "ld", 0.4), BusyProcess(33, "sshd", 0.01)]
BAD = [
    (
        {"busy": BUSY, "busy_cores": 1.43},
        "other load",
        "1.4 cores are busy: cc1plus (pid 31) 1.00, ld (pid 32) 0.40",
        "stop",
    ),
    ({"busy_cores": 1.2}, "neighbours", "1.2 cores are busy with what does not show", "another machine"),
    (
        {"throttled_ns": 250_000_000},
        "throttled",
        "quota of 1.5 cores is used up: threads were held back 250 ms in 500 ms",
        "threads",
    ),
    (
        {"steal_frac": 0.08},
        "steal",
        "8% of this machine's processor time to others just now, 0.1% since boot",
        "dedicated",
    ),
    (
        {"steal_since_boot_frac": 0.031},
        "steal",
        "0% of this machine's processor time to others just now, 3.1%",
        "dedicated",
    ),
    ({"swapped_in_pages": 17}, "swap", "17 pages came back from swap within 500 ms", "smaller model"),
]


@pytest.mark.parametrize(("bad", "subject", "said", "remedy"), BAD)
def test_each_disturbance_gives_just_its_finding_and_a_remedy(bad, subject, said, remedy):
    (finding,) = check(replace(QUIET, **bad))
    assert (finding.level, finding.subject) == (Level.WARNING, subject)
    assert said in finding.message
    assert remedy in finding.remedy


def test_processes_that_hardly_do_anything_are_not_named():
    (finding,) = check(replace(QUIET, busy=BUSY))
    assert "sshd" not in finding.message


def test_many_small_loads_that_add_up_are_a_finding_that_names_the_largest():
    many = [BusyProcess(pid, "tiny", 0.04) for pid in range(10)]
    (finding,) = check(replace(QUIET, busy=many))
    assert finding.message == "0.4 cores are busy: tiny (pid 0) 0.04"


def test_load_that_processes_account_for_is_not_blamed_on_neighbours():
    assert {finding.subject for finding in check(replace(QUIET, busy=BUSY, busy_cores=1.7))} == {"other load"}


def test_what_k3prof_used_itself_is_not_blamed_on_anybody():
    assert check(replace(QUIET, own_cores=0.9, busy_cores=0.92)) == []


def test_recent_load_is_a_note_only_while_nothing_runs_now():
    (finding,) = check(QUIET, load_average=3.2)
    assert (finding.level, finding.subject) == (Level.NOTE, "other load")
    assert "3.2 tasks" in finding.message
    assert finding.remedy
    assert [one.level for one in check(replace(QUIET, busy=BUSY), load_average=3.2)] == [Level.WARNING]


@pytest.mark.parametrize(
    ("owner", "said", "remedy"),
    [
        (Owner.ORPHAN, "left over by a k3prof that is gone", "kill 7 9"),
        (Owner.SWEEP, "another k3prof that runs now", "wait until that sweep is done"),
        (Owner.OTHER, "run already", "if nobody needs them: kill 7 9"),
    ],
)
def test_servers_that_run_already_are_told_apart_by_who_started_them(owner, said, remedy):
    running = [
        RunningProgram(7, "llama-server", owner, 12_000_000_000),
        RunningProgram(9, "ggml-rpc-server", owner, 300_000_000),
    ]
    (finding,) = check(replace(QUIET, programs=running))
    assert (finding.level, finding.subject) == (Level.WARNING, "servers")
    assert finding.message.startswith("1 llama-server, 1 ggml-rpc-server, holding 12.3 GB, ")
    assert said in finding.message
    assert finding.remedy == remedy


def test_orphans_come_before_what_somebody_may_still_need():
    running = [RunningProgram(1, "llama-server", Owner.OTHER), RunningProgram(2, "llama-server", Owner.ORPHAN)]
    assert [finding.remedy[:4] for finding in check(replace(QUIET, programs=running))] == ["kill", "if n"]
