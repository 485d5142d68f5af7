"""Checks of `--override-kv`: llama.cpp ignores the override of a key that the model lacks without a word."""

from __future__ import annotations

import re

from k3prof.core.evidence.check import Agreement, Asked, Check
from k3prof.core.evidence.loaded import LoadedServer

_PART = re.compile(r"(?P<key>[^=]+)=(?P<type>\w+):(?P<value>.*)", re.DOTALL)
_EXPERTS_USED = ".expert_used_count"


def check_overrides(asked: Asked) -> tuple[Check, ...]:
    """Check each override that was asked for."""
    parts = [_PART.fullmatch(part) for part in asked.flags.get("override-kv", "").split(",")]
    return tuple(_check(part["key"], part["value"], asked.done) for part in parts if part is not None)


def _check(key: str, value: str, done: LoadedServer) -> Check:
    name, taken = f"override-kv {key}", done.model.overrides.get(key)
    if key.endswith(_EXPERTS_USED) and done.model.experts_used is not None:
        shown = f"{done.model.experts_used} experts used"
        if str(done.model.experts_used) == value:
            return Check(name, value, shown, Agreement.SAME)
        return Check(name, value, shown, Agreement.DIFFERS, _why_ignored(key, done))
    if taken is None:
        return Check(name, value, None, Agreement.UNKNOWN)
    return Check(name, value, taken, Agreement.SAME if _alike(taken, value) else Agreement.DIFFERS)


def _why_ignored(key: str, done: LoadedServer) -> str:
    architecture = done.model.architecture
    if architecture is not None and key != architecture + _EXPERTS_USED:
        return f"the key does not match the architecture: {architecture}{_EXPERTS_USED}"
    return "the override was ignored: the key's type is int"


def _alike(taken: str, value: str) -> bool:
    try:
        return float(taken) == float(value)
    except ValueError:
        return taken.strip("'\"") == value
