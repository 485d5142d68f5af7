"""TOML files read and checked: every problem under its file and key, and all of them together."""

from __future__ import annotations

import datetime
import re
import stat
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from k3prof.core.flags import nearest
from k3prof.errors import ConfigError, ConfigErrors

Record = TypeVar("Record")

_MAX_BYTES = 1 << 20
_WORDS = {
    "dict_type": "must be a table",
    "dataclass_type": "must be a table",
    "string_type": "must be text in quotes",
    "int_type": "must be a whole number",
    "float_type": "must be a number",
    "finite_number": "must be a finite number",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
}


@contextmanager
def collecting(problems: list[ConfigError]) -> Iterator[None]:
    """Add what the body raises about the user's input to `problems`, and go on."""
    try:
        yield
    except ConfigErrors as errors:
        problems.extend(errors.problems)
    except ConfigError as error:
        problems.append(error)


def read_toml(path: Path) -> dict[str, Any]:
    """Return a TOML file's document.

    Raises:
        ConfigError: The file cannot be read, is no text file of reasonable size, or no TOML.
    """
    name, content = shown_path(path), _read(path)
    try:
        return tomllib.loads(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            f"{name}: not UTF-8: byte 0x{content[error.start]:02x} in line {line}", "save the file as UTF-8"
        ) from error
    except RecursionError as error:
        raise ConfigError(f"{name}: not TOML: nested too deeply", "no setting needs more than a list") from error
    except ValueError as error:
        # Besides TOMLDecodeError: a number of more digits than Python converts.
        hint = 'text stands in quotes: fit = "on"' if "value" in str(error) else "each line is [table] or key = value"
        raise ConfigError(f"{name}: not TOML: {error}", hint) from error


def _read(path: Path) -> bytes:
    name = shown_path(path)
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ConfigError(f"{name}: a folder, where a file should be", "rename or remove it")
        if not stat.S_ISREG(mode):  # to read a pipe might wait for ever
            raise ConfigError(f"{name}: no regular file", "put a TOML file here")
        with path.open("rb") as file:
            content = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigError(f"{name}: {error.strerror}", "make it a readable TOML file, or remove it") from error
    if len(content) > _MAX_BYTES:
        raise ConfigError(f"{name}: larger than 1 MiB, so hardly a file of settings", "remove it from this folder")
    return content


def check(
    adapter: TypeAdapter[Record], document: object, place: Callable[[str], str], keys: Sequence[str] = ()
) -> Record:
    """Return the record that a document describes.

    Args:
        adapter: What the document should be.
        document: As read from TOML.
        place: Says where a key stands: `flags.n-cpu-moe` becomes `placements/a.toml: flags.n-cpu-moe`.
        keys: The keys that exist, dotted, to suggest one for an unknown one.

    Raises:
        ConfigErrors: Everything that is wrong with it.
    """
    try:
        return adapter.validate_python(document)
    except ValidationError as error:
        raise ConfigErrors([_problem(details, place, keys) for details in error.errors()]) from error


def check_each_key(
    adapter: TypeAdapter[Record],
    document: object,
    place: Callable[[str], str],
    keys: Sequence[str],
    problems: list[ConfigError],
) -> tuple[Record, set[str]]:
    """Return the record of a table's well-formed keys, so that these can be checked further, and the other keys.

    Args:
        adapter: What the document should be; every key has a default.
        document: As for `check`.
        place: As for `check`.
        keys: As for `check`.
        problems: Gets what is wrong with the other keys.

    Raises:
        ConfigErrors: The document is no table.
    """
    if not isinstance(document, dict):
        return check(adapter, document, place), set()
    sound: dict[str, Any] = {}
    for key, value in document.items():
        with collecting(problems):
            check(adapter, {key: value}, place, keys)
            sound[key] = value
    return check(adapter, sound, place), document.keys() - sound.keys()


def _problem(error: ErrorDetails, place: Callable[[str], str], keys: Sequence[str]) -> ConfigError:
    where, context = place(_dotted(error["loc"])), error.get("ctx", {})
    match error["type"]:
        case "unexpected_keyword_argument":
            table = _dotted(error["loc"][:-1])
            siblings = [key.rpartition(".")[2] for key in keys if key.rpartition(".")[0] == table]
            near = nearest(str(error["loc"][-1]), siblings)
            known = f"known keys: {', '.join(siblings)}"
            flags = "; llama-server's flags stand under [flags]" if "flags" in keys else ""
            hint = f"did you mean {near}?" if near else known + flags
            return ConfigError(f"{where}: unknown key", hint)
        case "refused":
            return ConfigError(f"{where}: {context['message']}", context["hint"])
        case "value_error":
            return ConfigError(f"{where}: {context['error']}")
        case "too_short":
            return ConfigError(f"{where}: an empty list", "give at least one value, or leave the key out")
        case kind:
            words = _WORDS.get(kind, error["msg"]).format(**context)
            return ConfigError(f"{where}: {words}, not {shown(error['input'])}")


def _dotted(location: Sequence[str | int]) -> str:
    dotted = ""
    for step in location:
        if isinstance(step, int):
            dotted += f"[{step}]"
        elif step != "[key]":  # pydantic's mark for a problem of the key itself
            dotted += "." * bool(dotted) + _shown_key(step)
    return dotted


def shown_path(path: Path) -> str:
    """Return a path for a message, quoted and escaped where it would disturb a terminal."""
    return str(path) if str(path).isprintable() else repr(str(path))


def _shown_key(key: str) -> str:
    """Return a key as TOML writes it, in quotes where it is no plain word."""
    return key if re.fullmatch(r"[A-Za-z0-9_.-]+", key) else _shortened(repr(key))


def shown(value: object) -> str:
    """Return a value from a TOML document for a message: short, printable, in TOML's words."""
    match value:
        case bool():
            return str(value).lower()
        case int() if abs(value) >= 1 << 63:
            return "a number beyond 64 bits"
        case dict():
            return "a table"
        case list():
            return "a list"
        case datetime.date() | datetime.time():
            return str(value)
        case _:
            return _shortened(repr(value))


def _shortened(text: str, most: int = 60) -> str:
    return text if len(text) <= most else text[: most - 1] + "…"
