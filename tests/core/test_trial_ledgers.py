from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from k3prof.core.ledger import LineKind
from k3prof.core.spans import Spans, SplitMode
from k3prof.core.trial import RequestRecord, RequestStatus, ServerTimings, TrialRecord, Workload
from k3prof.core.trial_ledgers import trial_ledgers
from tests.doubles.tokens import MS, TOKEN_NS, pass_rows, spans_of
from tests.doubles.trials import STAND_INS, stand_in_trial

TG, PP = Workload("tg", 5), Workload("pp", 40)


def request(
    workload: Workload, begin_ns: int, role: str = "measure", repetition: int = 0, status: RequestStatus | None = None
) -> RequestRecord:
    """Return a request whose passes begin then, each of 20 ms; its tokens arrive as they end."""
    count = workload.tokens if workload.kind == "tg" else 1
    arrivals_ns = begin_ns + TOKEN_NS * np.arange(1, count + 1)
    return RequestRecord(
        workload,
        role,
        repetition,
        0,
        begin_ns,
        arrivals_ns,
        np.ones(count, np.int64),
        int(arrivals_ns[-1]),
        ServerTimings(prompt_n=workload.tokens if workload.kind == "pp" else 1, prompt_ms=20.0),
        status or RequestStatus.OK,
    )


def trial(*requests: RequestRecord, splits: SplitMode = SplitMode.EXACT) -> TrialRecord:
    plain, _ = stand_in_trial()
    spec = replace(plain.spec, workloads=(PP, TG), splits=splits)
    return replace(plain, spec=spec, devices=STAND_INS[:2], requests=requests)


def spans_between(begin_ns: int, end_ns: int) -> Spans:
    """Return passes without end, one every 20 ms."""
    first = begin_ns // TOKEN_NS * TOKEN_NS
    rows = [row for at_ns in range(first, end_ns, TOKEN_NS) for row in pass_rows(at_ns)]
    return spans_of(rows).reaching_into(begin_ns, end_ns)


def test_decode_is_counted_per_generated_token_and_prefill_per_token_of_the_prompt():
    prefill, decode = trial_ledgers(trial(request(PP, 0), request(TG, 1000 * MS)), spans_between)
    assert (prefill.workload, prefill.tokens, prefill.token_ms) == (PP, 40, 0.5)
    assert (decode.workload, decode.tokens, decode.token_ms) == (TG, 4, 20.0)
    assert prefill.ms(LineKind.DEVICE, "RPC1") == pytest.approx(7.5 / 40)
    assert decode.ms(LineKind.DEVICE, "RPC1") == pytest.approx(7.5)


def test_only_measured_repetitions_count():
    requests = (request(TG, 0, "warmup"), request(TG, 1000 * MS), request(TG, 2000 * MS, "untraced"))
    (found,) = trial_ledgers(trial(*requests), spans_between)
    assert found.tokens == 4


def test_repetitions_add_up():
    (found,) = trial_ledgers(trial(request(TG, 0), request(TG, 1000 * MS, repetition=1)), spans_between)
    assert found.tokens == 8
    assert found.token_ms == 20.0


@pytest.mark.parametrize("status", [RequestStatus.CUT, RequestStatus.IMPLAUSIBLE])
def test_a_repetition_that_did_not_end_well_does_not_count(status):
    requests = (request(TG, 0), request(TG, 1000 * MS, repetition=1, status=status))
    (found,) = trial_ledgers(trial(*requests), spans_between)
    assert found.tokens == 4


def test_an_untraced_trial_has_no_ledger_and_its_spans_are_not_asked_for():
    def refuse(begin_ns: int, end_ns: int) -> Spans:
        raise AssertionError

    assert trial_ledgers(trial(request(TG, 0), splits=SplitMode.OFF), refuse) == ()


def test_a_traced_trial_without_spans_has_no_ledger():
    assert trial_ledgers(trial(request(TG, 0)), lambda begin, end: spans_of([])) == ()
