"""Each measurement works and yields what it says, on the real server; how good the figures are is not judged here."""

from __future__ import annotations

import pytest

from k3prof.core.build import Build
from tests.bench import client_share, draw_time, header_time, help_time, report_time, sampler_cost, tracer_cost
from tests.bench.effort import QUICK
from tests.bench.figure import Figure
from tests.bench.ratio import Ratio


def assert_is_interval(ratio: Ratio) -> None:
    assert 0 < ratio.low <= ratio.value <= ratio.high


def verdicts(figures: list[Figure]) -> dict[str, str]:
    return {one.name: one.verdict for one in figures}


@pytest.mark.server
def test_the_samplers_cost_is_measured_while_a_server_decodes(build: Build) -> None:
    cost = sampler_cost.measure(build, QUICK)
    assert_is_interval(cost.speed)
    assert cost.speed.blocks == QUICK.blocks
    assert 0 < cost.processor_frac < 1
    assert 0 <= cost.late_p50_ms <= cost.late_p99_ms
    assert cost.samples > 0
    assert 1 <= cost.interval_ms <= 10
    assert verdicts(cost.figures()).keys() == {
        "sampled / unsampled tok/s",
        "sampler's processor share",
        "sampler's lateness",
    }


@pytest.mark.server
def test_the_split_tracers_cost_is_measured_in_both_modes(build: Build) -> None:
    cost = tracer_cost.measure(build, QUICK)
    for one in (cost.exact, cost.light):
        assert_is_interval(one)
        assert one.blocks == QUICK.blocks
    assert cost.spans_per_token > 8  # as many as splits
    assert cost.record_ns > 0
    assert cost.ring_bytes == 192
    assert 0 < cost.stored_bytes < 50
    assert set(verdicts(cost.figures()).values()) == {""}


@pytest.mark.server
def test_the_clients_share_is_measured_with_one_stream_and_with_many(build: Build) -> None:
    share = client_share.measure(build, QUICK)
    assert [one.streams for one in share.shares] == [1, 8, 32]
    for one in share.shares:
        # The first event of a repetition starts its clock, so its tokens are not counted.
        repetitions = 32 // one.streams * QUICK.loads
        assert one.tokens <= repetitions * (64 * one.streams - 1)
        assert one.tokens > repetitions * 32 * one.streams
        assert 0 < one.processor_us < one.wall_us
    assert_is_interval(share.speed)
    assert share.speed.blocks == 32 * QUICK.loads
    assert set(verdicts(share.figures()).values()) == {""}


def test_reports_are_timed_on_a_trace_that_holds_what_was_asked_for() -> None:
    time = report_time.measure(QUICK)
    assert time.samples >= QUICK.samples
    assert time.requests == time.trials * 62
    assert time.trace_bytes > 16 * time.samples
    assert [one.name for one in time.outputs] == ["HTML report", "HTML timeline", "PNG timeline"]
    assert all(one.seconds > 0 and 10_000 < one.size_bytes < 3_000_000 for one in time.outputs)


def test_help_is_timed_beside_python_alone() -> None:
    time = help_time.measure(QUICK)
    assert time.starts == QUICK.starts
    assert time.help_s > time.python_s > 0


def test_a_header_is_read_by_both_readers_and_has_the_tensors_it_should() -> None:
    time = header_time.measure(QUICK)
    assert time.tensors > 200
    assert time.readings == QUICK.headers
    assert time.ours_s > 0
    assert time.package_s > 0
    assert verdicts(time.figures()).keys() == {"header of a Kimi-K3"}


def test_split_spans_are_drawn_in_both_ways() -> None:
    time = draw_time.measure(QUICK)
    assert time.spans >= QUICK.samples
    assert set(time.seconds) == {"HTML of split spans", "PNG of split spans"}
    assert all(10_000 < size < 3_000_000 for size in time.sizes_bytes.values())
