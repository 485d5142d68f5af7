from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.layout.layers import layer_devices, layers_at_a_boundary

SHARES = st.lists(st.sampled_from([0, 0.1, 0.3, 0.5, 1, 2, 3, 7]), min_size=1, max_size=15).filter(any)


def test_equal_shares_over_three_devices():
    # 12 layers and the output: boundaries at 13/3 = 4.33 and 8.67.
    assert layer_devices(12, (1, 1, 1)) == (*[0] * 5, *[1] * 4, *[2] * 4)


def test_the_output_layer_counts_as_one_more():
    assert layer_devices(3, (1, 1)) == (0, 0, 1, 1)


def test_few_gpu_layers_leave_the_first_layers_on_the_host():
    # The field's own example: -ngl 5 of 12 layers puts 8 to 11 and the output on the device.
    assert layer_devices(12, (1,), gpu_layers=5) == (*[None] * 8, *[0] * 5)


def test_more_gpu_layers_than_layers_are_all():
    assert layer_devices(5, (1, 1), gpu_layers=99) == layer_devices(5, (1, 1))


def test_no_gpu_layers_and_no_devices_leave_everything_on_the_host():
    assert layer_devices(5, (1, 1), gpu_layers=0) == (None,) * 6
    assert layer_devices(5, ()) == (None,) * 6


def test_a_device_with_no_share_gets_nothing():
    assert layer_devices(3, (0, 1, 0)) == (1, 1, 1, 1)


def test_the_boundary_is_computed_in_float32():
    # In float64, 0.2 / 1.2 lies above 1/6 and layer 1 goes to the first device; the server test shows that it does not.
    assert layer_devices(5, (0.2, 1)) == (0, 1, 1, 1, 1, 1)


def test_five_equal_gpus_and_a_kimi_k3():
    placed = layer_devices(93, (1,) * 5)
    assert [placed.count(device) for device in range(5)] == [19, 19, 19, 19, 18]


@given(st.integers(0, 200), SHARES, st.one_of(st.none(), st.integers(-5, 300)))
def test_layers_go_to_devices_in_order_after_those_on_the_host(n_layers, shares, gpu_layers):
    placed = layer_devices(n_layers, shares, gpu_layers)
    assert len(placed) == n_layers + 1
    on_devices = [device for device in placed if device is not None]
    assert list(placed) == [None] * (len(placed) - len(on_devices)) + sorted(on_devices)
    assert all(shares[device] > 0 for device in on_devices)
    if gpu_layers is not None:
        assert len(on_devices) == min(max(gpu_layers, 0), n_layers + 1)


@given(st.integers(1, 200), SHARES, st.sampled_from([0.25, 2, 8]))
def test_only_proportions_count(n_layers, shares, factor):
    # A power of two changes no float32's digits.
    assert layer_devices(n_layers, shares) == layer_devices(n_layers, [share * factor for share in shares])


@given(st.integers(0, 200), SHARES)
def test_the_rule_is_that_of_llama_cpp_spelt_out(n_layers, shares):
    # upper_bound(splits, float(il) / act), each step rounded to float32.
    sums, running = [], np.float32(0)
    for share in shares:
        running = np.float32(running + np.float32(share))
        sums.append(running)
    splits = [np.float32(one / running) for one in sums]
    total = n_layers + 1
    expected = [next(i for i, s in enumerate(splits) if s > np.float32(il) / np.float32(total)) for il in range(total)]
    assert list(layer_devices(n_layers, shares)) == expected


@pytest.mark.parametrize(
    ("n_layers", "shares", "gpu_layers", "expected"),
    [(11, (1, 1, 1), None, (4, 8)), (12, (1, 1, 1), None, ()), (93, (1,) * 5, None, ()), (11, (1, 1), 4, (10,))],
)
def test_layers_on_the_edge_are_found(n_layers, shares, gpu_layers, expected):
    assert layers_at_a_boundary(n_layers, shares, gpu_layers) == expected
