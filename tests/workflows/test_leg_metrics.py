"""Metrics of a real traced trial, each held against what the trace's raw records say by other arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from gguf import GGUFReader

from k3prof.core.build import Build
from k3prof.core.evidence.loaded import BufferKind, LoadedServer
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.ops.op_shares import op_shares
from k3prof.core.refutation.leg import MeasuredLeg
from k3prof.core.refutation.leg_metrics import LEG_METRICS, Need, find_metric
from k3prof.core.spans import SpanKind, Spans
from k3prof.core.timeline import Counter
from k3prof.core.trial import RequestRecord, Workload
from k3prof.core.trial_ledgers import trial_ledgers
from k3prof.llama.gguf import read_model
from k3prof.llama.logs import read_log
from k3prof.store.trace import Trace
from k3prof.workflows.ops import profile_ops
from tests.doubles.trials import stand_in_trial
from tests.workflows.test_sweep import Sweeper
from tests.workflows.traced_sweep import DEVICES, TG

pytestmark = pytest.mark.server

PP = Workload("pp", 128)
GB_PER_S = 40.0
USD_PER_HOUR = 2.2
MIB = 2**20

Found = tuple[MeasuredLeg, Spans, LoadedServer]


@pytest.fixture(scope="module", params=["even", "experts-on-host"])
def found(request: pytest.FixtureRequest, traced: Sweeper) -> Found:
    """A leg of the traced sweep, what its tracer saw, and its server's log."""
    with Trace.readable(traced.trace) as trace:
        trial = next(one for one in trace.trials() if one.spec.placement == request.param)
        log, series, spans = trace.log(trial.id), tuple(trace.series(trial.id)), trace.spans(trial.id)
        ledgers = trial_ledgers(trial, partial(trace.spans, trial.id))
    assert log is not None
    leg = MeasuredLeg(
        trial=trial,
        series=series,
        ledgers=ledgers,
        model=read_model(Path(trial.spec.model_path)),
        bandwidths={name: Bandwidth(name, GB_PER_S, "given") for name in (*DEVICES, "CPU")},
        price_per_hour=USD_PER_HOUR,
    )
    return leg, spans, read_log(log)


def value(leg: MeasuredLeg, name: str, workload: Workload = TG) -> float:
    metric = find_metric(name)
    assert metric is not None
    figure = metric.compute(leg, workload)
    assert figure is not None, metric.unknown
    return figure.value


def requests(leg: MeasuredLeg, role: str, workload: Workload = TG) -> list[RequestRecord]:
    chosen = [one for one in leg.trial.requests if (one.role, one.workload) == (role, workload)]
    assert len(chosen) == leg.trial.spec.repeat
    return chosen


def decode_ns(request: RequestRecord) -> tuple[int, int]:
    return int(request.arrivals_ns[0]), int(request.arrivals_ns[-1])


def busy_by_hand(leg: MeasuredLeg, device: str, intervals: Sequence[tuple[int, int]]) -> float:
    (series,) = [one for one in leg.series if (one.device, one.counter) == (device, Counter.CPU_TIME_NS)]
    spent = sum(float(np.diff(np.interp(interval, series.time_ns, series.value))[0]) for interval in intervals)
    return spent / sum(end_ns - begin_ns for begin_ns, end_ns in intervals)


def test_speeds_are_the_untraced_requests_medians(found: Found) -> None:
    leg, _, _ = found
    decode, prefill = requests(leg, "untraced"), requests(leg, "untraced", PP)
    gaps = [float(np.median(np.diff(one.arrivals_ns))) / 1e6 for one in decode]
    rates = [1e3 * (one.timings.predicted_n - 1) / one.timings.predicted_ms for one in decode]
    assert value(leg, "tg") == pytest.approx(median(rates))
    assert value(leg, "itl") == pytest.approx(median(gaps))
    prompt = [1e3 * 128 / one.timings.prompt_ms for one in prefill]
    assert value(leg, "pp", PP) == pytest.approx(median(prompt))
    first = [float(one.arrivals_ns[0] - one.sent_ns) / 1e6 for one in prefill]
    assert value(leg, "ttft", PP) == pytest.approx(median(first))


def test_the_servers_rate_agrees_with_the_clients_clock(found: Found) -> None:
    leg, _, _ = found
    walls = [end_ns - begin_ns for begin_ns, end_ns in map(decode_ns, requests(leg, "untraced"))]
    assert value(leg, "tg") == pytest.approx(median(31e9 / wall for wall in walls), rel=0.02)


def test_parallelism_is_the_sum_of_the_devices_busy_shares(found: Found) -> None:
    leg, _, _ = found
    decode = [decode_ns(one) for one in requests(leg, "untraced")]
    prefill = [(one.sent_ns, int(one.arrivals_ns[0])) for one in requests(leg, "untraced", PP)]
    for workload, intervals in ((TG, decode), (PP, prefill)):
        shares = [busy_by_hand(leg, device, intervals) for device in DEVICES]
        assert [value(leg, f"busy.{device}", workload) for device in DEVICES] == pytest.approx(shares)
        assert value(leg, "busy.CPU", workload) == pytest.approx(busy_by_hand(leg, "CPU", intervals))
        assert value(leg, "parallelism", workload) == pytest.approx(sum(shares))


def test_the_ledgers_shares_sum_to_one_and_its_milliseconds_to_the_clients_token(found: Found) -> None:
    leg, _, _ = found
    lines = [name.removeprefix("ledger.") for name in LEG_METRICS if name.startswith("ledger.")]
    assert len(lines) == 7
    assert sum(value(leg, f"ledger.{line}") for line in lines) == pytest.approx(1.0)
    traced = [decode_ns(one) for one in requests(leg, "measure")]
    token_ms = sum(end_ns - begin_ns for begin_ns, end_ns in traced) / (31 * len(traced)) / 1e6
    assert sum(value(leg, f"ledger_ms.{line}") for line in lines) == pytest.approx(token_ms)
    for line in lines:
        assert value(leg, f"ledger.{line}") == pytest.approx(value(leg, f"ledger_ms.{line}") / token_ms)


def test_the_devices_line_is_what_the_tracer_saw_them_compute(found: Found) -> None:
    leg, spans, _ = found
    traced = [decode_ns(one) for one in requests(leg, "measure")]
    for line, devices in (("devices", DEVICES), ("host_compute", ("CPU",))):
        work = [spans.of_kind(SpanKind.COMPUTE).on(device) for device in devices]
        seen_ns = sum(
            int(np.maximum(np.minimum(one.end_ns, end_ns) - np.maximum(one.begin_ns, begin_ns), 0).sum())
            for one in work
            for begin_ns, end_ns in traced
        )
        assert value(leg, f"ledger_ms.{line}") == pytest.approx(seen_ns / (31 * len(traced)) / 1e6)
    assert value(leg, "ledger.at_once") == 0.0


def test_bandwidth_is_the_files_bytes_and_the_logs_caches_at_the_measured_rate(found: Found) -> None:
    """All devices read alike here, so that it does not matter which has what."""
    leg, _, log = found
    reader = GGUFReader(leg.trial.spec.model_path)
    experts, used = (int(reader.fields[f"kimi-k3.{key}"].parts[-1][0]) for key in ("expert_count", "expert_used_count"))
    weights = sum(
        int(tensor.n_bytes) * (used / experts if "_exps" in tensor.name else 1.0)
        for tensor in reader.tensors
        if tensor.name != "token_embd.weight"
    )
    state = sum(one.mib for one in log.buffers[BufferKind.STATE]) * MIB
    cell = sum(one.mib for one in log.buffers[BufferKind.KV]) * MIB / 512
    # State is read and written; the one token reads its own cell and writes it.
    token = weights + 2 * state + 2 * cell
    assert value(leg, "bandwidth_gb_s") == pytest.approx(token * value(leg, "tg") / 1e9, rel=1e-3)
    assert value(leg, "bandwidth_frac") == pytest.approx(token * value(leg, "tg") / (GB_PER_S * 1e9), rel=1e-3)


def test_money_and_loading_follow_from_the_clock(found: Found) -> None:
    leg, _, _ = found
    hours = 1e6 / value(leg, "tg") / 3600
    assert value(leg, "usd_per_million") == pytest.approx(hours * USD_PER_HOUR)
    assert leg.trial.ready_ns is not None
    assert value(leg, "load_s") == (leg.trial.ready_ns - leg.trial.started_ns) / 1e9


def test_every_metric_of_a_leg_is_known_but_those_that_nobody_observed(found: Found) -> None:
    leg, _, _ = found
    for metric in LEG_METRICS.values():
        workload = PP if metric.workload_kind == "pp" else TG
        figure = metric.compute(leg, workload)
        if metric.needs & {Need.OPS, Need.ENERGY}:
            assert figure is None
        else:
            assert figure is not None, metric.name
            assert metric.low <= figure.value <= metric.high
            assert math.isfinite(figure.bias_low + figure.bias_high)


def test_shares_of_a_real_op_profile_are_metrics_by_their_names(build: Build) -> None:
    (profile,) = profile_ops("demo:k3-tiny", build=build.bin_dir, tokens=8, threads=1).profiles
    shares = op_shares(profile)
    assert {"part.moe", "part.attention-kda", "role.routed-experts", "role.no-weights", "op.mul_mat_id"} <= set(shares)
    profiled = MeasuredLeg(stand_in_trial()[0], (), op_shares=shares)
    for family in ("part", "role", "op"):
        of_family = [name for name in shares if name.startswith(f"{family}.")]
        assert sum(value(profiled, name) for name in of_family) == pytest.approx(1.0)
