"""What no placement may set, because k3prof sets it itself or could not measure otherwise: flags and variables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Reserve:
    """A group of names that are refused for one reason.

    Attributes:
        names: The names; `*` stands for anything.
        reason: Why, as a clause.
        remedy: What to do instead.
    """

    names: tuple[str, ...]
    reason: str
    remedy: str


_LEAVE_OUT = "leave it out"
_SET_MODEL = 'set model = "..." in sweep.toml, or give --model'

_FLAGS = (
    Reserve(
        ("host", "port", "reuse-port", "path", "api-prefix", "api-key", "api-key-file", "ssl-*"),
        "k3prof talks to the server itself, on a loopback port that it picks",
        _LEAVE_OUT,
    ),
    Reserve(("model", "alias"), "k3prof names the model to the server", _SET_MODEL),
    Reserve(
        ("rpc",),
        "k3prof starts the stand-in devices itself",
        'set devices = "rpc:3" in sweep.toml, or give --devices rpc:3',
    ),
    Reserve(
        ("log-*", "verbose", "verbosity"),
        "k3prof reads the server's log and decides what it shows",
        _LEAVE_OUT,
    ),
    Reserve(
        (
            *("hf-*", "*-hf", "docker-repo", "*-url"),
            *("fim-qwen-*", "gpt-oss-*", "vision-gemma-*", "embd-gemma-default"),
        ),
        "a measured server downloads nothing",
        'download the model first, then set model = "..." in sweep.toml to its path',
    ),
    Reserve(
        ("metrics", "slots", "props"),
        "k3prof decides which of the server's endpoints are open",
        _LEAVE_OUT,
    ),
    Reserve(
        ("sleep-idle-seconds",),
        "a server that falls asleep unloads the model in the middle of a measurement",
        _LEAVE_OUT,
    ),
    Reserve(("models-*",), "each server holds one model", _SET_MODEL),
    Reserve(
        ("embedding", "embeddings", "rerank", "reranking"),
        "the workloads generate text, and such a server cannot",
        _LEAVE_OUT,
    ),
    Reserve(
        ("help", "usage", "version", "license", "cache-list", "list-devices", "completion-bash"),
        "it makes the server print something and exit",
        _LEAVE_OUT,
    ),
)

_VARIABLES = (
    Reserve(
        ("LLAMA_ARG_*", "LLAMA_API_KEY", "LLAMA_LOG_*"),
        "the server would obey it like a flag, and no report of the flags would show it",
        "write the flag itself under [flags]",
    ),
    Reserve(
        ("*_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"),
        "k3prof counts and orders the devices, and CUDA0 would no longer be the one that it watches",
        'choose devices by a flag: device = "CUDA0,CUDA2" under [flags]',
    ),
    Reserve(
        ("LD_*", "GGML_BACKEND_PATH"),
        "the server would run other code than the build that the trace names",
        "make or register another build: k3prof build --source DIR, k3prof build --use PATH",
    ),
    Reserve(
        ("XDG_CONFIG_HOME", "K3PROF_*", "AIP_*", "LLAMA_SERVER_*"),
        "k3prof decides how the server starts and where it listens",
        _LEAVE_OUT,
    ),
)


def reserved_flag(names: Iterable[str]) -> Reserve | None:
    """Return why a flag of llama-server is refused, or None when placements may set it.

    Args:
        names: All the long names, without dashes, that mean this flag.
    """
    return next(filter(None, (_find(name, _FLAGS) for name in names)), None)


def reserved_variable(name: str) -> Reserve | None:
    """Return why an environment variable is refused, or None when placements may set it."""
    return _find(name, _VARIABLES)


def _find(name: str, reserves: Sequence[Reserve]) -> Reserve | None:
    for reserve in reserves:
        if any(fnmatchcase(name, pattern) for pattern in reserve.names):
            return reserve
    return None
