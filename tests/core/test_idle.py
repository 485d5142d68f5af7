from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import integrate

from k3prof.core.idle import Answer, Parallelism, Question, parallelism
from k3prof.core.timeline import Counter, Series, busy_share, busy_steps

MS = 1_000_000
S = 1_000_000_000


def alternating(devices: int, slot_ms: float, seconds: float, sample_ms: float = 5, overlap: float = 0.0):
    """Cumulative busy time of devices that take turns of `slot_ms`, each staying on for `overlap` of the next turn."""
    time_ns = np.arange(0, int(seconds * S) + 1, int(sample_ms * MS))
    cycle_ms = devices * slot_ms
    found = []
    for device in range(devices):
        ms = time_ns / MS - device * slot_ms
        turns, into = np.divmod(ms, cycle_ms)
        busy_ms = turns * slot_ms * (1 + overlap) + np.minimum(into, slot_ms * (1 + overlap))
        found.append(Series(f"RPC{device}", Counter.CPU_TIME_NS, int(sample_ms * MS), time_ns, busy_ms * MS))
    return found


@pytest.mark.parametrize("devices", [2, 3, 5])
def test_devices_that_take_turns_have_a_parallelism_of_one(devices: int) -> None:
    found = parallelism(alternating(devices, 28, 12), [(S, 11 * S)])
    assert found is not None
    assert found.degree == pytest.approx(1.0, abs=0.03)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 1.0 + 0.01
    assert found.high >= 1.0 - 0.01
    assert not found.proves_overlap


def test_devices_that_overlap_half_of_each_turn_have_a_parallelism_of_one_and_a_half() -> None:
    found = parallelism(alternating(3, 28, 12, overlap=0.5), [(S, 11 * S)])
    assert found is not None
    assert found.degree == pytest.approx(1.5, abs=0.03)
    assert found.proves_overlap


def test_one_device_that_was_not_observed_makes_the_whole_unknown() -> None:
    complete, short = alternating(2, 28, 12)
    short = Series(short.device, short.counter, short.period_ns, short.time_ns[:100], short.value[:100])
    assert parallelism([complete, short], [(5 * S, 10 * S)]) is None
    assert parallelism([], [(0, S)]) is None


def test_one_block_gives_a_degree_without_an_interval() -> None:
    found = parallelism(alternating(2, 28, 3), [(S, S + S // 2)])
    assert found is not None
    assert (found.blocks, found.low, found.high) == (1, None, None)


def test_a_percent_counter_widens_the_interval_by_its_rounding() -> None:
    time_ns = np.arange(0, 60 * S, S // 5)
    flat = [Series(f"CUDA{n}", Counter.BUSY_FRAC, S // 5, time_ns, np.full(time_ns.size, 0.2)) for n in range(5)]
    found = parallelism(flat, [(S, 50 * S)])
    assert found is not None
    assert found.degree == pytest.approx(1.0)
    assert found.low == pytest.approx(1.0 - 5 * 0.005)
    assert found.high == pytest.approx(1.0 + 5 * 0.010)
    assert (found.bias_low, found.bias_high) == pytest.approx((0.025, 0.05))


def test_the_interval_covers_the_true_degree_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    covered = 0
    rounds = 2000
    for _ in range(rounds):
        time_ns = np.arange(0, 8 * S + 1, S)
        busy = np.concatenate([[0.0], np.cumsum(random.normal(0.8, 0.05, 8)) * S])
        found = parallelism([Series("RPC0", Counter.CPU_TIME_NS, S // 200, time_ns, busy)], [(0, 8 * S)])
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 0.8 <= found.high
    assert covered / rounds == pytest.approx(0.90, abs=0.02)  # three standard errors of 2,000 rounds


@given(
    st.lists(st.floats(0, 1), min_size=2, max_size=40),
    st.integers(0, 10**9),
    st.integers(1, 10**9),
)
def test_busy_time_is_the_integral_of_the_steps(shares: list[float], begin: int, length: int) -> None:
    time_ns = np.arange(len(shares) + 1) * 50 * MS
    value = np.concatenate([[0.0], np.cumsum(shares)]) * 50 * MS
    series = Series("RPC0", Counter.CPU_TIME_NS, 50 * MS, time_ns, value)
    begin_ns = begin % int(time_ns[-1])
    end_ns = min(begin_ns + length, int(time_ns[-1]))
    share = busy_share(series, begin_ns, end_ns)
    if end_ns == begin_ns:
        assert share is None
        return
    fine = np.unique(np.concatenate([time_ns[(time_ns > begin_ns) & (time_ns < end_ns)], [begin_ns, end_ns]]))
    middle = (fine[1:] + fine[:-1]) / 2
    at_middle = np.array(shares)[np.minimum((middle // (50 * MS)).astype(int), len(shares) - 1)]
    expected = float(np.sum(at_middle * np.diff(fine))) / (end_ns - begin_ns)
    assert share == pytest.approx(expected, abs=1e-6)


def test_steps_add_up_to_the_busy_time() -> None:
    series = alternating(3, 28, 4)[1]
    edges_ns, shares = busy_steps(series, S, 3 * S)
    total = integrate.trapezoid(np.repeat(shares, 2), np.repeat(edges_ns, 2)[1:-1])
    covered = busy_share(series, int(edges_ns[0]), int(edges_ns[-1]))
    assert covered is not None
    assert total == pytest.approx(covered * (edges_ns[-1] - edges_ns[0]), rel=1e-9)


def test_a_time_that_was_not_sampled_is_unknown() -> None:
    series = alternating(2, 28, 4)[0]
    assert busy_share(series, 3 * S, 5 * S) is None
    assert busy_share(series, 2 * S, 2 * S) is None


class Turns:
    """Devices that work on tokens in turn, with turns of varying length that may overlap, and pauses between tokens."""

    def __init__(
        self, random: np.random.Generator, devices: int, seconds: float, jitter: float, overlap: float, pause_s: float
    ) -> None:
        turns = int(1.3 * seconds / (0.028 * (1 - overlap) + pause_s / devices)) + 50
        lengths = 0.028 * (1 + jitter * random.standard_normal(turns)).clip(0.2, 2)
        pauses = np.where(np.arange(turns) % devices == devices - 1, random.exponential(pause_s, turns), 0)
        begins = np.concatenate([[0], np.cumsum(lengths * (1 - overlap) + pauses)[:-1]])
        self.spans = [(begins[place::devices], (begins + lengths)[place::devices]) for place in range(devices)]

    def busy_s(self, place: int, at_s: np.ndarray) -> np.ndarray:
        """Return how long a device had been busy at each time."""
        begins, ends = self.spans[place]
        whole = np.concatenate([[0], np.cumsum(ends - begins)])
        begun = np.searchsorted(begins, at_s, side="right")
        return whole[begun] - np.maximum(ends[np.maximum(begun - 1, 0)] - at_s, 0) * (begun > 0)

    def degree(self, intervals: list[tuple[float, float]]) -> float:
        """Return the true P."""
        edges = [np.array(column) for column in zip(*intervals, strict=True)]
        busy = sum(float((self.busy_s(n, edges[1]) - self.busy_s(n, edges[0])).sum()) for n in range(len(self.spans)))
        return busy / float((edges[1] - edges[0]).sum())

    def seen(self, random: np.random.Generator, window_s: float, until_s: float, rounding) -> list[Series]:
        """Return what a driver's counter shows, each device with windows that begin whenever they do."""
        found = []
        for place in range(len(self.spans)):
            ends_s = np.arange(random.uniform(0, window_s), until_s, window_s)[1:]
            share = (self.busy_s(place, ends_s) - self.busy_s(place, ends_s - window_s)) / window_s
            percent = rounding(100 * share + 1e-9)
            time_ns = (ends_s * S).astype(np.int64)
            found.append(Series(f"CUDA{place}", Counter.BUSY_FRAC, round(window_s * S), time_ns, percent / 100))
        return found


WORK = {
    "turns": {"jitter": 0.1, "overlap": 0.0, "pause_s": 0.0},
    "turns like clockwork": {"jitter": 0.0, "overlap": 0.0, "pause_s": 0.0},
    "overlap": {"jitter": 0.1, "overlap": 0.4, "pause_s": 0.0},
    "pauses": {"jitter": 0.1, "overlap": 0.0, "pause_s": 0.03},
}
PHASES = [(1.0, 8.0), (9.0, 16.0), (17.0, 24.0)]
"""Three repetitions, as a sweep makes them."""


@pytest.mark.parametrize("work", WORK)
@pytest.mark.parametrize("window_s", [1 / 6, 0.2, 1.0])
@pytest.mark.parametrize("devices", [2, 3, 5])
@pytest.mark.parametrize("rounding", [np.floor, np.rint])
def test_the_interval_covers_the_true_degree_through_windows_and_whole_percents(work, window_s, devices, rounding):
    random = np.random.default_rng(3)
    rounds = 40
    covered = 0
    for _ in range(rounds):
        turns = Turns(random, devices, 26.0, **WORK[work])
        series = turns.seen(random, window_s, 26.0, rounding)
        found = parallelism(series, [(int(begin * S), int(end * S)) for begin, end in PHASES])
        assert found.blocks == 6
        covered += found.low <= turns.degree(PHASES) <= found.high
        assert found.proves_overlap == (work == "overlap")
    assert covered >= 0.9 * rounds


def test_half_a_percent_either_way_would_not_cover_regular_turns_seen_without_decimals():
    """Why the interval allows a whole percent above: five devices, 28 ms each, windows of 1/6 s."""
    random = np.random.default_rng(3)
    turns = Turns(random, 5, 26.0, **WORK["turns like clockwork"])
    found = parallelism(turns.seen(random, 1 / 6, 26.0, np.floor), [(S, 25 * S)])
    assert found.degree + 5 * 0.005 < 1.0 <= found.high


def test_blocks_last_three_seconds_or_three_windows_and_the_first_window_is_left_out() -> None:
    for window_s, length_s, blocks in [(0.2, 9.3, 3), (0.2, 5.9, 1), (1.0, 7.5, 2), (0.2, 60.5, 20)]:
        time_ns = np.arange(0, 70 * S, int(window_s * S))
        flat = Series("CUDA0", Counter.BUSY_FRAC, int(window_s * S), time_ns, np.full(time_ns.size, 0.5))
        found = parallelism([flat], [(S, S + int(length_s * S))])
        assert found is not None
        assert found.blocks == blocks
        assert found.resolution_ns == int(window_s * S)


def test_a_window_that_began_before_the_phase_does_not_count() -> None:
    time_ns = np.arange(0, 20 * S, S)
    busy = Series("CUDA0", Counter.BUSY_FRAC, S, time_ns, np.where(time_ns > 5 * S, 1.0, 0.0))
    found = parallelism([busy], [(4 * S + S // 2, 10 * S)])
    assert found is not None
    assert found.degree == 1.0


def test_a_block_with_holes_in_its_readings_does_not_count() -> None:
    time_ns = np.arange(0, 20 * S, S // 5)
    kept = (time_ns < 8 * S) | (time_ns > 10 * S)
    holed = Series("CUDA0", Counter.BUSY_FRAC, S // 5, time_ns[kept], np.full(int(kept.sum()), 0.5))
    assert parallelism([holed], [(7 * S, 11 * S)]) is None
    found = parallelism([holed], [(S, 7 * S), (7 * S, 11 * S), (11 * S, 19 * S)])
    assert found is not None
    assert found.blocks == 3


def test_a_long_block_weighs_more_than_a_short_one() -> None:
    time_ns = np.arange(0, 40 * S, S // 200)
    busy_ns = np.cumsum(np.where(time_ns < 10 * S, 1.0, 0.4)) * (S // 200)
    series = Series("RPC0", Counter.CPU_TIME_NS, S // 200, time_ns, busy_ns)
    found = parallelism([series], [(8 * S, 9 * S), (20 * S, 21 * S + 990 * MS)])
    assert found is not None
    assert found.degree == pytest.approx((1.0 + 1.99 * 0.4) / 2.99, abs=1e-3)


@given(
    st.integers(1, 5).flatmap(
        lambda devices: st.lists(
            st.tuples(st.lists(st.booleans(), min_size=devices, max_size=devices), st.integers(1, 100)), min_size=1
        )
    )
)
def test_what_is_claimed_holds_for_any_devices_busy_in_any_pattern(pattern) -> None:
    """The bounds, against the shares counted in a pattern of which device was busy for how long."""
    devices, total = len(pattern[0][0]), sum(length for _, length in pattern)
    degree = sum(sum(busy) * length for busy, length in pattern) / total
    overlap = sum(length for busy, length in pattern if sum(busy) >= 2) / total
    none = sum(length for busy, length in pattern if not any(busy)) / total
    names = tuple(f"CUDA{n}" for n in range(devices))
    claims = {claim.question: claim for claim in Parallelism(degree, degree, degree, 2, names, 1).claims}
    for question, share in [(Question.OVERLAP, overlap), (Question.NONE_BUSY, none), (Question.TURNS, 1 - overlap)]:
        claim = claims[question]
        assert claim.at_least_frac - 1e-9 <= share <= claim.at_most_frac + 1e-9
        if question is not Question.TURNS:
            assert claim.answer is not Answer.PROVEN or share > 0
            assert claim.answer is not Answer.REFUTED or share == 0
    assert claims[Question.TURNS].answer is not Answer.REFUTED or overlap > 0
    assert claims[Question.TURNS].answer is not Answer.PROVEN or overlap == 0


def test_more_than_one_device_at_a_time_proves_overlap_and_its_least_share() -> None:
    claims = Parallelism(1.55, 1.5, 1.6, 6, ("CUDA0", "CUDA1", "CUDA2"), S).claims
    overlap, none, turns = claims
    assert (overlap.question, overlap.answer) == (Question.OVERLAP, Answer.PROVEN)
    assert (overlap.at_least_frac, overlap.at_most_frac) == pytest.approx((0.25, 0.8))
    assert (turns.question, turns.answer, turns.decided_by) == (Question.TURNS, Answer.REFUTED, "")
    assert (none.answer, none.at_most_frac) == (Answer.OPEN, 0.5)


def test_one_device_at_a_time_leaves_turns_open_until_each_devices_time_is_known() -> None:
    overlap, none, turns = Parallelism(0.97, 0.95, 0.99, 6, ("CUDA0", "CUDA1"), S).claims
    assert (turns.answer, overlap.answer) == (Answer.OPEN, Answer.OPEN)
    assert "busy share × token time" in turns.decided_by
    assert (none.answer, none.at_least_frac) == (Answer.PROVEN, pytest.approx(0.01))


def test_one_block_alone_supports_no_claim() -> None:
    claims = Parallelism(1.9, None, None, 1, ("CUDA0", "CUDA1"), S).claims
    assert {claim.answer for claim in claims} == {Answer.OPEN}
    assert all("more time" in claim.decided_by for claim in claims)


def test_one_device_alone_cannot_overlap() -> None:
    overlap, _, turns = Parallelism(0.5, 0.4, 0.6, 6, ("CUDA0",), S).claims
    assert (overlap.answer, turns.answer) == (Answer.REFUTED, Answer.PROVEN)
