from __future__ import annotations

import os

import psutil
import pynvml

from k3prof.collectors.nvml_library import WatchedGpu
from k3prof.collectors.nvml_processes import ProgramWatch, process_name
from k3prof.core.events import DeviceEvent, EventKind
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import FakeGpu, Fault

HIDDEN_PID = 2**22 + 7
"""Above the largest pid that Linux gives."""


def test_every_program_is_told_once_when_it_is_first_seen():
    gpu, events = FakeGpu("GPU-1", 1, processes=[(HIDDEN_PID, None)]), []
    with installed(FakeNvml([gpu])):
        watch = ProgramWatch(WatchedGpu("CUDA0", "GPU-1", events.append))
        assert [event.number for event in events] == [HIDDEN_PID]
        gpu.processes = [(HIDDEN_PID, None), (os.getpid(), 5 << 30)]
        watch.drain()
        gpu.processes = []
        watch.drain()
        watch.finish()
    assert events == [
        DeviceEvent(events[0].time_ns, "CUDA0", EventKind.PROCESS, f"pid {HIDDEN_PID}", HIDDEN_PID),
        DeviceEvent(
            events[1].time_ns,
            "CUDA0",
            EventKind.PROCESS,
            f"pid {os.getpid()} ({psutil.Process().name()})",
            os.getpid(),
        ),
    ]


def test_a_gpu_that_hides_its_programs_is_told_to_and_asked_no_more():
    hidden = Fault(pynvml.NVML_ERROR_NO_PERMISSION, "nvmlDeviceGetComputeRunningProcesses_v3")
    events: list[DeviceEvent] = []
    with installed(FakeNvml([FakeGpu("GPU-1", 1, faults=[hidden])])) as library:
        watch = ProgramWatch(WatchedGpu("CUDA0", "GPU-1", events.append))
        library.calls.clear()
        watch.drain()
        assert library.calls == []
    assert [event.kind for event in events] == [EventKind.LACKS]


def test_a_process_that_does_not_show_here_has_no_name():
    assert process_name(HIDDEN_PID) == ""
