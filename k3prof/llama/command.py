"""The exact command that starts a llama-server for a trial: arguments in the order it needs, a clean environment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from k3prof.core.flags import FlagVocabulary
from k3prof.core.trial import FlagValue, Workload

LOG_VERBOSITY = 4
"""The lowest level at which builds since 2026 print where the model's buffers went."""

_INHERITED = ("GGML_", "CUDA_", "OMP_", "GOMP_", "NCCL_", "HIP_", "ROCR_")
_DROPPED = ("LLAMA_",)
_CHOICE_OF_DEVICES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")


def measurement_flags(
    vocabulary: FlagVocabulary, workloads: Iterable[Workload], has_stand_ins: bool
) -> dict[str, FlagValue]:
    """Return the flags that a measurement wants where the user says nothing, among those that this build knows.

    One slot per stream and no state kept between requests, so that every request does the same work; no fitting, so
    that the placement is the one written down. With stand-ins, llama-server keeps to one thread that does not spin:
    they share the processor.
    """
    wanted: dict[str, FlagValue] = {
        "fit": "off",
        "parallel": max((workload.streams for workload in workloads), default=1),
        "cache-ram": 0,
        "cache-idle-slots": False,
        "ctx-checkpoints": 0,
    }
    if has_stand_ins:
        wanted |= {"threads": 1, "poll": 0}
    return {flag.name: value for name, value in wanted.items() if (flag := vocabulary.find(name)) is not None}


def server_argv(
    server: Path,
    vocabulary: FlagVocabulary,
    flags: Mapping[str, FlagValue],
    *,
    model: Path,
    endpoints: Sequence[str],
    port: int | str,
    alias: str,
) -> list[str]:
    """Return llama-server's arguments.

    Args:
        server: The program.
        vocabulary: What this build understands.
        flags: Canonical long names to values: True is the bare switch, False its negative form, a tuple a list.
        model: The model's (first) file.
        endpoints: `host:port` of the stand-ins; they come first, since `--device` and `--override-tensor` name them.
        port: Where to listen on loopback; a word in its place when the command is only shown.
        alias: A name that proves that the server which answers is this one.
    """
    argv = [str(server)]
    if endpoints:
        argv += ["--rpc", ",".join(endpoints)]
    argv += ["--model", str(model), "--host", "127.0.0.1", "--port", str(port), "--alias", alias]
    argv += ["--log-verbosity", str(LOG_VERBOSITY)] if "log-verbosity" in vocabulary else []
    argv += ["--no-ui"] if _is_negative("no-ui", vocabulary) else []
    for name, value in flags.items():
        argv += flag_arguments(name, value, vocabulary)
    return argv


def server_env(
    inherited: Mapping[str, str], devices: Mapping[str, str], placement: Mapping[str, str], empty_folder: Path
) -> dict[str, str]:
    """Return llama-server's whole environment.

    Variables that would set flags behind our back are dropped, as is the user's configuration file, which the server
    looks for in `XDG_CONFIG_HOME`.
    """
    kept = {name: value for name, value in inherited.items() if not name.startswith(_DROPPED)}
    return {**kept, **placement, **devices, "XDG_CONFIG_HOME": str(empty_folder)}


def deciding_env(inherited: Mapping[str, str], placement: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that may change what llama.cpp does: they belong to a trial's identity.

    Which devices it sees is left out: the plan of the devices has heeded the user's choice, and names them itself.
    """
    heeded = {
        name: value
        for name, value in sorted(inherited.items())
        if name.startswith(_INHERITED) and name not in _CHOICE_OF_DEVICES
    }
    return heeded | dict(placement)


def flag_arguments(name: str, value: FlagValue, vocabulary: FlagVocabulary) -> list[str]:
    """Return one flag as arguments: True is the bare switch, False its negative form, a tuple a list."""
    if value is True:
        return [f"--{name}"]
    if value is False:
        flag = vocabulary.find(name)
        return [f"--{flag.negative}"] if flag is not None and flag.negative else []
    if isinstance(value, tuple):
        return [f"--{name}", ",".join(str(part) for part in value)]
    return [f"--{name}", str(value)]


def _is_negative(name: str, vocabulary: FlagVocabulary) -> bool:
    return any(flag.negative == name for flag in vocabulary.flags)
