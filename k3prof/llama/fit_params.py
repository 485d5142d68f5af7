"""Asks `llama-fit-params` what a placement will allocate: it lays a model out like llama-server, but loads nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.device import HOST
from k3prof.core.flags import FlagVocabulary
from k3prof.core.trial import FlagValue
from k3prof.llama.command import flag_arguments
from k3prof.llama.flag_help import parse_help
from k3prof.llama.programs import ask, clean_environment

PROGRAM = "llama-fit-params"
_ROW = re.compile(r"^(?P<device>\w+) (?P<model>\d+) (?P<context>\d+) (?P<compute>\d+) *$", re.MULTILINE)
_HOST_ROW = "Host"
_NOT_PASSED = ("fit", "fit-print", "override-kv")


@dataclass(frozen=True)
class AskedMemory:
    """What llama.cpp itself expects to allocate on one device, in MiB, rounded down.

    Attributes:
        model_mib: Weights, all of them read instead of mapped.
        context_mib: KV cache and recurrent state.
        compute_mib: Compute buffers.
    """

    model_mib: int
    context_mib: int
    compute_mib: int


def ask_memory(
    build: Build, flags: Mapping[str, FlagValue], *, model: Path, endpoints: Sequence[str], env: Mapping[str, str]
) -> dict[str, AskedMemory]:
    """Return what `--fit-print` says of each device, the host as `CPU`.

    Buffers that llama.cpp counts to neither a device nor the host, such as repacked weights, are not in it.

    Args:
        build: Whose program to ask.
        flags: llama-server's canonical long names to values; those that the program does not know are left out.
        model: The model's (first) file.
        endpoints: `host:port` of stand-ins that run.
        env: What makes it see just the devices meant.

    Raises:
        ConfigError: The build lacks the program.
        MachineError: It fails, for instance because it cannot use the model.
    """
    program = Path(build.bin_dir) / PROGRAM
    vocabulary = FlagVocabulary(parse_help(ask(program, "--help").stdout))
    argv = ["--rpc", ",".join(endpoints)] if endpoints else []
    argv += ["--model", str(model), "--fit-print", "on"]
    for name, value in _understood(flags, vocabulary).items():
        argv += flag_arguments(name, value, vocabulary)
    said = ask(program, *argv, env={**clean_environment(), **env})
    return {
        HOST.name if row["device"] == _HOST_ROW else row["device"]: AskedMemory(
            int(row["model"]), int(row["context"]), int(row["compute"])
        )
        for row in _ROW.finditer(said.stdout)
    }


def _understood(flags: Mapping[str, FlagValue], vocabulary: FlagVocabulary) -> dict[str, FlagValue]:
    known = {name: value for name, value in flags.items() if name in vocabulary and name not in _NOT_PASSED}
    # It knows no unified cache. One sequence over all the context comes closest.
    unified = flags.get("kv-unified") is True or int(str(flags.get("parallel", -1))) < 0
    return known | ({"parallel": 1} if unified else {})
