"""Reads an earlier examination of a model, as `k3prof probe --format json` wrote it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from k3prof.core.probes.probe import Outcome
from k3prof.core.probes.report import EarlierAnswer, EarlierReport
from k3prof.errors import ConfigError
from k3prof.store.toml_file import shown_path

_FORMAT_VERSION = 1
_HINT = "give a file that `k3prof probe MODEL --format json -o FILE` wrote"


@dataclass(frozen=True)
class _Probe:
    id: str
    outcome: Outcome
    answer: str | None


@dataclass(frozen=True)
class _File:
    format_version: int
    set_version: int
    verdict: str
    probes: tuple[_Probe, ...]


_FILE = TypeAdapter(_File)


def read_probe_file(path: Path) -> EarlierReport:
    """Read what to compare with.

    Raises:
        ConfigError: It cannot be read, is no such file, or of another version.
    """
    name = shown_path(path)
    try:
        found = _FILE.validate_json(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{name}: cannot be read: {error.strerror}", _HINT) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ConfigError(f"{name}: no result of k3prof probe: {where}: {first['msg']}", _HINT) from error
    if found.format_version != _FORMAT_VERSION:
        raise ConfigError(f"{name}: format_version {found.format_version}; this k3prof reads {_FORMAT_VERSION}", _HINT)
    answers = {one.id: EarlierAnswer(one.outcome, one.answer) for one in found.probes}
    if len(answers) != len(found.probes):
        raise ConfigError(f"{name}: probes: an id stands there twice", _HINT)
    return EarlierReport(name, found.set_version, found.verdict, answers)
