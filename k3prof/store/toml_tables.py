"""What may stand in an experiment's files: `sweep.toml` and the placements."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, fields
from typing import Annotated

from pydantic import AfterValidator, ConfigDict, Field, PlainValidator, Strict, TypeAdapter, with_config
from pydantic_core import PydanticCustomError

from k3prof.core.experiment import check_devices
from k3prof.core.reserved import reserved_variable
from k3prof.core.spans import SplitMode
from k3prof.core.trial import FlagValue, Workload
from k3prof.store.toml_file import shown


def refusal(message: str, hint: str = "") -> PydanticCustomError:
    """Return what a validator raises so that `toml_file.check` reports a message and a hint under the key."""
    return PydanticCustomError("refused", "{message}", {"message": message, "hint": hint})


def _text(value: str) -> str:
    if not value:
        raise refusal("an empty text", "give a value, or leave the key out")
    if "\0" in value:
        raise refusal("a NUL character, which no command line can carry", "remove \\u0000")
    return value


def _env_name(name: str) -> str:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) is None:
        raise refusal("no name of an environment variable", "use letters, digits and underscores")
    if reserve := reserved_variable(name):
        raise refusal(f"not yours to set: {reserve.reason}", reserve.remedy)
    return name


def _env_text(value: object) -> str:
    if not isinstance(value, str):
        raise refusal(f"an environment variable is text, not {shown(value)}", 'put the value in quotes: "64"')
    if "\0" in value:
        raise refusal("a NUL character, which no environment can carry", "remove \\u0000")
    return value


def _workload(value: object) -> Workload:
    if not isinstance(value, str):
        raise refusal(f"{shown(value)} is no workload", "write pp512, tg128, tg128@d4096 or tg128 x1,2,4, in quotes")
    return Workload.parse(value)


def _levels(value: object) -> tuple[Workload, ...]:
    return Workload.parse_all(value) if isinstance(value, str) else (_workload(value),)


def _some_and_all_different(entries: tuple[tuple[Workload, ...], ...]) -> tuple[tuple[Workload, ...], ...]:
    if not entries:
        raise refusal("an empty list", "give at least one workload, or leave the key out")
    workloads = [workload for entry in entries for workload in entry]
    for position, workload in enumerate(workloads):
        if workload in workloads[:position]:
            in_ladder = any(workload in entry for entry in entries if len(entry) > 1)
            hint = "leave it out of one of the two" if in_ladder else "repeat = 3 measures each workload three times"
            raise refusal(f"{workload.name} stands here twice", hint)
    return entries


def _flag_value(value: object) -> FlagValue:
    if isinstance(value, bool):
        return value
    if not isinstance(value, list):
        return _flag_part(value)
    if not value:
        raise refusal("an empty list", "give at least one value, or leave the key out")
    return tuple(_flag_part(part) for part in value)


def _flag_part(value: object) -> int | float | str:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise refusal(
            f"{shown(value)} is no value of a flag",
            "write a number, text in quotes, true or false, or a list of numbers or texts",
        )
    if isinstance(value, str):
        return _text(value)
    if not math.isfinite(value) or abs(value) >= 1 << 63:
        raise refusal(f"no number for a flag: {shown(value)}", "write a finite number of at most 64 bits")
    return value


def _split_mode(value: object) -> SplitMode:
    if isinstance(value, str) and value in {mode.value for mode in SplitMode}:
        return SplitMode(value)
    raise refusal(f"{shown(value)} is no way to trace splits", "write exact, light or off")


Text = Annotated[str, Strict(), AfterValidator(_text)]
FlagSetting = Annotated[FlagValue, PlainValidator(_flag_value)]
EnvName = Annotated[str, AfterValidator(_env_name)]
EnvText = Annotated[str, PlainValidator(_env_text)]
WorkloadText = Annotated[Workload, PlainValidator(_workload)]
Levels = Annotated[tuple[Workload, ...], PlainValidator(_levels)]
Workloads = Annotated[tuple[Levels, ...], AfterValidator(_some_and_all_different)]


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class TraceTable:
    """`[trace]` of `sweep.toml`: what is recorded beyond counters."""

    splits: Annotated[SplitMode, PlainValidator(_split_mode)] = SplitMode.OFF


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class SweepTable:
    """`sweep.toml`, and what counts where it is silent."""

    model: Text | None = None
    devices: Annotated[Text, AfterValidator(check_devices)] = "auto"
    build: Text = "default"
    workloads: Workloads = ((Workload("pp", 512),), (Workload("tg", 128),))
    repeat: Annotated[int, Strict(), Field(ge=1, le=1000)] = 3
    price_per_hour: Annotated[float, Strict(), Field(ge=0, allow_inf_nan=False)] | None = None
    flags: dict[Text, FlagSetting] = field(default_factory=dict)
    trace: TraceTable = TraceTable()


@with_config(ConfigDict(extra="forbid"))
@dataclass(frozen=True)
class PlacementTable:
    """One placement's file; `matrix` without its `env`."""

    about: Annotated[str, Strict()] = ""
    build: Text | None = None
    flags: dict[Text, FlagSetting] = field(default_factory=dict)
    env: dict[EnvName, EnvText] = field(default_factory=dict)
    matrix: dict[Text, Annotated[list[FlagSetting], Field(min_length=1)]] = field(default_factory=dict)


SWEEP = TypeAdapter(SweepTable)
SWEEP_KEYS = (*(key.name for key in fields(SweepTable)), *(f"trace.{key.name}" for key in fields(TraceTable)))
PLACEMENT = TypeAdapter(PlacementTable)
PLACEMENT_KEYS = tuple(key.name for key in fields(PlacementTable))
MATRIX_ENV: TypeAdapter[dict[str, list[str]]] = TypeAdapter(
    dict[EnvName, Annotated[list[EnvText], Field(min_length=1)]]
)
