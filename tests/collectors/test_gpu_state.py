from __future__ import annotations

import os

import psutil
import pynvml
import pytest

from k3prof.collectors.gpu_state import driver_version, gpu_states
from k3prof.collectors.nvml import list_gpus
from k3prof.core.machine.gpu import GpuProcess, GpuState, PcieLink
from k3prof.core.machine.gpu_checks import check_gpus
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import A40_BYTES, DRIVER_VERSION, FakeGpu, Fault

HIGH_PID = 2**22 + 7
"""Above the largest pid that Linux gives."""


def states(*gpus: FakeGpu, missing: tuple[str, ...] = ()) -> list[GpuState]:
    with installed(FakeNvml(gpus, missing=missing)):
        return gpu_states(list_gpus())


def test_a_gpu_is_described_as_its_driver_describes_it():
    gpu = FakeGpu(
        "GPU-1",
        bus=1,
        used_bytes=5 << 30,
        percent=42,
        window_s=0.2,
        persistent=False,
        ecc=True,
        sm_mhz=(1305, 1740),
        link=(2, 8, 4, 16),
        processes=[(os.getpid(), 3 << 30), (HIGH_PID, None)],
        drawing=[(HIGH_PID, 1 << 30)],
    )
    assert states(gpu) == [
        GpuState(
            name="CUDA0",
            memory_bytes=A40_BYTES,
            free_bytes=A40_BYTES - (5 << 30) - gpu.reserved_bytes,
            used_bytes=5 << 30,
            busy_frac=0.42,
            busy_window_ns=200_000_000,
            sm_mhz=1305,
            highest_sm_mhz=1740,
            slowed_by=(),
            held_by_setting=False,
            persistent=False,
            ecc=True,
            bus_bits=384,
            mig=False,
            link=PcieLink(2, 8, 4, 16),
            processes=(GpuProcess(os.getpid(), psutil.Process().name(), 3 << 30), GpuProcess(HIGH_PID, "", None)),
        )
    ]


def test_an_idle_gpu_in_good_order_gives_no_finding():
    assert check_gpus(states(FakeGpu("GPU-1", bus=1, clock_reasons=pynvml.nvmlClocksEventReasonGpuIdle))) == []


@pytest.mark.parametrize(
    ("bits", "slowed_by", "held"),
    [
        (pynvml.nvmlClocksEventReasonGpuIdle, (), False),
        (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, (), True),
        (pynvml.nvmlClocksEventReasonSwPowerCap, ("power limit",), False),
        (
            pynvml.nvmlClocksEventReasonHwSlowdown | pynvml.nvmlClocksEventReasonHwThermalSlowdown,
            ("hardware slowdown", "temperature (hardware)"),
            False,
        ),
    ],
)
@pytest.mark.parametrize("missing", [(), ("nvmlDeviceGetCurrentClocksEventReasons",)], ids=["new driver", "old driver"])
def test_what_keeps_clocks_down_is_told_in_words(bits, slowed_by, held, missing):
    (state,) = states(FakeGpu("GPU-1", bus=1, clock_reasons=bits), missing=missing)
    assert (state.slowed_by, state.held_by_setting) == (slowed_by, held)


@pytest.mark.parametrize(
    ("symbol", "unknown"),
    [
        ("nvmlDeviceGetUtilizationRates", "busy_window_ns"),
        ("nvmlDeviceGetPersistenceMode", "persistent"),
        ("nvmlDeviceGetEccMode", "ecc"),
        ("nvmlDeviceGetMigMode", "mig"),
        ("nvmlDeviceGetMemoryBusWidth", "bus_bits"),
        ("nvmlDeviceGetClockInfo", "sm_mhz"),
        ("nvmlDeviceGetMaxPcieLinkWidth", "link"),
        ("nvmlDeviceGetMemoryInfo_v2", "used_bytes"),
    ],
)
@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
def test_what_a_gpu_does_not_tell_is_unknown_and_the_rest_is_told(symbol, unknown, code):
    (state,) = states(FakeGpu("GPU-1", bus=1, faults=[Fault(code, symbol)]))
    assert getattr(state, unknown) is None
    assert state.highest_sm_mhz == 1740


def test_a_driver_without_the_second_memory_call_tells_what_is_free_but_not_what_is_used():
    """The first call's figure includes what the driver keeps for itself: it would look like a foreign program."""
    (state,) = states(FakeGpu("GPU-1", bus=1, used_bytes=1 << 30), missing=("nvmlDeviceGetMemoryInfo_v2",))
    assert state.used_bytes is None
    assert state.free_bytes == A40_BYTES - (1 << 30) - (600 << 20)


def test_a_gpu_that_is_lost_meanwhile_is_unknown_is_not_asked_again_and_the_other_is_described():
    lost = FakeGpu("GPU-1", bus=1, faults=[Fault(pynvml.NVML_ERROR_GPU_IS_LOST, "nvmlDeviceGetMemoryInfo_v2")])
    gpus = [lost, FakeGpu("GPU-2", bus=2)]
    with installed(FakeNvml(gpus)):
        listed = list_gpus_before_it_is_lost(gpus)
    with installed(FakeNvml(gpus)) as library:
        first, second = gpu_states(listed)
        asked = library.calls.count("nvmlDeviceGetPersistenceMode")
    assert first == GpuState("CUDA0")
    assert second.persistent is True
    assert asked == 1


def list_gpus_before_it_is_lost(gpus: list[FakeGpu]):
    faults, gpus[0].faults = gpus[0].faults, []
    listed = list_gpus()
    gpus[0].faults = faults
    return listed


def test_the_drivers_version_is_told_where_there_is_one():
    with installed(FakeNvml([])):
        assert driver_version() == DRIVER_VERSION
    with installed(FakeNvml([], init_code=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)):
        assert driver_version() is None
        assert gpu_states([]) == []
