from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.device import DeviceKind
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.placement import place
from k3prof.core.layout.rig import Link, Rig, RigDevice, RigHost
from k3prof.core.layout.roofline import achieved, roofline
from k3prof.core.weights.roles import Role
from k3prof.core.weights.traffic import ForwardPass
from tests.doubles import tiny_models

# 10⁹ bytes per second are 10⁶ per millisecond.
FAST, SLOW, HOST = (
    Bandwidth(name, speed, "datasheet") for name, speed in (("fast", 2.0), ("slow", 1.0), ("host", 0.1))
)
LAYER = 2 * (64 + 64 * 128 + 2 * 64 * 64 + 128 * 64 + 3 * 64 * 256)
HEAD = 2 * (64 + 64 * 1000)
ROW = 2 * 2 * (32 + 32)
EXPERT = 2 * 3 * 64 * 32


def rig(first=FAST, second=SLOW, host=HOST, link=None):
    devices = (
        RigDevice("CUDA0", DeviceKind.CUDA, bandwidth=first),
        RigDevice("CUDA1", DeviceKind.CUDA, bandwidth=second),
    )
    return Rig("two", devices, RigHost(bandwidth=host), link)


def found(model=None, machine=None, forward=None, **flags):
    machine, forward = machine or rig(), forward or ForwardPass()
    model = model or tiny_models.dense()
    named = {"tensor-split": (1, 2)} | {name.replace("_", "-"): value for name, value in flags.items()}
    return roofline(model, place(model, named, machine), machine, forward)


def test_the_devices_times_add_up_for_one_stream():
    ceiling = found()
    # Layer 0 on CUDA0, layer 1 and the head on CUDA1; one cell of KV is written and read per layer.
    first, second, host = ceiling.devices
    assert first.n_bytes == LAYER + 2 * ROW
    assert second.n_bytes == LAYER + HEAD + 2 * ROW
    assert host.n_bytes == 0
    assert (first.ms, second.ms) == (first.n_bytes / 2e6, second.n_bytes / 1e6)
    assert ceiling.sequential_ms == pytest.approx(first.ms + second.ms)
    assert ceiling.tokens_per_s == pytest.approx(1e3 / (first.ms + second.ms))


def test_many_streams_are_bound_by_the_slowest_device():
    ceiling = found()
    assert ceiling.overlap_ms == ceiling.devices[1].ms
    assert ceiling.overlapped_tokens_per_s == pytest.approx(1e3 / ceiling.devices[1].ms)


def test_deeper_contexts_read_more_kv_where_their_layers_are():
    shallow, deep = found(), found(forward=ForwardPass(depth=1000))
    assert [b.n_bytes - a.n_bytes for a, b in zip(shallow.devices, deep.devices, strict=True)] == [
        1000 * ROW,
        1000 * ROW,
        0,
    ]


def test_experts_on_the_host_are_read_at_the_hosts_speed():
    model = tiny_models.experts(context_length=512)
    host = found(model, cpu_moe=True).devices[-1]
    assert host.bytes_by_role == {Role.ROUTED_EXPERTS: pytest.approx(2 * EXPERT)}
    assert host.ms == pytest.approx(2 * EXPERT / 1e5)


def test_caches_on_the_host_are_read_there():
    assert found(kv_offload=False).devices[-1].n_bytes == 4 * ROW


def test_a_ceiling_is_unknown_where_a_speed_that_matters_is():
    model = tiny_models.experts(context_length=512)
    ceiling = found(model, rig(host=None), cpu_moe=True)
    assert ceiling.sequential_ms is None
    assert ceiling.tokens_per_s is None
    assert ceiling.overlapped_tokens_per_s is None
    assert ceiling.of_unknown_speed == ("CPU",)


def test_rows_of_the_embedding_do_not_need_the_hosts_speed():
    assert found(machine=rig(host=None)).tokens_per_s is not None


def test_a_ceiling_is_unknown_where_the_caches_are():
    ceiling = found(tiny_models.dense("no-such-model"))
    assert ceiling.n_bytes is None
    assert ceiling.tokens_per_s is None


def test_crossings_cost_their_bytes_and_their_latency():
    link = Link(Bandwidth("link", 0.001, "measured"), latency_us=50)
    ceiling = found(machine=rig(link=link))
    # host -> CUDA0 -> CUDA1: two crossings of 64 f32.
    assert (ceiling.crossings.count, ceiling.crossings.bytes_each) == (2, 256)
    assert ceiling.crossings.ms == pytest.approx(2 * (256 / 1e3 + 0.05))
    assert ceiling.sequential_ms == pytest.approx(found().sequential_ms + ceiling.crossings.ms)


def test_without_a_link_crossings_are_left_out():
    assert found().crossings.ms is None
    assert found().sequential_ms is not None


def test_a_measured_speed_is_held_against_one_device_and_against_all():
    ceiling = found(machine=rig(FAST, FAST))
    half = achieved(ceiling, ceiling.tokens_per_s / 2)
    assert half.of_one_device_frac == pytest.approx(0.5)
    assert half.of_sum_frac == pytest.approx(0.25)
    assert half.gb_per_s == pytest.approx(1.0)


def test_nothing_is_achieved_against_an_unknown_peak():
    assert achieved(found(machine=rig(second=None)), 10.0) is None


@given(st.integers(1, 64), st.integers(0, 4096), st.tuples(st.integers(0, 3), st.integers(1, 3)))
def test_taking_turns_is_never_faster_than_overlapping(streams, depth, shares):
    ceiling = found(forward=ForwardPass(streams, streams, depth), tensor_split=shares)
    assert ceiling.tokens_per_s <= ceiling.overlapped_tokens_per_s * (1 + 1e-9)


@given(st.tuples(st.integers(0, 3), st.integers(1, 3)), st.booleans())
def test_wherever_things_lie_a_pass_reads_the_same(shares, on_host):
    model = tiny_models.experts(context_length=512)
    flags = {"cpu_moe": True} if on_host else {}
    assert found(model, tensor_split=shares, **flags).n_bytes == pytest.approx(found(model).n_bytes)
