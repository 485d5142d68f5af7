"""Reads a reply of llama-server that somebody kept: its account of the time, and the date it was made."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from k3prof.core.trial import ServerTimings
from k3prof.errors import ConfigError

_LATEST_S = 2**33
_MOST = 1e12
_HINT = "give the JSON reply of /completion, /v1/completions or /v1/chat/completions, with its timings"


@dataclass(frozen=True)
class Reply:
    """What a reply says about when.

    Attributes:
        timings: The server's account of the request.
        created_s: When the reply was made, in whole seconds since 1970; None when it does not say.
    """

    timings: ServerTimings
    created_s: int | None


def read_reply(text: str, name: str) -> Reply:
    """Read a reply, or its `timings` alone.

    Args:
        text: The JSON.
        name: What to call it in messages.

    Raises:
        ConfigError: It is no such JSON, or the server reported an error in it.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigError(f"{name}: is no JSON", _HINT) from None
    if not isinstance(given, dict):
        raise ConfigError(f"{name}: is no JSON object", _HINT)
    if "error" in given:
        raise ConfigError(f"{name}: the server reported an error: {json.dumps(given['error'])[:200]}", _HINT)
    timings = given.get("timings", given)
    if not isinstance(timings, dict) or _number(timings.get("predicted_ms")) is None:
        raise ConfigError(f"{name}: has no timings", _HINT)
    created = given.get("created")
    dated = isinstance(created, int) and not isinstance(created, bool) and 0 < created < _LATEST_S
    return Reply(_timings(timings), created if dated else None)


def _timings(given: Mapping[str, object]) -> ServerTimings:
    return ServerTimings(
        prompt_n=_count(given.get("prompt_n")),
        prompt_ms=_number(given.get("prompt_ms")),
        predicted_n=_count(given.get("predicted_n")),
        predicted_ms=_number(given.get("predicted_ms")),
        cache_n=_count(given.get("cache_n")),
        draft_n=_count(given.get("draft_n")),
        draft_n_accepted=_count(given.get("draft_n_accepted")),
    )


def _count(value: object) -> int | None:
    number = _number(value)
    return None if number is None else int(number)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MOST else None
