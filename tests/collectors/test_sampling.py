from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence

import numpy as np

from k3prof.collectors.sampling import Desk
from k3prof.collectors.source import Channel, Schedule
from k3prof.core.timeline import Counter, Series

INTERVAL_NS = 1_000_000
PATIENCE_S = 20.0


class Scripted:
    """A source that gives the rows of a script, then the last one for ever."""

    def __init__(self, channels: dict[str, Counter], rows: list[list[float | None] | Exception]) -> None:
        self.channels = tuple(Channel(device, counter, INTERVAL_NS) for device, counter in channels.items())
        self.schedule = Schedule(INTERVAL_NS, 250_000)
        self._rows = rows
        self.reads = 0

    def read(self) -> list[float | None]:
        row = self._rows[min(self.reads, len(self._rows) - 1)]
        self.reads += 1
        if isinstance(row, Exception):
            raise row
        return row


def wait_for(sources: Sequence[Scripted], reads: int) -> None:
    give_up_s = time.monotonic() + PATIENCE_S
    while any(source.reads <= reads for source in sources):
        assert time.monotonic() < give_up_s, "the sampler does not read"
        time.sleep(0.002)


@contextlib.contextmanager
def started(*sources: Scripted) -> Iterator[Desk]:
    desk = Desk("sampler", sources)
    desk.start()
    try:
        yield desk
    finally:
        desk.stop()


def collect_after(reads: int, *sources: Scripted) -> list[Series]:
    with started(*sources) as desk:
        wait_for(sources, reads)
        return desk.collect()


def find(collected: list[Series], device: str, counter: Counter) -> Series:
    (series,) = [one for one in collected if (one.device, one.counter) == (device, counter)]
    return series


def test_a_reading_that_fails_is_a_gap_and_counts_against_its_device_alone():
    source = Scripted(
        {"RPC0": Counter.CPU_TIME_NS, "RPC1": Counter.CPU_TIME_NS},
        [[1.0, 10.0], [None, 20.0], [3.0, 30.0], [None, 40.0], [5.0, 50.0]],
    )
    collected = collect_after(5, source)
    first, second = (find(collected, device, Counter.CPU_TIME_NS) for device in ("RPC0", "RPC1"))
    assert first.value[:3].tolist() == [1.0, 3.0, 5.0]
    assert second.value[:5].tolist() == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert first.time_ns[:3].tolist() == second.time_ns[[0, 2, 4]].tolist()
    assert find(collected, "RPC0", Counter.READ_ERRORS).value.tolist() == [2.0]
    assert find(collected, "RPC1", Counter.READ_ERRORS).value.tolist() == [0.0]


def test_errors_are_counted_over_all_sources_of_a_device_and_never_forgotten():
    sources = [
        Scripted({"RPC0": Counter.CPU_TIME_NS}, [[None], [2.0]]),
        Scripted({"RPC0": Counter.MEMORY_BYTES}, [[None], [None], [3.0]]),
    ]
    with started(*sources) as desk:
        wait_for(sources, 3)
        collected = desk.collect()
        wait_for(sources, max(source.reads for source in sources))
        later = desk.collect()
    assert find(collected, "RPC0", Counter.READ_ERRORS).value.tolist() == [3.0]
    assert find(later, "RPC0", Counter.READ_ERRORS).value.tolist() == [3.0]
    assert find(later, "RPC0", Counter.READ_ERRORS).time_ns > find(collected, "RPC0", Counter.READ_ERRORS).time_ns


def test_a_counter_of_which_nothing_could_be_read_has_no_samples_only_errors():
    collected = collect_after(3, Scripted({"CUDA1": Counter.POWER_W}, [[None]]))
    assert {(series.device, series.counter) for series in collected} == {
        ("CUDA1", Counter.READ_ERRORS),
        ("sampler", Counter.LATENESS_NS),
    }


def test_a_source_that_raises_ends_alone_and_says_so():
    broken = Scripted({"RPC0": Counter.CPU_TIME_NS}, [[1.0], OSError("wires crossed")])
    sound = Scripted({"RPC1": Counter.CPU_TIME_NS}, [[1.0]])
    with started(broken, sound) as desk:
        desk.lanes[0].join(PATIENCE_S)
        wait_for([sound], sound.reads + 5)
        failures, collected = desk.failures(), desk.collect()
        assert desk.failures() == []
    assert failures == ["reading RPC0 ended: OSError: wires crossed"]
    assert find(collected, "RPC0", Counter.CPU_TIME_NS).value.tolist() == [1.0]
    assert find(collected, "RPC1", Counter.CPU_TIME_NS).value.size >= 5


def test_samples_are_dated_by_their_deadline_and_its_lateness_in_order():
    source = Scripted({"RPC0": Counter.CPU_TIME_NS}, [[1.0]])
    collected = collect_after(50, source)
    late = find(collected, "sampler", Counter.LATENESS_NS)
    deadlines_ns = late.time_ns - late.value.astype(np.int64)
    assert set((deadlines_ns % INTERVAL_NS).tolist()) == {250_000}
    assert (np.diff(late.time_ns) > 0).all()
    assert (late.value >= 0).all()
    assert late.time_ns.tolist() == find(collected, "RPC0", Counter.CPU_TIME_NS).time_ns.tolist()


def test_deadlines_that_a_slow_reading_passed_are_skipped_not_made_up_for_in_a_burst():
    class SlowAtFirst(Scripted):
        def read(self) -> list[float | None]:
            if self.reads == 1:
                time.sleep(0.0105)
            return super().read()

    late = find(collect_after(20, SlowAtFirst({"CUDA0": Counter.BUSY_FRAC}, [[1.0]])), "sampler", Counter.LATENESS_NS)
    assert late.value.max() >= 10 * INTERVAL_NS
    deadlines_ns = late.time_ns - late.value.astype(np.int64)
    skipped = np.diff(deadlines_ns) // INTERVAL_NS - 1
    assert skipped.tolist() == (late.value[:-1] // INTERVAL_NS).tolist()


def test_a_slow_source_does_not_delay_another():
    class Stuck(Scripted):
        def read(self) -> list[float | None]:
            self.reads += 1
            time.sleep(3600)
            return [0.0]

    stuck = Stuck({"CUDA0": Counter.BUSY_FRAC}, [[0.0]])
    prompt = Scripted({"RPC0": Counter.CPU_TIME_NS}, [[1.0]])
    with started(stuck, prompt) as desk:
        wait_for([prompt], 20)
        assert find(desk.collect(), "RPC0", Counter.CPU_TIME_NS).value.size >= 20


def test_nanoseconds_of_a_hundred_days_keep_their_last_digit():
    collected = collect_after(1, Scripted({"RPC0": Counter.CPU_TIME_NS}, [[9_007_199_254_740_991]]))
    assert find(collected, "RPC0", Counter.CPU_TIME_NS).value[0] == 9_007_199_254_740_991


class Recorded:
    """A record that gives these series one after another, then nothing, and one more at the end."""

    def __init__(self, device: str, drained: list[Series], rest: list[Series]) -> None:
        self.device = device
        self.schedule = Schedule(INTERVAL_NS)
        self.drains = 0
        self._drained, self._rest = drained, rest

    def drain(self) -> list[Series]:
        self.drains += 1
        return [self._drained[self.drains - 1]] if self.drains <= len(self._drained) else []

    def finish(self) -> list[Series]:
        return self._rest


def busy(time_ns: int, value: float) -> Series:
    return Series("CUDA0", Counter.BUSY_FRAC, 200_000_000, np.array([time_ns]), np.array([value]))


def test_a_record_is_drained_again_and_again_and_once_more_at_the_end_with_its_own_times():
    record = Recorded("CUDA0", [busy(5, 0.1), busy(7, np.nan), busy(9, 0.3)], [busy(11, 0.4)])
    desk = Desk("sampler.gpu", [], [record])
    desk.start()
    give_up_s = time.monotonic() + PATIENCE_S
    while record.drains < 5:
        assert time.monotonic() < give_up_s
        time.sleep(0.002)
    desk.stop(PATIENCE_S)
    collected = desk.collect()
    drained = [one for one in collected if one.counter is Counter.BUSY_FRAC]
    assert np.concatenate([one.time_ns for one in drained]).tolist() == [5, 9, 11]
    assert np.concatenate([one.value for one in drained]).tolist() == [0.1, 0.3, 0.4]
    assert find(collected, "CUDA0", Counter.READ_ERRORS).value.tolist() == [1.0]
    assert {one.counter for one in collected} == {Counter.BUSY_FRAC, Counter.READ_ERRORS}


def test_a_record_that_hangs_delays_the_end_by_its_patience_and_takes_nothing_with_it():
    class Hanging(Recorded):
        def drain(self) -> list[Series]:
            self.drains += 1
            time.sleep(3600)
            return []

    hanging, sound = Hanging("CUDA1", [], []), Recorded("CUDA0", [], [busy(11, 0.4)])
    desk = Desk("sampler.gpu", [], [hanging, sound])
    desk.start()
    while hanging.drains < 1:
        time.sleep(0.002)
    desk.stop(0.2)
    assert find(desk.collect(), "CUDA0", Counter.BUSY_FRAC).value.tolist() == [0.4]


def test_a_record_that_raises_ends_alone_and_says_so():
    class Broken(Recorded):
        def drain(self) -> list[Series]:
            raise OSError("wires crossed")

    desk = Desk("sampler.gpu", [], [Broken("CUDA1", [], [])])
    desk.start()
    desk.lanes[0].join(PATIENCE_S)
    assert desk.failures() == ["reading CUDA1 ended: OSError: wires crossed"]
