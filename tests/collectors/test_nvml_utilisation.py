from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.nvml_library import WatchedGpu
from k3prof.collectors.nvml_utilisation import (
    LONGEST_WINDOW_NS,
    Track,
    UtilisationRecord,
    on_monotonic_clock,
    snapshot,
    spacing_ns,
)
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.idle import parallelism
from k3prof.core.timeline import Counter, Series
from tests.doubles.clocks import UNIX_S, StandingClock
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import FakeGpu, Fault, Record, replayed, square_wave

UUID = "GPU-11111111-aaaa"
S = 1_000_000_000
WINDOWS_S = [1 / 6, 0.2, 1.0]


class Session:
    """GPUs watched on a clock that is set, as the sampling process watches them."""

    def __init__(self, gpus: Sequence[FakeGpu], clock: StandingClock | None = None) -> None:
        self.clock = clock or StandingClock()
        self.events: list[DeviceEvent] = []
        self.gpus = gpus
        watched = [WatchedGpu(f"CUDA{place}", gpu.uuid, self.events.append) for place, gpu in enumerate(gpus)]
        self.records = [UtilisationRecord(gpu, S, self.clock.gettime_ns) for gpu in watched]
        self.taken: list[Series] = []

    def run(self, seconds: float) -> None:
        until_s = self.clock.now_s + seconds
        while self.clock.now_s < until_s:
            due_ns = min(one.schedule.next_after(round(self.clock.now_s * 1e9)) for one in self.records)
            self.clock.now_s = due_ns / 1e9
            self.taken += [series for record in self.records for series in record.drain()]

    def finish(self) -> list[Series]:
        self.taken += [series for record in self.records for series in record.finish()]
        return [self.series(record.device, Counter.BUSY_FRAC) for record in self.records]

    def series(self, device: str, counter: Counter = Counter.BUSY_FRAC) -> Series:
        parts = [one for one in self.taken if (one.device, one.counter) == (device, counter)]
        assert len({part.period_ns for part in parts}) == 1
        time_ns, value = (np.concatenate([getattr(part, name) for part in parts]) for name in ("time_ns", "value"))
        return Series(device, counter, parts[0].period_ns, time_ns, value)


def gpu(**script) -> FakeGpu:
    return FakeGpu(UUID, 1, **({"record": Record(epoch_s=UNIX_S)} | script))


def turns(devices: int, slot_s: float = 0.028, gap_s: float = 0.0, **script) -> list[FakeGpu]:
    cycle_s = devices * slot_s + gap_s
    waves = [square_wave(cycle_s, slot_s, place * slot_s) for place in range(devices)]
    return [FakeGpu(f"GPU-{place}", 1 + place, busy=wave, **script) for place, wave in enumerate(waves)]


def window_ends(series: Series) -> np.ndarray:
    return np.rint(series.time_ns / series.period_ns)


@pytest.mark.parametrize("window_s", WINDOWS_S)
def test_every_window_of_the_driver_is_returned_once_with_its_end_on_the_monotonic_clock(window_s):
    busy = square_wave(0.112, 0.028)
    with installed(FakeNvml([gpu(busy=busy, window_s=window_s)], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        session.run(20)
        (series,) = session.finish()
    assert series.period_ns == pytest.approx(window_s * 1e9, rel=1e-4)
    ends = window_ends(series)
    assert ends.tolist() == list(range(int(ends[0]), int(ends[-1]) + 1))
    assert ends[0] * window_s == pytest.approx(100, abs=1.6 * window_s)
    assert ends[-1] * window_s == pytest.approx(120, abs=1.1 * window_s)
    expected = [math.floor(100 * (busy(end) - busy(end - window_s)) / window_s + 1e-9) for end in ends * window_s]
    assert (100 * series.value).tolist() == pytest.approx(expected, abs=1.01)


def test_the_record_is_drained_each_second_and_not_with_every_snapshot():
    with installed(FakeNvml([gpu()], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        library.calls.clear()
        session.run(30)
    drains = library.calls.count("nvmlDeviceGetSamples") / 2 / 2
    assert 20 <= drains <= 30
    assert library.calls.count("nvmlDeviceGetUtilizationRates") == pytest.approx(180, abs=2)


@pytest.mark.parametrize("epoch", ["1970", "boot", "monotonic"])
def test_whatever_clock_the_driver_dates_by_readings_get_the_same_monotonic_times(epoch):
    clock = StandingClock(asleep_s=5000.0)
    epoch_s = {"1970": UNIX_S, "boot": 5000.0, "monotonic": 0.0}[epoch]
    script = {"busy": square_wave(0.3, 0.1), "window_s": 0.2, "record": Record(epoch_s=epoch_s)}
    with installed(FakeNvml([gpu(**script)], clock=clock)) as library:
        session = Session(library.gpus, clock)
        session.run(5)
        (series,) = session.finish()
    assert series.time_ns[:5].tolist() == pytest.approx([100.2e9, 100.4e9, 100.6e9, 100.8e9, 101e9], abs=2000)
    assert series.time_ns.size == 25


def test_a_clock_that_is_set_while_watching_moves_no_reading_by_more_than_the_drains_around_it():
    clock = StandingClock()
    with installed(FakeNvml([gpu(percent=50, window_s=0.2)], clock=clock)) as library:
        session = Session(library.gpus, clock)
        session.run(5)
        clock.unix_s += 30.0
        library.gpus[0].record = Record(epoch_s=UNIX_S + 30.0)
        session.run(5)
        (series,) = session.finish()
    assert np.diff(series.time_ns).min() > 0.1 * S
    assert series.time_ns.size == pytest.approx(50, abs=3)


def test_unused_impossible_and_future_entries_are_dropped():
    now_us = round((UNIX_S + 100.5) * 1e6)
    stray = [(0, 77), (now_us, 4_000_000_000), (now_us + 3_600_000_000, 77), (2**63 + 5, 77), (now_us - 10**9, 101)]
    script = {"percent": 40, "window_s": 0.2, "record": Record(epoch_s=UNIX_S, stray=stray)}
    with installed(FakeNvml([gpu(**script)], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        session.run(10)
        (series,) = session.finish()
    assert series.period_ns == 200_000_000
    assert set(series.value.tolist()) == {0.4}
    assert series.time_ns.size == 50
    assert (np.diff(series.time_ns) > 0).all()


def test_a_hole_in_the_record_is_filled_by_the_snapshot_that_fell_into_it():
    class Holey(FakeGpu):
        def recorded(self, kind, at_s):
            return [one for one in super().recorded(kind, at_s) if one[0] % 1_000_000 != 600_000]

    holey = Holey(UUID, 1, percent=30, window_s=0.2, record=Record(epoch_s=UNIX_S))
    with installed(FakeNvml([holey], clock=(clock := StandingClock()))):
        session = Session([holey], clock)
        session.run(10)
        (series,) = session.finish()
    assert series.time_ns.size == pytest.approx(50, abs=1)
    assert np.diff(series.time_ns).max() < 0.41 * S


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_NOT_SUPPORTED])
def test_without_a_record_snapshots_tell_utilisation_once_a_window(code):
    script = {"percent": 60, "faults": [Fault(code, "nvmlDeviceGetSamples")], "encoder_period_us": 167_000}
    with installed(FakeNvml([gpu(**script)], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        session.run(10)
        (series,) = session.finish()
    assert series.period_ns == 167_000_000
    assert series.time_ns.size == pytest.approx(60, abs=1)
    assert set(series.value.tolist()) == {0.6}
    told = {event.detail.partition(" (")[0] for event in session.events}
    assert told == ({"a record of busy_frac", "a record of memory_busy_frac"} if code == 3 else set())


def test_a_record_that_is_empty_while_the_gpu_idles_is_taken_up_when_it_fills():
    script = {"window_s": 0.2, "record": Record(epoch_s=UNIX_S, from_s=110.0), "busy": replayed([(110.0, 200.0)])}
    with installed(FakeNvml([gpu(**script)], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        session.run(20)
        session.taken += session.records[0].finish()
    periods = {series.period_ns for series in session.taken if series.counter is Counter.BUSY_FRAC}
    assert periods == {LONGEST_WINDOW_NS, 200_000_000}
    session.taken = [series for series in session.taken if series.period_ns == 200_000_000]
    series = session.series("CUDA0")
    later = series.time_ns > 113 * S
    assert set(series.value[later].tolist()) == {1.0}
    assert np.diff(series.time_ns[later]).max() == pytest.approx(0.2 * S, abs=2000)


def test_a_record_that_falls_silent_leaves_the_word_to_snapshots():
    script = {"percent": 20, "window_s": 0.2, "record": Record(epoch_s=UNIX_S, until_s=110.0)}
    with installed(FakeNvml([gpu(**script)], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        session.run(100)
        (series,) = session.finish()
    assert series.time_ns[-1] == pytest.approx(200 * S, abs=0.3 * S)
    assert np.diff(series.time_ns).max() <= 0.41 * S


def test_a_gpu_that_tells_no_utilisation_has_none_and_that_is_told_once():
    silent = [Fault(3, symbol) for symbol in ("nvmlDeviceGetSamples", "nvmlDeviceGetUtilizationRates")]
    with installed(FakeNvml([gpu(faults=silent)], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        session.run(5)
    assert session.taken == []
    assert [event.kind for event in session.events] == [EventKind.LACKS] * 3


def test_a_gpu_that_is_lost_is_told_once_and_its_readings_end_while_the_other_goes_on():
    clock = StandingClock()
    lost = FakeGpu("GPU-2", 2, percent=50, record=Record(UNIX_S), faults=[Fault(15, from_s=105.0)])
    with installed(FakeNvml([gpu(percent=50), lost], clock=clock)) as library:
        session = Session(library.gpus, clock)
        session.run(10)
        first, second = session.finish()
        library.calls.clear()
        session.run(2)
        assert library.calls.count("nvmlDeviceGetUtilizationRates") == pytest.approx(12, abs=1)
    assert first.time_ns[-1] > 109 * S
    assert second.time_ns[~np.isnan(second.value)][-1] < 105.2 * S
    assert np.isnan(second.value[-1])
    assert [(event.device, event.kind) for event in session.events] == [("CUDA1", EventKind.LOST)]


def test_what_the_driver_had_recorded_before_is_not_returned():
    with installed(FakeNvml([gpu(percent=90)], clock=(clock := StandingClock(now_s=500.0)))) as library:
        session = Session(library.gpus, clock)
        session.run(3)
        (series,) = session.finish()
    assert series.time_ns[0] > 500 * S


@pytest.mark.parametrize("devices", [2, 3, 5])
@pytest.mark.parametrize("window_s", WINDOWS_S)
def test_gpus_that_take_turns_have_a_parallelism_of_one_within_its_interval(devices, window_s):
    gpus = turns(devices, window_s=window_s, record=Record(UNIX_S))
    with installed(FakeNvml(gpus, clock=(clock := StandingClock()))):
        session = Session(gpus, clock)
        session.run(31)
        found = parallelism(session.finish(), [(101 * S, 130 * S)])
    assert found is not None
    assert found.low <= 1.0 <= found.high
    assert found.degree == pytest.approx(1.0, abs=0.01 * devices + 0.002)
    assert not found.proves_overlap
    assert found.resolution_ns == pytest.approx(window_s * 1e9, rel=1e-4)


def test_gpus_of_which_one_and_a_half_work_at_a_time_prove_their_overlap():
    waves = [square_wave(0.056, 0.042, place * 0.028) for place in range(2)]
    gpus = [FakeGpu(f"GPU-{n}", 1 + n, busy=wave, record=Record(UNIX_S)) for n, wave in enumerate(waves)]
    with installed(FakeNvml(gpus, clock=(clock := StandingClock()))):
        session = Session(gpus, clock)
        session.run(31)
        found = parallelism(session.finish(), [(101 * S, 130 * S)])
    assert found is not None
    assert found.low <= 1.5 <= found.high
    assert found.proves_overlap


def test_memory_utilisation_is_drained_beside_that_of_the_processors():
    with installed(FakeNvml([gpu(memory_busy=square_wave(1.0, 0.25))], clock=(clock := StandingClock()))) as library:
        session = Session(library.gpus, clock)
        session.run(12)
        session.finish()
    assert session.series("CUDA0", Counter.MEMORY_BUSY_FRAC).value.mean() == pytest.approx(0.25, abs=0.02)
    assert session.series("CUDA0").value.max() == 0


@given(percent=st.integers(101, 2**32 - 1))
def test_an_impossible_snapshot_is_unknown(percent):
    with installed(FakeNvml([gpu(percent=percent)])) as library:
        handle = pynvml.nvmlDeviceGetHandleByUUID(library.gpus[0].uuid)
        assert all(math.isnan(one) for one in snapshot(handle))


@pytest.mark.parametrize(
    ("spacing_us", "window_ns"),
    [(166_667, 166_667_000), (1_000_300, LONGEST_WINDOW_NS), (5_000_000, None), (10, None)],
)
def test_the_window_is_the_usual_spacing_of_readings_if_that_can_be_one(spacing_us, window_ns):
    record = [(10**9 + place * spacing_us + place % 2, 50.0) for place in range(9)] + [(10**12, 50.0)]
    found = spacing_ns(record)
    assert found == (None if window_ns is None else pytest.approx(window_ns, abs=2000))
    assert spacing_ns(record[:2]) is None


def test_times_of_no_clock_of_this_machine_are_not_believed():
    clock = StandingClock(now_s=1e6)
    assert on_monotonic_clock([(5 * 10**11, 10.0)] * 3, clock.gettime_ns) == []
    assert on_monotonic_clock([], clock.gettime_ns) == []


@given(
    st.lists(st.integers(1, 400), max_size=30, unique=True),
    st.lists(st.integers(1, 400), max_size=30, unique=True),
    st.lists(st.integers(0, 400), min_size=1, max_size=6),
)
def test_readings_come_in_order_half_a_window_apart_and_none_twice(record, snapshots, drains):
    track = Track(0)
    taken: list[tuple[int, float]] = []
    for upto in sorted(drains):
        for at in sorted(one for one in snapshots if one <= upto):
            track.note(at, 1.0)
        snapshots = [one for one in snapshots if one > upto]
        taken += track.take([(at, 2.0) for at in sorted(record) if at <= upto], 10, upto - 30)
    times = [at for at, _ in taken]
    assert times == sorted(set(times))
    for (earlier, _), (later, value) in pairwise(taken):
        assert later - earlier > 5 or value == 1.0
    newest = max((at for at in record if at <= max(drains)), default=0)
    assert newest - max([0, *times]) <= 5
