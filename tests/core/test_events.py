from __future__ import annotations

from k3prof.core.events import DeviceEvent, EventKind, Watch, event_caveats, foreign_programs

S = 1_000_000_000
SERVER, STRANGER = 100, 200
WATCH = Watch(begun_ns=10 * S, served_ns=12 * S, own_pids={SERVER})


def event(kind: EventKind, detail: str = "", *, at_s: float = 15, device: str = "CUDA0", number: int | None = None):
    return DeviceEvent(int(at_s * S), device, kind, detail, number)


def program(pid: int, at_s: float, device: str = "CUDA0") -> DeviceEvent:
    return event(EventKind.PROCESS, f"pid {pid}", at_s=at_s, device=device, number=pid)


def test_a_lost_gpu_is_named_with_its_time_in_the_trial():
    (caveat,) = event_caveats([event(EventKind.LOST, "GPU is lost", device="CUDA1", at_s=22.34)], WATCH)
    assert caveat.code == "device-lost"
    assert caveat.message == "CUDA1: lost after 12.3 s: GPU is lost"


def test_errors_of_one_kind_are_one_caveat_with_their_number():
    xids = [event(EventKind.XID, "Xid 31 (memory page fault)", at_s=at_s, number=31) for at_s in (11, 12, 13)]
    other = event(EventKind.ECC, "a memory error that could not be corrected", device="", at_s=14)
    first, second = event_caveats([*xids, other], WATCH)
    assert (first.code, first.message) == (
        "gpu-xid",
        "CUDA0: Xid 31 (memory page fault), 3 times, first after 1.0 s",
    )
    assert second.message == "a GPU: a memory error that could not be corrected, after 4.0 s"


def test_programs_are_foreign_when_the_driver_names_the_trials_own_among_them():
    events = [program(SERVER, 13), program(STRANGER, 14), program(STRANGER, 14, "CUDA1")]
    assert foreign_programs(events, WATCH) == events[1:]
    (caveat,) = event_caveats(events, WATCH)
    assert caveat.message == f"CUDA0, CUDA1: another program computed there: pid {STRANGER}"


def test_where_the_driver_counts_processes_otherwise_only_what_was_there_before_is_certain_to_be_foreign():
    before, after = program(STRANGER, 11), program(7777, 13)
    assert foreign_programs([before, after], WATCH) == [before]


def test_the_trials_own_programs_alone_are_no_caveat():
    assert event_caveats([program(SERVER, 13), program(SERVER, 13, "CUDA1")], WATCH) == []


def test_counters_that_gpus_lack_are_said_once_for_all_gpus_that_lack_the_same():
    lacking = [event(EventKind.LACKS, detail, device=d) for d in ("CUDA0", "CUDA1") for detail in ("energy_j", "x")]
    (caveat,) = event_caveats([*lacking, event(EventKind.LACKS, "x", device="CUDA2")], WATCH)
    assert caveat.message == "not offered by the driver: CUDA0, CUDA1: energy_j, x; CUDA2: x"


def test_the_ways_between_gpus_are_no_caveat():
    assert event_caveats([event(EventKind.PEER, "CUDA1: over one PCIe switch (PIX)")], WATCH) == []
