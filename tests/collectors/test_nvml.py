from __future__ import annotations

import pynvml
import pytest

from k3prof.collectors.nvml import GpuIntervals, list_gpus, open_gpus
from k3prof.core.device import DeviceKind
from k3prof.core.events import DeviceEvent, EventKind
from k3prof.core.timeline import Counter
from k3prof.errors import MachineError
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import A40_BYTES, RECEIVED, SENT, FakeGpu, Fault

FIRST, SECOND = "GPU-11111111-aaaa", "GPU-22222222-bbbb"
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
    gpus = [FakeGpu(FIRST, 1), lost]
    with installed(FakeNvml(gpus)), pytest.raises(MachineError, match=r"GPU 1.*GPU is lost"):
        list_gpus()


def test_a_gpu_that_hides_its_memory_has_unknown_memory():
    hidden = [Fault(pynvml.NVML_ERROR_NO_PERMISSION, "nvmlDeviceGetMemoryInfo")]
    with installed(FakeNvml([FakeGpu(FIRST, 1, faults=hidden)])):
        assert [gpu.memory_bytes for gpu in list_gpus()] == [None]


def opened(gpus: list[FakeGpu], **library):
    events: list[DeviceEvent] = []
    with installed(FakeNvml(gpus, **library)):
        polled, _ = open_gpus(WATCHED[: len(gpus)], GpuIntervals(), events.append)
        values = {
            (channel.device, channel.counter): value
            for source in polled
            for channel, value in zip(source.channels, source.read(), strict=True)
        }
    return values, events


def test_a_gpu_that_offers_everything_is_watched_without_a_word():
    values, events = opened([FakeGpu(FIRST, 1)])
    assert {counter for _, counter in values} == {
        Counter.MEMORY_BYTES,
        Counter.MEMORY_RESERVED_BYTES,
        Counter.POWER_W,
        Counter.POWER_INSTANT_W,
        Counter.ENERGY_J,
        Counter.SM_MHZ,
        Counter.MEMORY_MHZ,
        Counter.P_STATE,
        Counter.PCIE_GENERATION,
        Counter.PCIE_WIDTH,
        Counter.PCIE_TX_BYTES,
        Counter.PCIE_RX_BYTES,
        Counter.POWER_CAPPED_NS,
        Counter.THERMAL_SLOWDOWN_NS,
        Counter.HARDWARE_THERMAL_SLOWDOWN_NS,
        Counter.POWER_BRAKE_NS,
    }
    assert None not in values.values()
    assert events == []


def test_a_gpu_that_counts_no_pcie_bytes_is_asked_for_throughputs_instead_and_the_sums_are_told_to_be_missing():
    old = FakeGpu(FIRST, 1, pcie_kb_per_s=(1500, 25_000_000))
    del old.fields[SENT], old.fields[RECEIVED]
    values, events = opened([old])
    assert values["CUDA0", Counter.PCIE_TX_BYTES_PER_S] == 1.5e6
    assert values["CUDA0", Counter.PCIE_RX_BYTES_PER_S] == 25e9
    assert [(event.kind, event.detail.partition(" (")[0]) for event in events] == [
        (EventKind.LACKS, "pcie_tx_bytes"),
        (EventKind.LACKS, "pcie_rx_bytes"),
    ]


def test_gpus_are_followed_by_their_uuids_wherever_nvml_lists_them():
    values, _ = opened([FakeGpu(SECOND, 1, used_bytes=2 << 30), FakeGpu(FIRST, 2, used_bytes=1 << 30)])
    assert values["CUDA0", Counter.MEMORY_BYTES] == 1 << 30
    assert values["CUDA1", Counter.MEMORY_BYTES] == 2 << 30


def test_each_gpu_has_sources_of_its_own_so_that_one_that_hangs_delays_no_other():
    with installed(FakeNvml([FakeGpu(FIRST, 1), FakeGpu(SECOND, 2)])):
        polled, recorded = open_gpus(WATCHED, GpuIntervals(), lambda _: None)
    assert all(len({channel.device for channel in source.channels}) == 1 for source in polled)
    assert {record.device for record in recorded} == {"", "CUDA0", "CUDA1"}


def test_nothing_that_takes_milliseconds_is_read_more_than_once_a_second():
    slow = {"nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetSamples", "nvmlDeviceGetPcieThroughput"}
    with installed(FakeNvml([FakeGpu(FIRST, 1)])) as library:
        polled, _ = open_gpus(WATCHED[:1], GpuIntervals(), lambda _: None)
        for source in polled:
            library.calls.clear()
            source.read()
            if source.schedule.interval_ns < 1_000_000_000:
                assert not slow & set(library.calls)
                assert library.calls.count("nvmlDeviceGetFieldValues") == 1


def test_a_machine_whose_driver_cannot_be_started_is_an_error():
    with (
        installed(FakeNvml([], init_code=pynvml.NVML_ERROR_DRIVER_NOT_LOADED)),
        pytest.raises(MachineError, match="could not start"),
    ):
        open_gpus(WATCHED, GpuIntervals(), lambda _: None)
