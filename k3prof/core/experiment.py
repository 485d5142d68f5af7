"""What to run: the settings that all placements share, and the placements."""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from k3prof.core.spans import SplitMode
from k3prof.core.trial import FlagValue, Workload

MIN_STAND_INS = 2
MAX_STAND_INS = 15
"""llama.cpp takes at most 15 shares in a tensor-split."""

_DEVICES = re.compile(r"auto|cpu|rpc:(?P<count>[1-9][0-9]?)")
_ENV = "env."


@dataclass(frozen=True)
class Settings:
    """What every placement of an experiment shares.

    Attributes:
        model: `demo:k3`, or the path of a GGUF (the first, if it is in shards).
        devices: `auto`, `cpu` or `rpc:N`.
        build: Name of the llama.cpp build of the placements that name none.
        workloads: What is asked of each server.
        repeat: How often each workload is measured after the warm-up.
        price_per_hour: What the machine costs, in USD; None when not given.
        flags: llama-server's long names to values, for every placement.
        file: Where they stand, for messages; empty when no file holds them.
        splits: How closely the split tracer watches.
        levels: Those of the workloads that were written as a ladder: they are left out where a server cannot take
            them, while a workload written alone is refused.
    """

    model: str
    devices: str
    build: str
    workloads: tuple[Workload, ...]
    repeat: int
    price_per_hour: float | None
    flags: Mapping[str, FlagValue]
    file: str = ""
    splits: SplitMode = SplitMode.OFF
    levels: frozenset[Workload] = frozenset()


@dataclass(frozen=True)
class Placement:
    """How a model is laid on the devices: llama-server's flags and environment.

    Attributes:
        name: The file's name without `.toml`, and after it what a matrix chose: `experts[n-cpu-moe=4]`.
        about: One sentence for people; may be empty.
        flags: llama-server's long names to values; they win over the settings' flags.
        env: Environment variables of the server.
        file: Where it stands, for messages.
        matrix: The names among `flags` whose value the file's `[matrix]` chose.
        build: Name of its own llama.cpp build; None for the one that all share.
    """

    name: str
    about: str
    flags: Mapping[str, FlagValue]
    env: Mapping[str, str]
    file: str
    matrix: tuple[str, ...] = ()
    build: str | None = None


@dataclass(frozen=True)
class Experiment:
    """A folder of placements and what they share."""

    folder: str
    settings: Settings
    placements: tuple[Placement, ...]


def effective_flags(settings: Settings, placement: Placement) -> Mapping[str, FlagValue]:
    """Return the flags of one placement's server: its own over those that all share."""
    return {**settings.flags, **placement.flags}


def build_of(settings: Settings, placement: Placement) -> str:
    """Return the name of the build that a placement runs on: its own over the one that all share.

    What the command line says replaces only what all share: were it to win, two placements that are there to compare
    two builds would become one.
    """
    return settings.build if placement.build is None else placement.build


def by_build(experiment: Experiment) -> dict[str, Experiment]:
    """Return an experiment's parts by the name of the build that they run on, in the order of first use."""
    placements: dict[str, list[Placement]] = {}
    for placement in experiment.placements:
        placements.setdefault(build_of(experiment.settings, placement), []).append(placement)
    return {build: replace(experiment, placements=tuple(part)) for build, part in placements.items()}


def where_flag(settings: Settings, placement: Placement, name: str) -> str:
    """Return where a placement's flag stands, for messages: `placements/a.toml: flags.n-cpu-moe`."""
    if name in placement.flags or name not in settings.flags:
        return f"{placement.file}: {'matrix' if name in placement.matrix else 'flags'}.{name}"
    return f"{settings.file}: flags.{name}"


def combine(placement: Placement, matrix: Mapping[str, Sequence[FlagValue]]) -> list[Placement]:
    """Return one placement per combination of a matrix's values; the placement itself for an empty matrix.

    Args:
        placement: What all combinations share.
        matrix: Flags, or `env.NAME`, to the values to try. What it chooses wins over the placement's own.
    """
    return [
        _chosen(placement, dict(zip(matrix, values, strict=True))) for values in itertools.product(*matrix.values())
    ]


def _chosen(placement: Placement, choice: Mapping[str, FlagValue]) -> Placement:
    flags = {key: value for key, value in choice.items() if not key.startswith(_ENV)}
    env = {key.removeprefix(_ENV): flag_text(value) for key, value in choice.items() if key.startswith(_ENV)}
    return replace(
        placement,
        name=placement.name + "".join(f"[{key}={flag_text(value)}]" for key, value in choice.items()),
        flags={**placement.flags, **flags},
        env={**placement.env, **env},
        matrix=tuple(flags),
    )


def flag_text(value: FlagValue) -> str:
    """Return a flag's value as llama-server reads it: `4`, `1,1,2`, `true`."""
    if isinstance(value, tuple):
        return ",".join(flag_text(part) for part in value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def check_devices(text: str) -> str:
    """Return `text` if it says on which devices to run.

    Raises:
        ValueError: It is none of `auto`, `cpu`, `rpc:2` to `rpc:15`.
    """
    match = _DEVICES.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} names no devices: write auto, cpu or rpc:3")
    if match["count"] is not None and not MIN_STAND_INS <= int(match["count"]) <= MAX_STAND_INS:
        raise ValueError(f"{text!r}: llama.cpp splits over {MIN_STAND_INS} to {MAX_STAND_INS} devices")
    return text
