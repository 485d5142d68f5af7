"""Ledgers of the real llama-server on three stand-ins: they close, and the process clock agrees with the devices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from k3prof.core.ledger import Ledger, LineKind, Observed, ledger
from k3prof.core.spans import SpanKind
from k3prof.core.summary import PlacementSummary, phases, summarize_trial
from k3prof.core.timeline import PhaseKind
from k3prof.core.trial_ledgers import trial_ledgers
from k3prof.store.trace import Trace
from k3prof.workflows.results import read_results
from tests.workflows.test_sweep import Sweeper
from tests.workflows.traced_sweep import DEVICES, PLACEMENTS, TG

pytestmark = pytest.mark.server


def summaries(traced: Sweeper) -> dict[str, PlacementSummary]:
    with Trace.readable(traced.trace) as trace:
        return {one.placement: one for one in read_results(trace).summaries}


def decode(summary: PlacementSummary) -> Ledger:
    return next(one for one in summary.ledgers if one.workload == TG)


def repetitions(traced: Sweeper, placement: str) -> Iterator[PlacementSummary]:
    """Yield what each repetition alone says."""
    with Trace.readable(traced.trace) as trace:
        trial = next(one for one in trace.trials() if one.spec.placement == placement)
        for repetition in range(trial.spec.repeat):
            one = replace(trial, requests=tuple(r for r in trial.requests if r.repetition == repetition))
            ledgers = trial_ledgers(one, partial(trace.spans, trial.id))
            yield summarize_trial(one, trace.series(trial.id), None, ledgers)


def tokens_alone(traced: Sweeper, placement: str) -> Iterator[Ledger]:
    """Yield the ledger of each forward pass that made one token."""
    with Trace.readable(traced.trace) as trace:
        trial = next(one for one in trace.trials() if one.spec.placement == placement)
        for phase in phases(trial):
            if (phase.kind, phase.workload) != (PhaseKind.DECODE, TG.name):
                continue
            spans = trace.spans(trial.id, phase.begin_ns, phase.end_ns)
            passes = spans.of_kind(SpanKind.PASS)
            for begin_ns, end_ns in zip(passes.begin_ns.tolist()[1:-1], passes.end_ns.tolist()[1:-1], strict=True):
                one = ledger(TG, DEVICES, [Observed(begin_ns, end_ns, 1, spans)])
                assert one is not None
                yield one


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_ledger_explains_at_least_95_percent_of_a_token(traced: Sweeper, placement: str) -> None:
    for found in summaries(traced)[placement].ledgers:
        assert abs(found.closes_by_frac) <= 0.05
        assert sum(line.ms_per_token or 0.0 for line in found.lines) == pytest.approx(found.token_ms)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_the_process_clock_agrees_with_the_devices_lines(traced: Sweeper, placement: str) -> None:
    """In the tokens that others disturbed least: a stand-in that waits for a processor computes, to the tracer."""
    summary = summaries(traced)[placement]
    found, measured = decode(summary), summary.of(TG)
    assert measured is not None
    tokens = list(tokens_alone(traced, placement))
    assert len(tokens) > 100
    for device in DEVICES:
        undisturbed_ms = float(np.quantile([one.busy_ms[device] or np.nan for one in tokens], 0.05))
        assert undisturbed_ms == pytest.approx((measured.busy_frac[device] or 0.0) * found.token_ms, rel=0.15)


def test_devices_take_turns_and_exact_tracing_sees_none_at_once(traced: Sweeper) -> None:
    for summary in summaries(traced).values():
        found = decode(summary)
        assert not found.ms(LineKind.AT_ONCE)
        assert sum(ms or 0.0 for ms in found.busy_ms.values()) < found.token_ms


@pytest.mark.parametrize(("placement", "host_turns"), [("even", 0), ("uneven", 0), ("experts-on-host", 3)])
def test_ping_pong_and_turns_of_the_host_are_those_of_a_kimi_k3(
    traced: Sweeper, placement: str, host_turns: int
) -> None:
    found = decode(summaries(traced)[placement]).crossings
    assert (found.devices, found.handovers, found.returns, found.host_turns) == (3, 6, 4, host_turns)
    # 3P - 2 stretches and the embedding; each layer with experts on the host adds two (layer 0 has none).
    assert found.splits == 3 * 3 - 2 + 1 + 2 * host_turns


def test_uneven_layers_are_uneven_milliseconds(traced: Sweeper) -> None:
    found = min((decode(one) for one in repetitions(traced, "uneven")), key=lambda one: one.token_ms)
    assert (found.busy_ms["RPC0"] or 0) > (found.busy_ms["RPC1"] or 0) > (found.busy_ms["RPC2"] or 0)


def test_only_experts_on_the_host_give_the_host_a_part_of_the_graph(traced: Sweeper) -> None:
    by_name = summaries(traced)
    with_experts = decode(by_name["experts-on-host"]).ms(LineKind.HOST_COMPUTE) or 0.0
    without = decode(by_name["even"]).ms(LineKind.HOST_COMPUTE) or 0.0
    assert with_experts > 5 * without > 0


def test_reports_show_the_ledger(traced: Sweeper, tmp_path: Path) -> None:
    for name in ("report.html", "report.md", "report.json"):
        command = [sys.executable, "-m", "k3prof", "report", str(traced.trace), "-o", str(tmp_path / name)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
    for name in ("report.html", "report.md"):
        text = (tmp_path / name).read_text()
        assert "What would help, and at most how much" in text
        assert "ping-pong" in text
    first = json.loads((tmp_path / "report.json").read_text())["placements"][0]["ledgers"][0]
    assert sum(line["ms_per_token"] for line in first["lines"]) == pytest.approx(first["token_ms"])
