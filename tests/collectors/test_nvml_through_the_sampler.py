"""The real sampling process with a double of NVIDIA's library that it loads by itself, from call to parallelism."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from k3prof.collectors.sampler import SamplerPlan, start_sampler
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.idle import Parallelism, parallelism
from k3prof.core.timeline import Counter, Series
from tests.doubles.nvml_library import ScriptedLibrary, built, gpu

MS, S = 1_000_000, 1_000_000_000
SIXTH = S // 6
FOREIGN_PID = 2**22 + 7
WATCHED_S = 7.5
FAILS_AFTER_S = 4.0
PATIENCE_S = 30.0

TURNS, OVERLAP, REPLAYED = ("TURN0", "TURN1"), ("OVER0", "OVER1"), ("SPAN0", "SPAN1", "SPAN2")


def spans_of_tokens(begin_ns: int) -> list[list[tuple[int, int]]]:
    """Return when each of three GPUs works on tokens of uneven length, with a pause of the host after each token."""
    random = np.random.default_rng(7)
    spans: list[list[tuple[int, int]]] = [[], [], []]
    at_ns = begin_ns
    for _ in range(200):
        for own in spans:
            end_ns = at_ns + int(random.normal(28, 4) * MS)
            own.append((at_ns, end_ns))
            at_ns = end_ns
        at_ns += int(random.exponential(12) * MS)
    return spans


def truth(spans: list[list[tuple[int, int]]], begin_ns: int, end_ns: int) -> float:
    inside = [min(end, end_ns) - max(begin, begin_ns) for own in spans for begin, end in own]
    return sum(one for one in inside if one > 0) / (end_ns - begin_ns)


@dataclass(frozen=True)
class Watched:
    """What came out.

    Attributes:
        series: One per device and counter, in order of time.
        events: What happened.
        begin_ns: When everything was being watched.
        end_ns: When watching ended.
        fails_ns: When two GPUs were to fail.
        spans: What three GPUs replayed.
        took_s: How long the sampler took to stop.
        failures: What the sampler says of itself.
    """

    series: dict[tuple[str, Counter], Series]
    events: tuple[DeviceEvent, ...]
    begin_ns: int
    end_ns: int
    fails_ns: int
    spans: list[list[tuple[int, int]]]
    took_s: float
    failures: tuple[str, ...]

    def parallelism(self, devices: tuple[str, ...]) -> Parallelism:
        found = parallelism(
            [self.series[device, Counter.BUSY_FRAC] for device in devices], [(self.begin_ns, self.end_ns)]
        )
        assert found is not None
        return found

    def told(self, kind: EventKind) -> list[DeviceEvent]:
        return [event for event in self.events if event.kind is kind]


def joined(parts: list[Series]) -> dict[tuple[str, Counter], Series]:
    found: dict[tuple[str, Counter], list[Series]] = {}
    for part in parts:
        found.setdefault((part.device, part.counter), []).append(part)
    return {
        (device, counter): Series(
            device,
            counter,
            chunks[0].period_ns,
            np.concatenate([chunk.time_ns for chunk in chunks]),
            np.concatenate([chunk.value for chunk in chunks]),
        )
        for (device, counter), chunks in found.items()
    }


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Iterator[Watched]:
    begun_ns = time.monotonic_ns()
    spans = spans_of_tokens(begun_ns)
    fails_ns = begun_ns + int(FAILS_AFTER_S * S)
    window = f"window {SIXTH}"
    scripts = {
        "TURN0": ["wave 56000000 28000000 0", window, f"program {FOREIGN_PID}", "power 300000"],
        "TURN1": ["wave 56000000 28000000 28000000", window],
        "OVER0": ["wave 56000000 42000000 0", "window 200000000", "record boot"],
        "OVER1": ["wave 56000000 42000000 28000000", "window 200000000", "record boot"],
        **{
            device: [*(f"span {begin} {end}" for begin, end in own), window]
            for device, own in zip(REPLAYED, spans, strict=True)
        },
        "LOST": ["wave 100000000 50000000 0", f"lost {fails_ns}", f"xid {fails_ns - 50 * MS} 79"],
        "HUNG": ["wave 100000000 50000000 0", f"hang {fails_ns}"],
        "IDLE": ["record idle", window],
        "BARE": ["wave 100000000 25000000 0", "record none", "lacks nvmlDeviceGetTotalEnergyConsumption"],
        "STRAY": ["wave 100000000 50000000 0", "stray 0 50", "stray 99 4000000000", f"stray {2**62} 7"],
    }
    places = {device: f"GPU-{place}" for place, device in enumerate(scripts)}
    library = built(
        tmp_path_factory.mktemp("nvml"),
        [gpu(places[device], place + 1, *lines) for place, (device, lines) in enumerate(scripts.items())],
    )
    with pytest.MonkeyPatch.context() as patch:
        for name, value in library.env.items():
            patch.setenv(name, value)
        sampler = start_sampler(SamplerPlan((), tuple(places.items()), host=False))
    with sampler:
        sampler.wait_until_ready(PATIENCE_S)
        begin_ns = time.monotonic_ns()
        samples: list[Series] = []
        while time.monotonic_ns() < begin_ns + WATCHED_S * S:
            time.sleep(0.1)
            samples += sampler.poll()
        end_ns = time.monotonic_ns()
        samples += sampler.stop()
        took_s = (time.monotonic_ns() - end_ns) / S
        yield Watched(joined(samples), sampler.events, begin_ns, end_ns, fails_ns, spans, took_s, sampler.failures)


def test_the_process_ends_without_a_complaint_though_one_gpus_calls_never_return(watched):
    assert watched.failures == ()
    assert watched.took_s < PATIENCE_S


def test_gpus_that_take_turns_of_28_ms_have_a_parallelism_of_one_within_its_interval(watched):
    found = watched.parallelism(TURNS)
    assert found.low <= 1.0 <= found.high
    assert found.degree == pytest.approx(1.0, abs=0.025)
    assert found.blocks >= 2
    assert found.resolution_ns == pytest.approx(SIXTH, rel=0.001)


def test_gpus_that_overlap_half_of_the_time_are_seen_to_whatever_clock_their_record_has(watched):
    found = watched.parallelism(OVERLAP)
    assert found.low <= 1.5 <= found.high
    assert found.proves_overlap
    assert found.resolution_ns == pytest.approx(S // 5, rel=0.001)


def test_replayed_spans_of_uneven_tokens_have_the_parallelism_that_they_have(watched):
    found = watched.parallelism(REPLAYED)
    ends_ns = watched.series[REPLAYED[0], Counter.BUSY_FRAC].time_ns
    ends_ns = ends_ns[(ends_ns > watched.begin_ns + found.resolution_ns) & (ends_ns <= watched.end_ns)]
    expected = truth(watched.spans, int(ends_ns[0]) - SIXTH, int(ends_ns[-1]))
    assert found.low <= expected <= found.high
    assert found.degree == pytest.approx(expected, abs=3 * 0.01)
    assert 0.7 < found.degree < 1.0


@pytest.mark.parametrize("device", [*TURNS, *OVERLAP, *REPLAYED, "STRAY"])
def test_every_window_is_there_once_on_the_monotonic_clock(watched, device):
    series = watched.series[device, Counter.BUSY_FRAC]
    window_ns = S // 5 if device in (*OVERLAP, "STRAY") else SIXTH
    ends = series.time_ns / window_ns
    assert np.abs(ends - np.rint(ends)).max() < 0.01
    assert set(np.diff(np.rint(ends)).tolist()) == {1.0}
    assert series.time_ns[0] < watched.begin_ns + S
    assert series.time_ns[-1] > watched.end_ns - window_ns - S // 10


def test_impossible_entries_leave_no_trace(watched):
    assert set(watched.series["STRAY", Counter.BUSY_FRAC].value.tolist()) == {0.5}


def test_a_gpu_that_falls_off_is_told_with_its_time_and_its_readings_end_there(watched):
    (event,) = watched.told(EventKind.LOST)
    assert event.device == "LOST"
    assert 0 <= event.time_ns - watched.fails_ns < 2 * S
    assert watched.series["LOST", Counter.BUSY_FRAC].time_ns[-1] <= watched.fails_ns
    assert watched.series["LOST", Counter.READ_ERRORS].value[-1] > 0
    (error,) = watched.told(EventKind.XID)
    assert (error.device, error.number) == ("LOST", 79)


def test_a_gpu_whose_calls_hang_only_stops_its_own_readings(watched):
    assert watched.series["HUNG", Counter.POWER_INSTANT_W].time_ns[-1] <= watched.fails_ns + S // 10
    assert watched.series["TURN0", Counter.POWER_INSTANT_W].time_ns[-1] > watched.end_ns - S // 2


def test_a_gpu_without_record_is_read_by_snapshots_once_a_window(watched):
    for device, share in (("IDLE", 0.0), ("BARE", 0.25)):
        series = watched.series[device, Counter.BUSY_FRAC]
        assert set(series.value.tolist()) == {share}
        assert np.median(np.diff(series.time_ns)) == pytest.approx(series.period_ns, rel=0.05)
        assert series.period_ns == pytest.approx(SIXTH if device == "IDLE" else S // 5, rel=0.001)


def test_what_is_missing_is_told_once_and_unknown(watched):
    told = sorted(event.detail.partition(" (")[0] for event in watched.told(EventKind.LACKS) if event.device == "BARE")
    assert told == [
        "a record of busy_frac",
        "a record of memory_busy_frac",
        "energy_j",
        "pcie_rx_bytes",
        "pcie_tx_bytes",
    ]
    assert ("BARE", Counter.ENERGY_J) not in watched.series
    assert ("BARE", Counter.POWER_W) in watched.series


def test_energy_is_the_difference_of_its_counter(watched):
    energy = watched.series["TURN0", Counter.ENERGY_J]
    spent_j = energy.value[-1] - energy.value[0]
    seconds = (energy.time_ns[-1] - energy.time_ns[0]) / S
    assert spent_j / seconds == pytest.approx(300 * 0.5, abs=300 * 0.028 / 2 / seconds + 1)


def test_gpus_that_count_no_pcie_bytes_are_glimpsed_at(watched):
    sent, received = (
        watched.series["TURN0", counter] for counter in (Counter.PCIE_TX_BYTES_PER_S, Counter.PCIE_RX_BYTES_PER_S)
    )
    assert (set(sent.value.tolist()), set(received.value.tolist())) == ({1e6}, {2e6})
    assert sent.period_ns == received.period_ns == 20 * MS


def test_a_foreign_program_and_the_ways_between_gpus_are_told(watched):
    assert [(event.device, event.number) for event in watched.told(EventKind.PROCESS)] == [("TURN0", FOREIGN_PID)]
    pairs = watched.told(EventKind.PEER)
    assert len(pairs) == 12 * 11 / 2
    assert "TURN1: within one NUMA node (NODE); peer access: reads, writes" in {event.detail for event in pairs}


def test_gpus_are_listed_from_the_library_that_is_loaded(tmp_path):
    library: ScriptedLibrary = built(tmp_path, [gpu("GPU-b", 0x41), gpu("GPU-a", 0x01)])
    listed = subprocess.run(
        [sys.executable, "-c", "from k3prof.collectors.nvml import list_gpus; print(*list_gpus(), sep='\\n')"],
        env=os.environ | library.env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert ["CUDA0" in listed[0], "GPU-a" in listed[0], "00000000:41:00.0" in listed[1]] == [True] * 3
