from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.ledger import Crossings, LineKind, Observed, ledger
from k3prof.core.spans import SpanKind
from tests.doubles.tokens import MS, TG, decode, known_ledger, pass_rows, spans_of

DEVICES = ("RPC0", "RPC1")
HORIZON_NS = 120


def test_every_millisecond_of_a_known_token_stands_in_its_line():
    assert {line.name: line.ms_per_token for line in known_ledger().lines} == pytest.approx(
        {
            "RPC0": 6.0,
            "RPC1": 7.5,
            "CPU": 0.5,
            "copies": 1.25,
            "scheduler": 0.5 + 0.25 + 2.0 + 0.25,
            "sampling and HTTP": 1.75,
            "unexplained": 0.0,
        }
    )


def test_the_ledger_knows_its_token_and_how_far_it_is_from_closing():
    found = known_ledger()
    assert (found.token_ms, found.tokens) == (20.0, 8)
    assert found.explained_ms == pytest.approx(20.0)
    assert found.closes_by_frac == pytest.approx(0.0)


def test_the_place_of_a_lost_pass_is_unexplained_but_for_what_a_pause_between_passes_may_last():
    found = ledger(TG, DEVICES, [decode(tokens=8, missing=[3])])
    # Its 20 ms and the 1.75 ms before them make one stretch, of which three usual ones count.
    assert found.ms(LineKind.UNEXPLAINED) == pytest.approx((20 + 1.75 - 3 * 1.75) / 8)
    assert found.closes_by_frac == pytest.approx((20 + 1.75 - 3 * 1.75) / 160)
    assert found.explained_ms + found.ms(LineKind.UNEXPLAINED) == pytest.approx(20.0)


def test_the_place_of_a_lost_split_is_unexplained_but_for_what_a_pass_usually_leaves_open():
    whole = decode(tokens=8)
    spans = whole.spans
    lost = (spans.begin_ns == whole.begin_ns + 69 * MS) & (spans.kind == SpanKind.COMPUTE)
    found = ledger(TG, DEVICES, [Observed(whole.begin_ns, whole.end_ns, 8, spans.where(~lost))])
    # It lasted for 7 ms, and each pass has 2.25 ms of which no record tells.
    assert found.ms(LineKind.UNEXPLAINED) == pytest.approx((7 + 2.25 - 3 * 2.25) / 8)


def test_the_first_and_the_last_stretch_of_a_phase_are_cut_and_count_in_full():
    whole = decode(tokens=2)
    late = Observed(whole.begin_ns + 19 * MS, whole.end_ns + 5 * MS, 1, whole.spans)
    found = ledger(TG, DEVICES, [late])
    assert found.ms(LineKind.BETWEEN) == pytest.approx(1.0 + 1.75 + 5.0)
    assert found.ms(LineKind.UNEXPLAINED) == pytest.approx(0.0)


def test_ping_pong_is_counted_in_returns_over_a_boundary():
    assert known_ledger().crossings == Crossings(splits=5, devices=2, handovers=3, returns=2, host_turns=0)


def test_turns_of_the_host_between_splits_of_devices_are_counted_apart_from_hand_overs():
    path = ["CPU", "RPC0", "CPU", "RPC0", "CPU", "RPC1", "CPU"]
    rows = [(SpanKind.COMPUTE, name, 10 * at, 10 * at + 9) for at, name in enumerate(path)]
    seen = Observed(0, 100, 1, spans_of([(SpanKind.PASS, "", 0, 90), *rows]))
    assert ledger(TG, DEVICES, [seen]).crossings == Crossings(7, 2, handovers=1, returns=0, host_turns=2)


def test_time_in_which_two_devices_compute_counts_once_and_has_its_own_line():
    rows = [(SpanKind.COMPUTE, "RPC0", 0, 60 * MS), (SpanKind.COMPUTE, "RPC1", 40 * MS, 90 * MS)]
    seen = Observed(0, 100 * MS, 10, spans_of([(SpanKind.PASS, "", 0, 100 * MS), *rows]))
    found = ledger(TG, DEVICES, [seen])
    assert (found.ms(LineKind.DEVICE, "RPC0"), found.ms(LineKind.DEVICE, "RPC1")) == pytest.approx((4.0, 3.0))
    assert found.ms(LineKind.AT_ONCE) == pytest.approx(2.0)
    assert found.busy_ms == pytest.approx({"RPC0": 6.0, "RPC1": 5.0, "CPU": 0.0})


def test_a_light_trace_leaves_the_devices_time_unknown_and_unexplained():
    found = known_ledger(finished=False)
    unknown = [line.name for line in found.lines if line.ms_per_token is None]
    assert unknown == ["RPC0", "RPC1", "copies", "scheduler"]
    assert not found.device_times_known
    assert found.ms(LineKind.HOST_COMPUTE) == pytest.approx(0.5)
    assert found.ms(LineKind.UNEXPLAINED) == pytest.approx(20 - 0.5 - 1.75)


@pytest.mark.parametrize("seen", [[], [Observed(0, 100, 3, spans_of([]))], [Observed(0, 0, 0, decode().spans)]])
def test_without_a_traced_pass_or_a_token_there_is_no_ledger(seen):
    assert ledger(TG, DEVICES, seen) is None


KINDS = st.sampled_from([SpanKind.COMPUTE, SpanKind.COPY, SpanKind.SUBMIT, SpanKind.WAIT])
ROW = st.builds(
    lambda kind, device, ends: (kind, device, min(ends), max(ends)),
    KINDS,
    st.sampled_from([*DEVICES, "CPU"]),
    st.tuples(st.integers(0, HORIZON_NS), st.integers(0, HORIZON_NS)),
)


@st.composite
def observed(draw) -> Observed:
    edges = sorted(draw(st.sets(st.integers(0, HORIZON_NS), min_size=2, max_size=12)))
    passes = [(SpanKind.PASS, "", begin, end) for begin, end in zip(edges[::2], edges[1::2], strict=False)]
    rows = [*passes, *draw(st.lists(ROW, max_size=12))]
    return Observed(0, HORIZON_NS, draw(st.integers(1, 5)), spans_of(rows))


def painted(seen: Observed) -> dict[str, int]:
    """Return the nanoseconds of each line by looking at every single one."""
    spans, total = seen.spans, dict.fromkeys(["RPC0", "RPC1", "CPU", "at once", "copies", "scheduler"], 0)
    for now in range(seen.begin_ns, seen.end_ns):
        there = [
            (spans.kind[i], spans.devices[spans.device[i]] if spans.device[i] >= 0 else "")
            for i in range(len(spans))
            if spans.begin_ns[i] <= now < spans.end_ns[i]
        ]
        computing = {device for kind, device in there if kind == SpanKind.COMPUTE}
        if len(computing) > 1:
            total["at once"] += 1
        elif computing:
            total[computing.pop()] += 1
        elif any(kind == SpanKind.COPY for kind, _ in there):
            total["copies"] += 1
        elif there:
            total["scheduler"] += 1
    return total


@given(observed())
def test_each_nanosecond_is_in_the_first_line_that_claims_it(seen):
    found = ledger(TG, DEVICES, [seen])
    got, truth = {line.name: round(line.ms_per_token * 1e6 * seen.tokens) for line in found.lines}, painted(seen)
    scheduler = truth.pop("scheduler")
    assert {name: got.get(name, 0) for name in truth} == truth
    assert 0 <= scheduler - got["scheduler"] <= got["unexplained"]


@given(st.lists(observed(), min_size=1, max_size=3))
def test_lines_sum_to_the_token_and_shares_to_one(seen):
    found = ledger(TG, DEVICES, seen)
    assert sum(line.ms_per_token for line in found.lines) == pytest.approx(found.token_ms, rel=1e-12)
    assert sum(line.share for line in found.lines) == pytest.approx(1.0, rel=1e-12)
    assert found.token_ms == pytest.approx(HORIZON_NS * len(seen) / sum(one.tokens for one in seen) / 1e6)


@given(
    st.lists(observed(), min_size=2, max_size=4).flatmap(lambda seen: st.tuples(st.just(seen), st.permutations(seen)))
)
def test_the_order_of_repetitions_changes_nothing(both):
    seen, shuffled = both
    assert ledger(TG, DEVICES, seen) == ledger(TG, DEVICES, shuffled)


@given(observed(), st.integers(-(10**15), 10**15))
def test_shifting_the_clock_changes_nothing(seen, shift_ns):
    spans = seen.spans.replace(begin_ns=seen.spans.begin_ns + shift_ns, end_ns=seen.spans.end_ns + shift_ns)
    shifted = Observed(seen.begin_ns + shift_ns, seen.end_ns + shift_ns, seen.tokens, spans)
    assert ledger(TG, DEVICES, [shifted]) == ledger(TG, DEVICES, [seen])


@given(observed())
def test_the_order_of_devices_changes_only_the_order_of_lines(seen):
    one, other = ledger(TG, DEVICES, [seen]), ledger(TG, DEVICES[::-1], [seen])
    assert set(one.lines) == set(other.lines)


def test_work_outside_the_phase_does_not_count():
    seen = decode(tokens=2)
    more = spans_of([*pass_rows(900 * MS), *pass_rows(1000 * MS), *pass_rows(1020 * MS), *pass_rows(1400 * MS)])
    assert (
        ledger(TG, DEVICES, [Observed(seen.begin_ns, seen.end_ns, 2, more)]).lines == ledger(TG, DEVICES, [seen]).lines
    )
