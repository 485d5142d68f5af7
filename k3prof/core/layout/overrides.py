"""Tensors sent to a buffer by name: `--override-tensor` and the flags that llama.cpp turns into such patterns."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.device import HOST
from k3prof.core.experiment import flag_text
from k3prof.core.flags import nearest
from k3prof.core.layout.std_regex import compile_pattern
from k3prof.core.trial import FlagValue
from k3prof.errors import ConfigError, IneffectiveError

OVERRIDE_TENSOR, CPU_MOE, N_CPU_MOE, N_CPU_FFN = "override-tensor", "cpu-moe", "n-cpu-moe", "n-cpu-ffn"

_EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
_DENSE = r"\.ffn_(up|down|gate)\."
"""`LLM_FFN_EXPS_REGEX` and `LLM_FFN_DENSE_REGEX` in common/common.h."""


@dataclass(frozen=True)
class Override:
    """One rule: tensors whose name holds a match of the pattern go to a device's memory.

    Attributes:
        flag: The flag that it comes from.
        text: The part of the flag that it comes from: `exps=CPU`; for a number of layers, `n-cpu-moe = 4`.
        pattern: What is searched for.
        target: The device: `CPU`, `CUDA1`.
    """

    flag: str
    text: str
    pattern: re.Pattern[str]
    target: str


@dataclass(frozen=True)
class MatchedPattern:
    """What became of one rule, or of those that one number of layers stands for.

    Attributes:
        flag: The flag.
        text: The flag's part.
        target: The device.
        matched: Names of the tensors that it matches.
        won: Those of them that no earlier rule matches: the first match decides.
    """

    flag: str
    text: str
    target: str
    matched: tuple[str, ...]
    won: tuple[str, ...]


def read_overrides(
    flags: Mapping[str, FlagValue], buffer_types: Mapping[str, str], n_layers: int, where: Callable[[str], str]
) -> tuple[Override, ...]:
    """Return the rules that some flags state, in llama.cpp's order of preference: the order of the flags.

    Args:
        flags: llama-server's canonical long names to values, in the order in which it gets them.
        buffer_types: Names of buffer types to names of devices; a device's own name serves as well.
        n_layers: Layers of the model; a number of layers may exceed it.
        where: Says where a flag stands: `placements/a.toml: flags.cpu-moe`.

    Raises:
        ConfigError: A pattern is none, or a buffer type does not exist.
    """
    targets = {**buffer_types, **{device: device for device in buffer_types.values()}, HOST.name: HOST.name}
    rules: list[Override] = []
    for flag, value in flags.items():
        if flag == OVERRIDE_TENSOR:
            rules += [_parse(part, targets, where(flag)) for part in flag_text(value).split(",")]
        elif flag == CPU_MOE and value is True:
            rules.append(Override(flag, flag, compile_pattern(_EXPERTS), HOST.name))
        elif flag in (N_CPU_MOE, N_CPU_FFN):
            patterns = _EXPERTS if flag == N_CPU_MOE else _DENSE
            text = f"{flag} = {flag_text(value)}"
            for layer in range(min(_layers(value, where(flag)), n_layers)):
                rules.append(Override(flag, text, compile_pattern(rf"blk\.{layer}{patterns}"), HOST.name))
    return tuple(rules)


def first_match(name: str, overrides: Iterable[Override]) -> Override | None:
    """Return the rule that decides over a tensor, or None."""
    return next((override for override in overrides if override.pattern.search(name)), None)


def match_all(names: Sequence[str], overrides: Sequence[Override]) -> tuple[MatchedPattern, ...]:
    """Return what each rule matches and wins; rules of one text are taken together."""
    by_text: dict[tuple[str, str], list[Override]] = {}
    for override in overrides:
        by_text.setdefault((override.flag, override.text), []).append(override)
    winners = {name: first_match(name, overrides) for name in names}
    found = []
    for (flag, text), group in by_text.items():
        matched = tuple(name for name in names if first_match(name, group))
        won = tuple(
            name for name in matched if (winner := winners[name]) and (winner.flag, winner.text) == (flag, text)
        )
        found.append(MatchedPattern(flag, text, group[0].target, matched, won))
    return tuple(found)


def check_matches(patterns: Iterable[MatchedPattern], where: Callable[[str], str]) -> None:
    """Refuse a rule that matches no tensor: it is a typing error, about which llama-server says nothing.

    A number of layers may well reach over dense layers only; that is for a warning.

    Raises:
        IneffectiveError: There is one.
    """
    for pattern in patterns:
        if not pattern.matched and pattern.flag in (OVERRIDE_TENSOR, CPU_MOE):
            what = f"{pattern.text!r} matches no tensor of this model"
            hint = "leave it out: this model has no routed experts"
            if pattern.flag == OVERRIDE_TENSOR:
                hint = "it is searched in the tensors' full names, such as blk.3.ffn_gate_exps.weight"
            raise IneffectiveError(f"{where(pattern.flag)}: {what}", hint)


def with_buffer_types(value: FlagValue, buffer_types: Mapping[str, str]) -> str:
    """Return an `--override-tensor` in which names of devices are replaced by names of their buffer types.

    Args:
        value: As somebody wrote it, `exps=RPC1`.
        buffer_types: Names of devices to names of buffer types: `RPC1` to `RPC0[127.0.0.1:50053]`.
    """
    parts = (part.partition("=") for part in flag_text(value).split(","))
    return ",".join(f"{pattern}{sign}{buffer_types.get(target, target)}" for pattern, sign, target in parts)


def _parse(part: str, targets: Mapping[str, str], where: str) -> Override:
    pattern, sign, target = part.partition("=")
    if not sign:
        raise ConfigError(
            f"{where}: {part!r} is no PATTERN=BUFFER",
            "write for instance exps=CPU; a pattern cannot contain a comma, at which llama-server splits",
        )
    if target not in targets:
        near = nearest(target, targets)
        known = ", ".join(dict.fromkeys(targets.values()))
        raise ConfigError(
            f"{where}: {target!r} in {part!r} is no device's memory",
            f"did you mean {near}? there are {known}" if near else f"there are {known}",
        )
    try:
        return Override(OVERRIDE_TENSOR, part, compile_pattern(pattern), targets[target])
    except ValueError as error:
        raise ConfigError(f"{where}: llama.cpp reads no pattern in {pattern!r}: {error}") from None


def _layers(value: FlagValue, where: str) -> int:
    text = flag_text(value)
    if not re.fullmatch(r"[0-9]{1,9}", text):
        raise ConfigError(f"{where}: {text!r} is no number of layers", "write a whole number from 0 up")
    return int(text)
