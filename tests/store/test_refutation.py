from __future__ import annotations

import math
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.refutation.evidence import Block, Evidence, Figure, Grade
from k3prof.core.refutation.hypothesis import Arm, Band, Comparison, Hypothesis, Threshold
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.verdict import Effect, Magnitude, Ruling, Verdict
from k3prof.core.trial import Outcome, TrialStatus, Workload
from k3prof.errors import TraceError
from k3prof.store.schema import APPLICATION_ID
from k3prof.store.trace import Trace
from tests.core.test_trial import SPEC
from tests.doubles import refutations
from tests.store.test_trace import ANCHOR, COMMAND, DEVICES, begin

VERSION_1 = (Path(__file__).parent / "version_1.sql").read_text()
"""The tables as the first traces had them, copied from there."""

EVEN, HALF = Arm("even", Workload("tg", 128)), Arm("half", Workload("tg", 128))
FASTER = Hypothesis(
    "faster", "half is faster", "fewer bytes", "tg", Comparison(EVEN, HALF, Band(1.6, math.inf), 1.05), where="h.toml"
)
BUSY = Hypothesis("busy", "one at a time", "turns", "parallelism", Threshold(EVEN, Band(-math.inf, 1.1)))
VERDICT = Verdict(
    FASTER,
    Ruling.SUPPORTED,
    "the 90 % interval lies above 1.6",
    Magnitude.AS_PREDICTED,
    Effect(1.7, 1.65, 1.75, 3),
    Grade.REPLICATED,
    evidence=Evidence((Block(1, (Figure(1.0), Figure(1.1)), (Figure(1.7, 0.1), Figure(1.8))),)),
    is_final=True,
)


def version_1(path: Path) -> None:
    """Make a trace as the first version left it: one sweep, one finished trial."""
    with closing(sqlite3.connect(path)) as database:
        database.executescript(VERSION_1)
        database.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        database.execute("PRAGMA user_version = 1")
        database.execute("INSERT INTO sweeps VALUES (1, 123, 456, '{\"model\": \"m\"}', '{\"cores\": 2}', '[]')")
        database.execute(
            "INSERT INTO trials VALUES (1, 1, 'c', ?, '[]', '{\"argv\": [], \"env\": {}}', 'null', 1, 2, 3, 'ok', NULL,"
            " '', '')",
            (
                '{"placement": "even", "model": "m", "model_path": "p", "build": "b", "devices": [], "flags": {},'
                ' "env": {}, "workloads": [], "repeat": 1, "splits": "off"}',
            ),
        )
        database.commit()


def version_of(path: Path) -> int:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("PRAGMA user_version").fetchone()[0]


def schema_of(path: Path) -> list[tuple[str, str]]:
    with closing(sqlite3.connect(path)) as database:
        return database.execute("SELECT name, sql FROM sqlite_master ORDER BY name").fetchall()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.sqlite"


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> Path:
    """One trace for many examples."""
    return tmp_path_factory.mktemp("traces") / "shared.sqlite"


# Hypotheses


@given(hypothesis=refutations.hypotheses)
def test_a_hypothesis_reads_back_as_it_was_whatever_it_says(shared: Path, hypothesis: Hypothesis) -> None:
    with Trace.writable(shared) as trace:
        before = trace.registered()
        sweep, _ = begin(trace)
        trace.register_hypothesis(hypothesis, sweep)
    with Trace.readable(shared) as trace:
        (read,) = [one for one in trace.registered() if one.hypothesis.digest == hypothesis.digest]
    if hypothesis.digest not in {one.hypothesis.digest for one in before}:
        assert read.hypothesis == hypothesis
        assert type(read.hypothesis.test) is type(hypothesis.test)


def test_a_hypothesis_is_registered_with_its_moment_and_the_trials_that_were_there(path: Path) -> None:
    with Trace.writable(path) as trace:
        sweep, _ = begin(trace)
        earliest = time.time_ns(), time.monotonic_ns()
        trace.register_hypothesis(FASTER, sweep)
        latest = time.time_ns(), time.monotonic_ns()
        later_sweep, _ = begin(trace)
        trace.register_hypothesis(BUSY, later_sweep)
        first, second = trace.registered()
    assert (first.hypothesis, first.sweep, first.trials_before) == (FASTER, sweep, 1)
    assert (second.hypothesis, second.sweep, second.trials_before) == (BUSY, later_sweep, 2)
    assert earliest[0] <= first.unix_ns <= latest[0]
    assert earliest[1] <= first.monotonic_ns <= latest[1]


def test_registering_again_changes_the_words_and_not_the_date(path: Path) -> None:
    reworded = replace(FASTER, claim="told better afterwards")
    with Trace.writable(path) as trace:
        sweep, _ = begin(trace)
        trace.register_hypothesis(FASTER, sweep)
        (before,) = trace.registered()
        sweep, _ = begin(trace)
        trace.register_hypothesis(reworded, sweep)
        assert trace.registered() == [replace(before, hypothesis=reworded)]


def test_a_prediction_that_is_changed_afterwards_stands_beside_the_first(path: Path) -> None:
    with Trace.writable(path) as trace:
        sweep, _ = begin(trace)
        trace.register_hypothesis(FASTER, sweep)
        begin(trace)
        trace.register_hypothesis(replace(FASTER, test=replace(FASTER.test, predict=Band(1.2, 1.3))), sweep)
        assert [(one.hypothesis.id, one.trials_before) for one in trace.registered()] == [("faster", 1), ("faster", 2)]


@given(low=st.integers(-9, 9), high=st.integers(-9, 9), smallest=st.integers(1, 9))
def test_a_digest_is_the_same_for_whole_numbers_and_after_the_file(
    shared: Path, low: int, high: int, smallest: int
) -> None:
    whole = replace(FASTER, test=Comparison(EVEN, HALF, Band(low, high), smallest))
    point = replace(FASTER, test=Comparison(EVEN, HALF, Band(float(low), float(high)), float(smallest)))
    assert whole.digest == point.digest
    with Trace.writable(shared) as trace:
        sweep, _ = begin(trace)
        trace.register_hypothesis(whole, sweep)
        assert whole.digest in {one.hypothesis.digest for one in trace.registered()}


# Legs


@given(places=st.lists(refutations.leg_places, max_size=6))
def test_legs_come_back_in_the_order_of_running(tmp_path_factory, places: list[LegPlace]) -> None:
    path = tmp_path_factory.mktemp("legs") / "a.sqlite"
    with Trace.writable(path) as trace:
        assert trace.next_round() == 0
        for place in places:
            _, trial = begin(trace)
            trace.add_leg(trial, place)
    with Trace.readable(path) as trace:
        expected = sorted(enumerate(places, start=1), key=lambda leg: (leg[1].round, leg[1].position, leg[0]))
        assert trace.legs() == expected
        assert all(type(place.twin) is bool for _, place in trace.legs())
        assert trace.next_round() == max((place.round + 1 for place in places), default=0)


def test_a_trial_is_a_leg_once(path: Path) -> None:
    with Trace.writable(path) as trace:
        _, trial = begin(trace)
        trace.add_leg(trial, LegPlace(0, 0, "even"))
        with pytest.raises(TraceError, match="UNIQUE"):
            trace.add_leg(trial, LegPlace(0, 1, "half"))
        assert trace.legs() == [(trial, LegPlace(0, 0, "even"))]


# Verdicts


@given(verdict=refutations.verdicts, unix_ns=st.integers(0, 2**62))
def test_a_verdict_reads_back_as_it_was_whatever_it_says(shared: Path, verdict: Verdict, unix_ns: int) -> None:
    with Trace.writable(shared) as trace:
        sweep, _ = begin(trace)
        trace.register_hypothesis(verdict.hypothesis, sweep)
        trace.add_verdict(verdict, unix_ns)
    with Trace.readable(shared) as trace:
        assert trace.verdicts()[-1] == (unix_ns, verdict)


def test_verdicts_come_back_oldest_first_with_infinite_ends_of_bands(path: Path) -> None:
    early = replace(VERDICT, ruling=Ruling.INCONCLUSIVE, effect=None, blocks_needed=3, is_final=False)
    with Trace.writable(path) as trace:
        sweep, _ = begin(trace)
        trace.register_hypothesis(FASTER, sweep)
        trace.add_verdict(early, 20)
        trace.add_verdict(VERDICT, 10)
    with Trace.readable(path) as trace:
        assert trace.verdicts() == [(20, early), (10, VERDICT)]
        assert trace.verdicts()[0][1].hypothesis.test.predict == Band(1.6, math.inf)
    with closing(sqlite3.connect(path)) as database:
        rows = database.execute("SELECT hypothesis, blocks, json_valid(record) FROM verdicts ORDER BY id").fetchall()
    assert rows == [(FASTER.digest, 0, 1), (FASTER.digest, 3, 1)]


def test_what_was_never_registered_gets_no_verdict(path: Path) -> None:
    with Trace.writable(path) as trace:
        sweep, _ = begin(trace)
        trace.register_hypothesis(BUSY, sweep)
        with pytest.raises(ValueError, match="faster: judged without having been registered"):
            trace.add_verdict(VERDICT, 1)
        assert trace.verdicts() == []


@pytest.mark.parametrize(
    ("table", "read"), [("hypotheses", Trace.registered), ("verdicts", Trace.verdicts)], ids=["hypothesis", "verdict"]
)
def test_a_damaged_record_is_refused_with_its_file(path: Path, table: str, read: Callable[[Trace], object]) -> None:
    with Trace.writable(path) as trace:
        sweep, _ = begin(trace)
        trace.register_hypothesis(FASTER, sweep)
        trace.add_verdict(VERDICT, 1)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"UPDATE {table} SET record = substr(record, 1, 40)")
        database.commit()
    with Trace.readable(path) as trace, pytest.raises(TraceError, match=r"a\.sqlite: holds a damaged (hypo|verdict)"):
        read(trace)


# Shares of ops, hosts and settings


@given(shares=st.dictionaries(refutations.texts, refutations.finite, max_size=4))
def test_op_shares_read_back_for_the_trial_they_were_measured_in(shared: Path, shares: dict[str, float]) -> None:
    with Trace.writable(shared) as trace:
        _, trial = begin(trace)
        _, other = begin(trace)
        trace.add_op_shares(trial, shares)
    with Trace.readable(shared) as trace:
        assert trace.op_shares(trial) == shares
        assert trace.op_shares(other) == {}


def test_each_trial_knows_the_host_and_the_settings_of_its_sweep(path: Path) -> None:
    with Trace.writable(path) as trace:
        assert (trace.hosts(), trace.settings()) == ({}, {})
        sweeps = [trace.begin_sweep(ANCHOR, {"repeat": n}, {"cores": n}, []) for n in (2, 4, 8)]
        trials = [trace.begin_trial(sweeps[n], SPEC, DEVICES, COMMAND, predicted=None, started_ns=1) for n in (0, 2, 0)]
    with Trace.readable(path) as trace:
        assert trace.hosts() == dict(zip(trials, [{"cores": 2}, {"cores": 8}, {"cores": 2}], strict=True))
        assert trace.settings() == dict(zip(trials, [{"repeat": 2}, {"repeat": 8}, {"repeat": 2}], strict=True))


# Traces of the first version


def test_a_trace_of_the_first_version_is_read_and_left_as_it_is(path: Path) -> None:
    version_1(path)
    before = path.read_bytes()
    path.chmod(0o444)
    with Trace.readable(path) as trace:
        (trial,) = trace.trials()
        assert (trial.spec.placement, trial.outcome) == ("even", Outcome(TrialStatus.OK))
        assert (trace.registered(), trace.legs(), trace.verdicts(), trace.op_shares(1)) == ([], [], [], {})
        assert trace.next_round() == 0
        assert (trace.hosts(), trace.settings()) == ({1: {"cores": 2}}, {1: {"model": "m"}})
    assert path.read_bytes() == before


def test_a_trace_of_the_first_version_becomes_one_of_this_when_it_is_written_to(path: Path, tmp_path: Path) -> None:
    version_1(path)
    with Trace.writable(path) as trace:
        trace.register_hypothesis(FASTER, 1)
        trace.add_leg(1, LegPlace(0, 0, "even"))
        trace.add_verdict(VERDICT, 7)
        trace.add_op_shares(1, {"part.MoE": 0.5})
    with Trace.readable(path) as trace:
        assert [one.spec.placement for one in trace.trials()] == ["even"]
        assert [(one.hypothesis, one.trials_before) for one in trace.registered()] == [(FASTER, 1)]
        assert trace.legs() == [(1, LegPlace(0, 0, "even"))]
        assert trace.verdicts() == [(7, VERDICT)]
        assert trace.op_shares(1) == {"part.MoE": 0.5}
    new = tmp_path / "new.sqlite"
    Trace.writable(new).close()
    assert schema_of(path) == schema_of(new)
    assert version_of(path) == version_of(new) == 2


def test_an_upgrade_that_fails_leaves_the_trace_as_it_was(path: Path) -> None:
    version_1(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute("CREATE TABLE op_shares (mine)")  # the last table that the upgrade makes
    before = schema_of(path)
    with pytest.raises(TraceError, match=r"a\.sqlite: cannot be brought to version 2: table op_shares") as caught:
        Trace.writable(path)
    assert caught.value.hint == "it is left as it was"
    assert (schema_of(path), version_of(path)) == (before, 1)
    with Trace.readable(path) as trace:
        assert len(trace.trials()) == 1
    with pytest.raises(TraceError, match="cannot be brought"):  # and not: another sweep is writing to it
        Trace.writable(path)


@pytest.mark.parametrize("opening", [Trace.writable, Trace.readable])
@pytest.mark.parametrize("version", [0, 3, -1])
def test_a_trace_of_no_known_version_is_refused_by_name_and_left_alone(path: Path, opening, version: int) -> None:
    version_1(path)
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {version}")
    before = path.read_bytes()
    with pytest.raises(TraceError, match=f"is a trace of version {version}; this k3prof reads versions 1 to 2"):
        opening(path)
    assert path.read_bytes() == before


def test_a_reader_that_opened_before_the_upgrade_sees_what_comes_after_it(path: Path) -> None:
    version_1(path)
    with Trace.readable(path) as reader:
        assert reader.registered() == []
        with Trace.writable(path) as writer:
            writer.register_hypothesis(FASTER, 1)
            assert [one.hypothesis for one in reader.registered()] == [FASTER]


# Several processes


def test_two_processes_read_the_same_while_a_third_writes(path: Path) -> None:
    script = textwrap.dedent("""
        import sys
        from pathlib import Path
        from k3prof.store.trace import Trace
        from tests.store.test_refutation import BUSY, FASTER, VERDICT
        with Trace.readable(Path(sys.argv[1])) as trace:
            for _ in range(2):
                print(len(trace.registered()), len(trace.legs()), len(trace.verdicts()), flush=True)
                assert all(one.hypothesis in (FASTER, BUSY) for one in trace.registered())
                assert all(verdict == VERDICT for _, verdict in trace.verdicts())
                sys.stdin.readline()
    """)
    with Trace.writable(path) as trace:
        sweep, trial = begin(trace)
        trace.register_hypothesis(FASTER, sweep)
        readers = [
            subprocess.Popen(
                [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
            )
            for _ in range(2)
        ]
        assert [reader.stdout.readline() for reader in readers if reader.stdout] == ["1 0 0\n"] * 2
        trace.register_hypothesis(BUSY, sweep)
        trace.add_leg(trial, LegPlace(0, 0, "even"))
        trace.add_verdict(VERDICT, 1)
        rest = [reader.communicate("\n\n", timeout=60)[0] for reader in readers]
    assert rest == ["2 1 1\n"] * 2
    assert [reader.returncode for reader in readers] == [0, 0]
