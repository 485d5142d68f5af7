"""Says what any llama-server log proves, without starting anything."""

from __future__ import annotations

import sys
from pathlib import Path

from k3prof.core.evidence.explanation import Explanation, hold_against_header
from k3prof.core.evidence.loaded import LoadedServer
from k3prof.errors import ConfigError
from k3prof.llama.failures import named_failure
from k3prof.llama.gguf import read_model
from k3prof.llama.logs import read_log
from k3prof.workflows.model_file import model_path

STDIN = "-"
MAX_BYTES = 512 * 2**20


def explain(log: str, model: str | None = None) -> Explanation:
    """Read a log.

    Args:
        log: Its file, or `-` for the standard input.
        model: A GGUF, or `demo:NAME`, to hold the log against; None for none.

    Raises:
        ConfigError: The log cannot be read or is none of llama-server, or the model is wrong.
    """
    header = None if model is None else read_model(model_path(model))
    source = "stdin" if log == STDIN else log
    text = _read(log)
    done, failure = read_log(text), named_failure(text)
    if done == LoadedServer() and failure is None:
        raise ConfigError(
            f"{source}: nothing in it looks like a log of llama-server",
            "give what the server writes to stderr, best with -lv 4",
        )
    return Explanation(source, done, failure, () if header is None else hold_against_header(done, header))


def _read(log: str) -> str:
    try:
        if log == STDIN:
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with Path(log).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{log}: {error.strerror or error}") from None
    except ValueError:
        raise ConfigError("the log's name holds a null character") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(
            f"{log}: longer than {MAX_BYTES // 2**20} MiB",
            "give the part from the server's start to its first requests: head -c 100M",
        )
    return data.decode(errors="replace")
