from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from k3prof.core.device import DeviceKind
from k3prof.core.timeline import PhaseKind
from k3prof.core.trial import RequestStatus
from k3prof.reporters.timeline_data import describe_devices, first_phase, timeline
from tests.doubles.imported_runs import traced
from tests.doubles.trials import (
    MS,
    START_NS,
    failed_trial,
    gpu_trial,
    million_sample_trial,
    stand_in_trial,
)


def test_there_is_a_lane_for_each_device_with_the_host_last():
    drawn = timeline(*stand_in_trial())
    assert [lane.device for lane in drawn.lanes] == ["RPC0", "RPC1", "RPC2", "CPU"]
    assert drawn.lanes[-1].kind is DeviceKind.CPU


def test_the_area_of_a_lane_is_the_time_the_device_was_busy():
    trial, series = stand_in_trial(turns_ms=(8, 6, 7), token_ms=30)
    for lane, one in zip(timeline(trial, series).lanes, series[:4], strict=True):
        inside = (lane.edges_ns[0] <= one.time_ns) & (one.time_ns <= lane.edges_ns[-1])
        busy_ns = one.value[inside][-1] - one.value[inside][0]
        assert float((lane.share * np.diff(lane.edges_ns)).sum()) == pytest.approx(busy_ns, rel=1e-9)


def test_up_close_the_devices_take_turns_in_order():
    drawn = timeline(*stand_in_trial())
    starts_ns = drawn.zoom.arrivals_ns[:-1]
    centres_ms = []
    for lane in drawn.lanes[:3]:
        close = lane.within(drawn.zoom.begin_ns, drawn.zoom.end_ns)
        middles_ns = (close.edges_ns[:-1] + close.edges_ns[1:]) / 2
        token = np.searchsorted(starts_ns, middles_ns, "right") - 1
        since_ms = (middles_ns - starts_ns[np.maximum(token, 0)]) / MS
        inside = (token >= 0) & (since_ms < 25)
        centres_ms.append(float(np.average(since_ms[inside], weights=close.share[inside])))
    # Busy from 0 to 8, 8 to 14 and 14 to 21 ms of a token of about 30 ms; a reading every 5 ms blurs that.
    assert centres_ms == pytest.approx([4, 11, 17.5], abs=1.5)


def test_the_stretch_up_close_lies_within_measured_decode():
    trial, series = stand_in_trial()
    drawn = timeline(trial, series)
    zoom = drawn.zoom
    decode = [phase for phase in drawn.phases if phase.kind is PhaseKind.DECODE]
    assert decode[1].begin_ns < zoom.begin_ns < zoom.end_ns < decode[1].end_ns
    assert zoom.tokens == 10
    assert zoom.arrivals_ns.size == 11
    assert zoom.token_ns / MS == pytest.approx(30, rel=0.1)


def test_the_stretch_up_close_avoids_a_hiccup_of_the_machine():
    trial, series = stand_in_trial(repeat=1)
    (request,) = [one for one in trial.requests if one.role == "measure" and one.workload.kind == "tg"]
    for hiccup in range(1, request.arrivals_ns.size):
        late = request.arrivals_ns + 400 * MS * (np.arange(request.arrivals_ns.size) >= hiccup)
        zoom = timeline(replace(trial, requests=(replace(request, arrivals_ns=late),)), series).zoom
        assert zoom.token_ns / MS == pytest.approx(30, rel=0.1)


def test_without_measured_generation_there_is_nothing_to_look_at_closely():
    trial, series = stand_in_trial()
    cut = tuple(replace(request, status=RequestStatus.CUT) for request in trial.requests)
    assert timeline(replace(trial, requests=cut), series).zoom is None
    assert timeline(*failed_trial()).zoom is None


def test_a_counter_coarser_than_a_turn_does_not_claim_to_show_turns():
    assert timeline(*stand_in_trial()).shows_turns
    drawn = timeline(*gpu_trial())
    assert not drawn.shows_turns
    assert drawn.resolution_text == "each reading a mean over 200 ms"


def test_the_resolution_is_that_of_the_devices_not_of_the_host():
    assert timeline(*stand_in_trial()).resolution_text == "read every 5 ms"
    assert timeline(*failed_trial()).resolution_text == "devices not observed"


def test_devices_are_called_what_they_are():
    assert describe_devices(stand_in_trial()[0].devices) == "3 stand-in devices"
    assert describe_devices(gpu_trial()[0].devices) == "5 × NVIDIA A40"
    assert describe_devices(stand_in_trial()[0].devices[-1:]) == "the host only"


def test_a_counter_that_fell_silent_leaves_a_gap_and_not_a_value():
    trial, series = gpu_trial()
    gpu = series[2]
    kept = (gpu.time_ns < START_NS + 20_000 * MS) | (gpu.time_ns > START_NS + 40_000 * MS)
    silent = replace(gpu, time_ns=gpu.time_ns[kept], value=gpu.value[kept])
    lane = timeline(trial, (*series[:2], silent, *series[3:])).lanes[2]
    ((begin_ns, end_ns),) = lane.unobserved(trial.started_ns, trial.ended_ns)
    assert (begin_ns - START_NS) / 1e9 == pytest.approx(20, abs=0.3)
    assert (end_ns - START_NS) / 1e9 == pytest.approx(40, abs=0.3)


def test_a_device_without_samples_was_not_observed_at_all():
    trial, series = stand_in_trial()
    lane = timeline(trial, series[1:]).lanes[0]
    assert lane.unobserved(0, 7) == [(0, 7)]
    assert lane.share.size == 0


def test_a_lane_of_several_threads_is_scaled_to_whole_processors():
    trial, series = stand_in_trial()
    host = replace(series[3], value=2.4 * (series[3].time_ns - START_NS))
    lane = timeline(trial, (*series[:3], host)).lanes[3]
    assert lane.ceiling == 3.0
    assert timeline(trial, series).lanes[0].ceiling == 1.0


def test_prefill_is_found_by_its_middle_repetition():
    drawn = timeline(*stand_in_trial(repeat=3))
    phase = first_phase(drawn, PhaseKind.PREFILL, "pp")
    assert (phase.workload, phase.repetition) == ("pp512", 1)
    assert first_phase(timeline(*failed_trial()), PhaseKind.PREFILL, "pp") is None


def test_a_trial_that_was_killed_ends_with_its_last_sample():
    trial, series = stand_in_trial()
    assert timeline(replace(trial, ended_ns=None), series).end_ns == series[0].time_ns[-1]
    nothing = replace(failed_trial()[0], ended_ns=None)
    assert timeline(nothing, ()).end_ns > nothing.started_ns


def test_a_million_samples_are_all_in_the_lane():
    trial, series = million_sample_trial(100_000)
    assert timeline(trial, series).lanes[0].share.size >= 99_990


def test_what_a_profiler_timed_is_drawn_as_it_was_and_never_paled():
    run = traced([("GPU0", 0, 300), ("GPU1", 300, 1000)])
    trial = replace(gpu_trial()[0], devices=run.devices, requests=(), started_ns=0, ready_ns=None, ended_ns=1000)
    drawn = timeline(trial, run.series)
    assert drawn.resolution_text == "every begin and end recorded by a profiler"
    assert describe_devices(run.devices) == "2 × GPU"
    assert [lane.exact for lane in drawn.lanes] == [((0, 1000),)] * 2
    assert [(lane.edges_ns.tolist(), lane.share.tolist()) for lane in drawn.lanes] == [
        ([0, 300, 1000], [1, 0]),
        ([0, 300, 1000], [0, 1]),
    ]
