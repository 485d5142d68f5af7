from __future__ import annotations

import threading

import pynvml
import pytest

from k3prof.collectors.nvml_library import WatchedGpu, field, required
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.errors import MachineError
from tests.doubles.clocks import StandingClock
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import FakeGpu, Fault

UUID = "GPU-11111111-aaaa"
POWER = "nvmlDeviceGetPowerUsage"


def power_mw(handle) -> float:
    return float(pynvml.nvmlDeviceGetPowerUsage(handle))


def watched(events: list[DeviceEvent]) -> WatchedGpu:
    return WatchedGpu("CUDA0", UUID, events.append)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_RESET_REQUIRED])
def test_a_lost_gpu_is_told_once_with_its_time_and_never_asked_again(code):
    clock, events = StandingClock(), []
    with installed(FakeNvml([FakeGpu(UUID, 1, faults=[Fault(code, from_s=105)])], clock=clock)) as library:
        gpu = watched(events)
        assert gpu.ask(power_mw) == 70_000
        clock.now_s = 106
        threads = [threading.Thread(target=gpu.ask, args=(power_mw,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asked = library.calls.count(POWER)
        assert gpu.ask(power_mw) is None
        assert library.calls.count(POWER) == asked
    assert [(event.device, event.kind) for event in events] == [("CUDA0", EventKind.LOST)]


def test_another_error_is_a_gap_that_ends_when_the_error_does():
    clock, events = StandingClock(), []
    fault = Fault(pynvml.NVML_ERROR_UNKNOWN, POWER, from_s=102, until_s=103)
    with installed(FakeNvml([FakeGpu(UUID, 1, faults=[fault])], clock=clock)):
        gpu = watched(events)
        found = []
        for clock.now_s in (101, 102.5, 103.5):
            found.append(gpu.ask(power_mw))
    assert found == [70_000, None, 70_000]
    assert events == []


def test_a_gpu_that_cannot_be_found_is_told_and_unknown():
    events: list[DeviceEvent] = []
    with installed(FakeNvml([])):
        gpu = watched(events)
        assert gpu.ask(power_mw) is None
        assert gpu.first_offered("power_w", [power_mw]) is not None
    assert [(event.kind, event.detail) for event in events] == [(EventKind.LOST, f"{UUID}: Not Found")]


@pytest.mark.parametrize(
    "code",
    [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_DEPRECATED],
)
def test_a_counter_that_is_not_offered_is_told_once_with_the_reason(code):
    events: list[DeviceEvent] = []
    with installed(FakeNvml([FakeGpu(UUID, 1, faults=[Fault(code, POWER)])])):
        assert watched(events).first_offered("power_w", [power_mw]) is None
    (event,) = events
    assert (event.kind, event.detail) == (EventKind.LACKS, f"power_w ({pynvml.NVMLError(code)})")


def test_of_several_ways_to_read_the_first_that_works_is_taken_silently():
    events: list[DeviceEvent] = []
    with installed(FakeNvml([FakeGpu(UUID, 1)], missing=[POWER])):
        chosen = watched(events).first_offered("power_w", [power_mw, field(186)])
        assert watched(events).ask(chosen) == 70_000
    assert events == []


def test_a_way_that_fails_for_the_moment_is_not_given_up():
    fault = Fault(pynvml.NVML_ERROR_TIMEOUT, POWER, until_s=101)
    with installed(FakeNvml([FakeGpu(UUID, 1, faults=[fault])], clock=StandingClock(100.0))):
        assert watched([]).first_offered("power_w", [power_mw, field(186)]) is power_mw


def test_each_field_has_its_own_error_and_type():
    gpu = FakeGpu(UUID, 1)
    gpu.fields[190] = (pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, lambda _: 2**40)
    with installed(FakeNvml([gpu])):
        handle = pynvml.nvmlDeviceGetHandleByUUID(UUID)
        assert field(190)(handle) == 2**40
        assert field(190, scale=0.5)(handle) == 2**39
        assert field(186)(handle) == 70_000
        with pytest.raises(pynvml.NVMLError_NotSupported):
            field(186, wide_only=True)(handle)
        with pytest.raises(pynvml.NVMLError_NotSupported):
            field(9999)(handle)


def test_what_is_required_and_refused_is_an_error_that_says_what():
    with installed(FakeNvml([], init_code=pynvml.NVML_ERROR_NO_PERMISSION)), pytest.raises(MachineError) as caught:
        required("start", pynvml.nvmlInit)
    assert "could not start: Insufficient Permissions" in caught.value.message
