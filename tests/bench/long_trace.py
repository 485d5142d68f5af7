"""A trace as a long sweep leaves it: trials of many repetitions, their samples stored as a sampler sends them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

from k3prof.core.timeline import ClockAnchor, Series
from k3prof.core.trial import Command, TrialRecord
from k3prof.store.trace import Trace
from tests.doubles.reports import BUILD, command
from tests.doubles.trials import START_NS, stand_in_trial

Observed = tuple[TrialRecord, tuple[Series, ...]]
"""A trial and what was sampled while it ran."""

_ANCHOR = ClockAnchor(START_NS, 1_790_000_000_000_000_000)
_REPEAT = 30
_SENT_TOGETHER = 100


def long_trials(at_least: int) -> list[Observed]:
    """Return trials of different placements, as many as it takes to have enough samples."""
    observed: list[Observed] = []
    left = at_least
    for number in count(1):
        flags = {"n-cpu-moe": number}
        trial, series = stand_in_trial(f"placement-{number}", number=number, repeat=_REPEAT, flags=flags)
        observed.append((replace(trial, spec=replace(trial.spec, build=BUILD.identity)), series))
        left -= sum(one.time_ns.size for one in series)
        if left <= 0:
            break
    return observed


def write_trace(path: Path, observed: Sequence[Observed]) -> None:
    """Write trials as one sweep."""
    asked = [(trial.spec.placement, trial.spec.configuration) for trial, _ in observed]
    with Trace.writable(path) as trace:
        trace.add_build(BUILD)
        sweep = trace.begin_sweep(_ANCHOR, {"model": "demo:k3"}, {}, asked)
        for trial, series in observed:
            _write_trial(trace, sweep, trial, series)


def _write_trial(trace: Trace, sweep: int, trial: TrialRecord, series: tuple[Series, ...]) -> None:
    started = Command(command(trial.spec.placement), {})
    number = trace.begin_trial(sweep, trial.spec, trial.devices, started, predicted=None, started_ns=trial.started_ns)
    trace.mark_ready(number, trial.ready_ns or trial.started_ns)
    trace.add_requests(number, trial.requests)
    for together in _as_sent(series):
        trace.add_samples(number, together)
    trace.finish_trial(number, trial.outcome, trial.ended_ns or trial.started_ns, {"llama-server": b"model loaded\n"})


def _as_sent(series: tuple[Series, ...]) -> Iterator[list[Series]]:
    """Cut series into the pieces in which a sampler sends them, of which a trace keeps each by itself."""
    for begin in range(0, max(one.time_ns.size for one in series), _SENT_TOGETHER):
        piece = slice(begin, begin + _SENT_TOGETHER)
        yield [replace(one, time_ns=one.time_ns[piece], value=one.value[piece]) for one in series]
