from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.refutation.leg import MeasuredLeg
from k3prof.core.refutation.leg_bandwidth import bandwidth_frac, bandwidth_gb_s
from k3prof.core.trial import FlagValue, Outcome, RequestRecord, ServerTimings, TrialRecord, TrialStatus, Workload
from k3prof.core.weights.model import Model
from tests.core.test_trial import SPEC
from tests.doubles import tiny_models

TG = Workload("tg", 11)
SPEEDS = {"RPC0": 2.0, "RPC1": 1.0, "CPU": 0.1}
"""In GB/s."""
LAYER = 2 * (64 + 64 * 128 + 2 * 64 * 64 + 128 * 64 + 3 * 64 * 256)
HEAD = 2 * (64 + 64 * 1000)
CELL = 2 * (32 + 32) * 2
"""Bytes of `tiny_models.dense`: one of its two layers, its head, a token's keys and values in one layer."""
TOKENS_PER_S = 250.0


def streams(workload: Workload, drafted: int | None = None) -> tuple[RequestRecord, ...]:
    """Return requests whose tokens come 4 ms apart, in each stream."""
    arrivals_ns = 1_000_000_000 + 4_000_000 * np.arange(workload.tokens, dtype=np.int64)
    timings = ServerTimings(1, 4.0, workload.tokens, 4.0 * (workload.tokens - 1), draft_n=drafted)
    ones = np.ones(workload.tokens, np.int64)
    return tuple(
        RequestRecord(workload, "measure", 0, stream, 999_000_000, arrivals_ns, ones, int(arrivals_ns[-1]), timings)
        for stream in range(workload.streams)
    )


def leg(
    model: Model | None,
    workload: Workload = TG,
    speeds: dict[str, float] = SPEEDS,
    drafted: int | None = None,
    **flags: FlagValue,
) -> MeasuredLeg:
    named: dict[str, FlagValue] = {"ctx-size": 512, "tensor-split": (1, 2)}
    named |= {name.replace("_", "-"): value for name, value in flags.items()}
    devices = (Device("RPC0", DeviceKind.STAND_IN), Device("RPC1", DeviceKind.STAND_IN), HOST)
    spec = replace(SPEC, flags=named, workloads=(workload,))
    requests = streams(workload, drafted)
    trial = TrialRecord(1, spec, devices, 0, 1, 2_000_000_000, Outcome(TrialStatus.OK), requests)
    bandwidths = {name: Bandwidth(name, speed, "given") for name, speed in speeds.items()}
    return MeasuredLeg(trial, (), model=model, bandwidths=bandwidths)


def frac(of: MeasuredLeg, workload: Workload = TG) -> float | None:
    found = bandwidth_frac(of, workload)
    return None if found is None else found.value


def gb_per_s(of: MeasuredLeg, workload: Workload = TG) -> float | None:
    found = bandwidth_gb_s(of, workload)
    return None if found is None else found.value


def test_each_devices_bytes_count_against_its_own_speed() -> None:
    """One layer on RPC0, one and the head on RPC1; one cell is written and read in each."""
    of = leg(tiny_models.dense())
    first, second = LAYER + 2 * CELL, LAYER + HEAD + 2 * CELL
    assert gb_per_s(of) == pytest.approx((first + second) * TOKENS_PER_S / 1e9)
    assert frac(of) == pytest.approx((first / 2.0e9 + second / 1.0e9) * TOKENS_PER_S)


def test_a_deep_context_is_read_for_every_token() -> None:
    deep = Workload("tg", 11, depth=1000)
    shallow_gb, deep_gb = gb_per_s(leg(tiny_models.dense())), gb_per_s(leg(tiny_models.dense(), deep), deep)
    assert shallow_gb is not None
    assert deep_gb == pytest.approx(shallow_gb + 2 * 1000 * CELL * TOKENS_PER_S / 1e9)


def test_experts_on_the_host_count_against_the_hosts_speed() -> None:
    model = tiny_models.experts()
    expert = 2 * 3 * 64 * 32
    on_devices, on_host = frac(leg(model)), frac(leg(model, cpu_moe=True))
    assert on_devices is not None
    # Two of eight experts are used, in the second layer, which is RPC1's.
    assert on_host == pytest.approx(on_devices + 2 * expert * (1 / 0.1e9 - 1 / 1.0e9) * TOKENS_PER_S)


def test_several_streams_share_a_pass_and_need_the_expected_number_of_distinct_experts() -> None:
    workload = Workload("tg", 11, streams=3)
    alone, together = gb_per_s(leg(tiny_models.experts())), gb_per_s(leg(tiny_models.experts(), workload), workload)
    expert = 2 * 3 * 64 * 32
    distinct = 8 * (1 - (1 - 2 / 8) ** 3)
    assert alone is not None
    # Three streams at 250 tokens a second each are 250 passes a second, each with two cells more to read and write.
    per_pass = alone * 1e9 / TOKENS_PER_S + (distinct - 2) * expert + 2 * 2 * 2 * CELL
    assert together == pytest.approx(per_pass * 250 / 1e9)


def test_experts_that_a_flag_takes_away_are_not_read() -> None:
    all_used = gb_per_s(leg(tiny_models.experts()))
    fewer = gb_per_s(leg(tiny_models.experts(), override_kv="qwen3moe.expert_used_count=int:1"))
    assert all_used is not None
    assert fewer == pytest.approx(all_used - 2 * 3 * 64 * 32 * TOKENS_PER_S / 1e9)


@pytest.mark.parametrize(
    "unknown",
    [
        leg(None),
        leg(tiny_models.dense(), speeds={"RPC0": 2.0, "CPU": 0.1}),
        leg(tiny_models.experts(), speeds={"RPC0": 2.0, "RPC1": 1.0}, cpu_moe=True),
        leg(tiny_models.dense(), split_mode="tensor"),
        leg(tiny_models.dense(), split_mode="row"),
        leg(tiny_models.dense(), fit="on"),
        leg(tiny_models.dense(), device="RPC7"),
        leg(tiny_models.dense(), drafted=4),
    ],
    ids=["model", "a device's speed", "the host's speed", "tensors cut", "rows cut", "fit", "no such device", "drafts"],
)
def test_a_bandwidth_is_unknown_where_something_that_decides_it_is(unknown: MeasuredLeg) -> None:
    assert frac(unknown) is None
    assert gb_per_s(unknown) is None


def test_a_host_that_reads_nothing_may_be_of_unknown_speed() -> None:
    assert frac(leg(tiny_models.dense(), speeds={"RPC0": 2.0, "RPC1": 1.0})) is not None


def test_prefill_has_no_bandwidth() -> None:
    assert frac(leg(tiny_models.dense()), Workload("pp", 11)) is None
