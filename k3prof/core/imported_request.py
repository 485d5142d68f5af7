"""Where in a recording a request lies of which there is only the server's own account."""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np

from k3prof.core.imported import ImportedRun
from k3prof.core.trial import RequestRecord, ServerTimings, Workload
from k3prof.errors import ConfigError

_ZONE_STEP, _FIRST_ZONE, _LAST_ZONE = timedelta(minutes=15), -48, 56
"""Zones are whole quarters of an hour from UTC, from 12 hours behind to 14 before."""
_SECOND, _DAY = timedelta(seconds=1), timedelta(days=1)
_SECOND_NS, _HALF_SECOND_NS = 1_000_000_000, 500_000_000


def placed_request(run: ImportedRun, timings: ServerTimings, begin_ns: int | None, end_ns: int | None) -> RequestRecord:
    """Return the request behind a reply, at its place in a recording.

    The server's account has two parts that follow each other: processing the prompt until the first token is there
    (`prompt_ms`), and generating the others (`predicted_ms`). When each of the others arrived, it does not say.

    Args:
        run: The recording.
        timings: The server's account.
        begin_ns: When processing began; None when the end is given.
        end_ns: When the last token was there; None when the begin is given.

    Raises:
        ConfigError: The account lacks one of its parts, or does not fit into the recording.
    """
    if timings.prompt_ms is None or timings.predicted_ms is None or not timings.prompt_n:
        raise ConfigError("the reply's timings lack prompt_n, prompt_ms or predicted_ms", "give the reply as it came")
    prompt_ns, predicted_ns = round(timings.prompt_ms * 1e6), round(timings.predicted_ms * 1e6)
    if begin_ns is None:
        assert end_ns is not None  # noqa: S101 - for the type checker
        begin_ns = end_ns - prompt_ns - predicted_ns
    first_ns = begin_ns + prompt_ns
    last_ns = first_ns + predicted_ns
    if begin_ns < run.begin_ns - _HALF_SECOND_NS or last_ns > run.end_ns + _HALF_SECOND_NS:
        raise ConfigError(
            f"the request would last from {run.clock.shown(begin_ns)} to {run.clock.shown(last_ns)}, "
            f"the recording from {run.clock.shown(run.begin_ns)} to {run.clock.shown(run.end_ns)}",
            "say when it began with --from, or when it ended with --to",
        )
    tokens = timings.predicted_n or 1
    depth = timings.prompt_n + (timings.cache_n or 0)
    generates = tokens > 1 and predicted_ns > 0
    return RequestRecord(
        workload=Workload("tg", tokens, depth) if generates else Workload("pp", timings.prompt_n),
        role="measure",
        repetition=0,
        stream=0,
        sent_ns=begin_ns,
        arrivals_ns=np.array([first_ns, last_ns] if generates else [first_ns], np.int64),
        tokens=np.array([1, tokens - 1] if generates else [1], np.int64),
        ended_ns=last_ns,
        timings=timings,
    )


def end_of_reply(run: ImportedRun, timings: ServerTimings, created_s: int | None) -> int:
    """Return when a reply was made, to half a second, from the date that llama-server puts into it as it makes it.

    A recording without a zone may be of any. That of which the request lies within the recording is it, if it is one.

    Raises:
        ConfigError: The reply has no date, the recording no times, or the two fit together in no way or in several.
    """
    if created_s is None or run.clock.local is None:
        raise ConfigError("it is not known when the request was", "say when it began with --from, or ended with --to")
    length_ns = round(((timings.prompt_ms or 0) + (timings.predicted_ms or 0)) * 1e6)
    if run.clock.unix_ns is not None:
        return created_s * _SECOND_NS + _HALF_SECOND_NS - run.clock.unix_ns
    in_utc = datetime(1970, 1, 1) + timedelta(seconds=created_s) - run.clock.local
    fitting = set()
    for zone in range(_FIRST_ZONE, _LAST_ZONE + 1):
        since = in_utc + zone * _ZONE_STEP
        end_ns = (since if run.clock.has_date else since % _DAY) // _SECOND * _SECOND_NS + _HALF_SECOND_NS
        if run.begin_ns - _HALF_SECOND_NS <= end_ns - length_ns and end_ns <= run.end_ns + _HALF_SECOND_NS:
            fitting.add(end_ns)
    if len(fitting) != 1:
        ways = "in no way" if not fitting else f"in {len(fitting)} ways"
        raise ConfigError(
            f"the reply's date and the recording's times fit together {ways}, whatever the zone",
            "say when the request began with --from, or ended with --to, as the recording writes it",
        )
    return fitting.pop()
