from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.collectors.visible_gpus import visible_gpus
from k3prof.core.device import Device, DeviceKind
from k3prof.errors import ConfigError

UUIDS = ("GPU-8932f937-d72c", "GPU-8ab00000-0000", "GPU-c0ffee00-1234")
GPUS = [Device(f"CUDA{index}", DeviceKind.CUDA, uuid=uuid) for index, uuid in enumerate(UUIDS)]
BY_PCI = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


def names_and_uuids(devices):
    return [(device.name, device.uuid) for device in devices]


def test_without_the_variable_all_gpus_are_visible():
    assert visible_gpus(GPUS, {}) == GPUS


def test_numbers_in_pci_order_pick_and_rename_gpus():
    chosen = visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": "2,0", **BY_PCI})
    assert names_and_uuids(chosen) == [("CUDA0", UUIDS[2]), ("CUDA1", UUIDS[0])]


@pytest.mark.parametrize("order", [{}, {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}])
def test_numbers_in_an_order_that_only_cuda_knows_are_refused(order):
    with pytest.raises(ConfigError, match="FASTEST_FIRST") as caught:
        visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": "2,0", **order})
    assert "UUID" in caught.value.hint


def test_the_only_gpu_may_be_called_0_in_any_order():
    assert visible_gpus(GPUS[:1], {"CUDA_VISIBLE_DEVICES": "0"}) == GPUS[:1]


def test_a_short_uuid_picks_the_one_gpu_that_it_fits():
    chosen = visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": "GPU-c0ffee, GPU-8932"})
    assert names_and_uuids(chosen) == [("CUDA0", UUIDS[2]), ("CUDA1", UUIDS[0])]


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ("GPU-8", "fits several GPUs"),
        ("GPU-deadbeef", "is no GPU of this machine"),
        ("3", "is beyond the 3 GPUs"),
        ("GPU-c0ffee,2", "names the same GPU twice"),
        ("MIG-8932f937", "is a slice of a GPU"),
        ("nonsense", "is no GPU of this machine"),
    ],
)
def test_what_names_no_one_gpu_is_refused(value, problem):
    with pytest.raises(ConfigError, match=problem):
        visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": value, **BY_PCI})


@pytest.mark.parametrize("value", ["", "-1", "-1,0"])
def test_hidden_gpus_stay_hidden(value):
    assert visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": value, **BY_PCI}) == []


@given(order=st.permutations(range(3)), shown=st.integers(0, 3))
def test_any_selection_is_given_in_its_own_order(order, shown):
    wanted = [UUIDS[index] for index in order[:shown]]
    chosen = visible_gpus(GPUS, {"CUDA_VISIBLE_DEVICES": ",".join(wanted)})
    assert names_and_uuids(chosen) == [(f"CUDA{index}", uuid) for index, uuid in enumerate(wanted)]
