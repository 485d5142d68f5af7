from __future__ import annotations

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.nvml import LONGEST_WINDOW_NS, GpuSource, list_gpus
from k3prof.core.device import DeviceKind
from k3prof.core.timeline import Counter
from k3prof.errors import MachineError
from tests.doubles.nvml import A40_BYTES, FakeGpu, FakeNvml, Fault, installed, square_wave

PERIOD_NS = 50_000_000
FIRST, SECOND = "GPU-11111111-aaaa", "GPU-22222222-bbbb"


class Clock:
    """A clock that stands until it is set."""

    def __init__(self, now_s: float = 100.0) -> None:
        self.now_s = now_s

    def __call__(self) -> float:
        return self.now_s


def read(source: GpuSource) -> dict[tuple[str, Counter], float | None]:
    return {
        (channel.device, channel.counter): value for channel, value in zip(source.channels, source.read(), strict=True)
    }


def two_gpus(first: FakeGpu | None = None, second: FakeGpu | None = None, clock: Clock | None = None) -> FakeNvml:
    gpus = [first or FakeGpu(FIRST, bus=1), second or FakeGpu(SECOND, bus=2)]
    return FakeNvml(gpus, clock=clock or Clock())


WATCHED = (("CUDA0", FIRST), ("CUDA1", SECOND))


def test_gpus_are_named_in_the_order_of_their_pci_addresses_not_of_nvml():
    with installed(FakeNvml([FakeGpu(FIRST, bus=0xC1, name="NVIDIA L4"), FakeGpu(SECOND, bus=0x41)])):
        gpus = list_gpus()
    assert [(gpu.name, gpu.uuid, gpu.pci_bus_id) for gpu in gpus] == [
        ("CUDA0", SECOND, "00000000:41:00.0"),
        ("CUDA1", FIRST, "00000000:c1:00.0"),
    ]
    assert gpus[0].kind is DeviceKind.CUDA
    assert gpus[0].memory_bytes == A40_BYTES
    assert gpus[1].description == "NVIDIA L4"


def test_a_machine_without_the_library_has_no_gpus(monkeypatch):
    def no_library(name):
        raise OSError(f"{name}: cannot open shared object file")

    monkeypatch.setattr(pynvml, "nvmlLib", None)
    monkeypatch.setattr(pynvml, "CDLL", no_library)
    assert list_gpus() == []


def test_a_machine_whose_driver_is_not_loaded_has_no_gpus():
    with installed(FakeNvml([], init_code=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)):
        assert list_gpus() == []


def test_a_driver_that_does_not_fit_its_library_is_an_error_not_a_machine_without_gpus():
    with (
        installed(FakeNvml([FakeGpu(FIRST, 1)], init_code=pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)),
        pytest.raises(MachineError, match="version mismatch"),
    ):
        list_gpus()


def test_a_gpu_that_the_driver_has_lost_is_named_when_gpus_are_listed():
    lost = FakeGpu(SECOND, 2, faults=[Fault(pynvml.NVML_ERROR_GPU_IS_LOST)])
    with installed(two_gpus(second=lost)), pytest.raises(MachineError, match=r"GPU 1.*GPU is lost"):
        list_gpus()


def test_a_gpu_that_hides_its_memory_has_unknown_memory():
    hidden = [Fault(pynvml.NVML_ERROR_NO_PERMISSION, symbol) for symbol in memory_symbols()]
    with installed(FakeNvml([FakeGpu(FIRST, 1, faults=hidden)])):
        assert [gpu.memory_bytes for gpu in list_gpus()] == [None]


def memory_symbols() -> tuple[str, str]:
    return "nvmlDeviceGetMemoryInfo_v2", "nvmlDeviceGetMemoryInfo"


def test_utilisation_memory_and_power_are_read_in_the_units_of_their_counters():
    gpu = FakeGpu(FIRST, 1, used_bytes=40 << 30, power_mw=123_456, busy=square_wave(0.112, 0.028))
    with installed(FakeNvml([gpu], clock=Clock(100.0))):
        values = read(GpuSource([("CUDA0", FIRST)], PERIOD_NS))
    assert values["CUDA0", Counter.BUSY_FRAC] == gpu.utilisation(100.0) / 100
    assert 0.1 < values["CUDA0", Counter.BUSY_FRAC] < 0.4
    assert values["CUDA0", Counter.MEMORY_BYTES] == 40 << 30
    assert values["CUDA0", Counter.POWER_W] == pytest.approx(123.456)


def test_a_gpu_is_followed_by_its_uuid_wherever_nvml_lists_it():
    with installed(FakeNvml([FakeGpu(FIRST, 1, percent=10), FakeGpu(SECOND, 2, percent=90)], clock=Clock())):
        values = read(GpuSource([("CUDA0", SECOND), ("CUDA1", FIRST)], PERIOD_NS))
    assert values["CUDA0", Counter.BUSY_FRAC] == 0.9
    assert values["CUDA1", Counter.BUSY_FRAC] == 0.1


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NO_PERMISSION])
@pytest.mark.parametrize(
    ("symbols", "counter"),
    [
        (("nvmlDeviceGetUtilizationRates",), Counter.BUSY_FRAC),
        (memory_symbols(), Counter.MEMORY_BYTES),
        (("nvmlDeviceGetPowerUsage",), Counter.POWER_W),
    ],
)
def test_a_counter_that_a_gpu_does_not_offer_is_absent_and_the_others_go_on(code, symbols, counter):
    partial = FakeGpu(SECOND, 2, faults=[Fault(code, symbol) for symbol in symbols])
    with installed(two_gpus(second=partial)):
        values = read(GpuSource(WATCHED, PERIOD_NS))
    assert len(values) == 5
    assert ("CUDA1", counter) not in values
    assert None not in values.values()


def test_an_old_driver_without_the_second_memory_call_is_asked_with_the_first():
    gpu = FakeGpu(FIRST, 1, used_bytes=5 << 30, reserved_bytes=1 << 30)
    with installed(FakeNvml([gpu], missing=["nvmlDeviceGetMemoryInfo_v2"])):
        assert read(GpuSource([("CUDA0", FIRST)], PERIOD_NS))["CUDA0", Counter.MEMORY_BYTES] == 6 << 30


def test_a_lost_gpu_becomes_unknown_is_not_asked_again_and_the_other_goes_on():
    clock = Clock(4.9)
    lost = FakeGpu(SECOND, 2, faults=[Fault(pynvml.NVML_ERROR_GPU_IS_LOST, from_s=5.0)])
    with installed(two_gpus(FakeGpu(FIRST, 1, percent=50), lost, clock)) as library:
        source = GpuSource(WATCHED, PERIOD_NS)
        assert None not in read(source).values()
        clock.now_s = 5.1
        values = read(source)
        assert [value for (device, _), value in values.items() if device == "CUDA1"] == [None] * 3
        assert values["CUDA0", Counter.BUSY_FRAC] == 0.5
        library.calls.clear()
        source.read()
        assert len(library.calls) == 3


def test_an_unknown_error_is_a_gap_that_ends_when_the_error_does():
    clock = Clock(1.0)
    fault = Fault(pynvml.NVML_ERROR_UNKNOWN, "nvmlDeviceGetPowerUsage", from_s=2.0, until_s=3.0)
    with installed(FakeNvml([FakeGpu(FIRST, 1, faults=[fault])], clock=clock)):
        source = GpuSource([("CUDA0", FIRST)], PERIOD_NS)
        power_w = []
        for clock.now_s in (1.0, 2.5, 3.5):
            power_w.append(read(source)["CUDA0", Counter.POWER_W])
    assert power_w == [70.0, None, 70.0]


def test_a_gpu_that_is_gone_before_the_start_is_unknown_and_the_other_goes_on():
    with installed(FakeNvml([FakeGpu(FIRST, 1)])):
        values = read(GpuSource(WATCHED, PERIOD_NS))
    assert [value for (device, _), value in values.items() if device == "CUDA1"] == [None] * 3
    assert None not in [value for (device, _), value in values.items() if device == "CUDA0"]


@given(percent=st.integers(101, 2**32 - 1))
def test_garbage_utilisation_is_unknown(percent):
    with installed(FakeNvml([FakeGpu(FIRST, 1, percent=percent)])):
        assert read(GpuSource([("CUDA0", FIRST)], PERIOD_NS))["CUDA0", Counter.BUSY_FRAC] is None


def test_memory_beyond_what_the_gpu_has_is_unknown():
    with installed(FakeNvml([FakeGpu(FIRST, 1, used_bytes=A40_BYTES + 1)])):
        assert read(GpuSource([("CUDA0", FIRST)], PERIOD_NS))["CUDA0", Counter.MEMORY_BYTES] is None


@pytest.mark.parametrize("window_s", [1 / 6, 0.2, 1.0])
def test_the_period_of_utilisation_is_the_spacing_of_the_drivers_own_samples(window_s):
    with installed(FakeNvml([FakeGpu(FIRST, 1, window_s=window_s)], clock=Clock(1000.0))):
        channels = GpuSource([("CUDA0", FIRST)], PERIOD_NS).channels
    (busy,) = [channel for channel in channels if channel.counter is Counter.BUSY_FRAC]
    assert busy.period_ns == pytest.approx(window_s * 1e9, rel=1e-4)


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_NOT_FOUND])
def test_a_driver_that_keeps_no_samples_leaves_the_longest_documented_window(code):
    gpu = FakeGpu(FIRST, 1, faults=[Fault(code, "nvmlDeviceGetSamples")])
    with installed(FakeNvml([gpu])):
        channels = GpuSource([("CUDA0", FIRST)], PERIOD_NS).channels
    assert channels[0].counter is Counter.BUSY_FRAC
    assert channels[0].period_ns == LONGEST_WINDOW_NS


def test_turn_taking_gpus_average_to_one_busy_gpu():
    """Two GPUs take turns of 28 ms; the counter's 1/6 s windows cannot show that, but their sum is 1."""
    clock = Clock()
    first = FakeGpu(FIRST, 1, busy=square_wave(0.056, 0.028))
    second = FakeGpu(SECOND, 2, busy=square_wave(0.056, 0.028, offset_s=0.028))
    sums = []
    with installed(two_gpus(first, second, clock)):
        source = GpuSource(WATCHED, PERIOD_NS)
        for step in range(600):
            clock.now_s = 100.0 + step * 0.05
            values = read(source)
            sums.append(values["CUDA0", Counter.BUSY_FRAC] + values["CUDA1", Counter.BUSY_FRAC])
    assert sum(sums) / len(sums) == pytest.approx(1.0, abs=0.015)
