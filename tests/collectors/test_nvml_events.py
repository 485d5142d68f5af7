from __future__ import annotations

import pynvml
import pytest

from k3prof.collectors.nvml_events import ErrorWatch
from k3prof.collectors.nvml_library import WatchedGpu
from k3prof.core.events import DeviceEvent, EventKind
from tests.doubles.clocks import StandingClock
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import FakeError, FakeGpu, Fault

XID, ECC = pynvml.nvmlEventTypeXidCriticalError, pynvml.nvmlEventTypeDoubleBitEccError


def watching(gpus: list[FakeGpu], events: list[DeviceEvent]) -> ErrorWatch:
    return ErrorWatch([WatchedGpu(f"CUDA{place}", gpu.uuid, events.append) for place, gpu in enumerate(gpus)])


def told(events: list[DeviceEvent]) -> list[tuple[str, EventKind, str, int | None]]:
    return [(event.device, event.kind, event.detail, event.number) for event in events]


def test_errors_are_told_of_the_gpu_they_happened_to_in_words_and_each_once():
    gpus = [
        FakeGpu("GPU-1", 1, errors=[FakeError(105, XID, 79), FakeError(106, XID, 777)]),
        FakeGpu("GPU-2", 2, errors=[FakeError(104, ECC)]),
    ]
    clock, events = StandingClock(), []
    with installed(FakeNvml(gpus, clock=clock)):
        watch = watching(gpus, events)
        watch.drain()
        assert events == []
        clock.now_s = 107
        watch.drain()
        watch.finish()
    assert sorted(told(events)) == [
        ("CUDA0", EventKind.XID, "Xid 777", 777),
        ("CUDA0", EventKind.XID, "Xid 79 (the GPU has fallen off the bus)", 79),
        ("CUDA1", EventKind.ECC, "a memory error that could not be corrected", None),
    ]


def test_what_happens_before_the_end_is_told_at_the_end():
    gpu, clock, events = FakeGpu("GPU-1", 1, errors=[FakeError(105, XID, 31)]), StandingClock(), []
    with installed(FakeNvml([gpu], clock=clock)):
        watch = watching([gpu], events)
        clock.now_s = 106
        watch.finish()
    assert [event.number for event in events] == [31]


@pytest.mark.parametrize("symbol", ["nvmlDeviceRegisterEvents", "nvmlDeviceGetSupportedEventTypes"])
def test_a_gpu_that_reports_no_errors_is_told_to_and_the_other_is_watched(symbol):
    deaf = FakeGpu("GPU-1", 1, faults=[Fault(pynvml.NVML_ERROR_NOT_SUPPORTED, symbol)])
    gpus = [deaf, FakeGpu("GPU-2", 2, errors=[FakeError(105, XID, 13)])]
    clock, events = StandingClock(), []
    with installed(FakeNvml(gpus, clock=clock)):
        watch = watching(gpus, events)
        clock.now_s = 106
        watch.drain()
    assert [(event.device, event.kind) for event in events] == [("CUDA0", EventKind.LACKS), ("CUDA1", EventKind.XID)]


def test_a_driver_without_events_is_told_once_for_each_gpu_and_asked_no_more():
    gpus, events = [FakeGpu("GPU-1", 1), FakeGpu("GPU-2", 2)], []
    with installed(FakeNvml(gpus, missing=["nvmlEventSetCreate"])) as library:
        watch = watching(gpus, events)
        library.calls.clear()
        watch.drain()
        assert library.calls == []
    assert [event.kind for event in events] == [EventKind.LACKS] * 2
