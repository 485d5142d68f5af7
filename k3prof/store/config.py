"""An experiment's folder, read: shared settings, placements, and what the command line overrides."""

from __future__ import annotations

import math
import os
import stat
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from k3prof.core.experiment import Experiment, Placement, Settings, combine
from k3prof.core.trial import FlagValue
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.toml_file import check, collecting, read_toml, shown_path
from k3prof.store.toml_tables import (
    MATRIX_ENV,
    PLACEMENT,
    PLACEMENT_KEYS,
    SWEEP,
    SWEEP_KEYS,
    PlacementTable,
    SweepTable,
)

SWEEP_FILE = "sweep.toml"
HYPOTHESES_FILE = "hypotheses.toml"
NO_PLACEMENTS = (SWEEP_FILE, HYPOTHESES_FILE)
MAX_COMBINATIONS = 1000


@dataclass(frozen=True)
class Overrides:
    """What the command line says; None leaves the files' word.

    Attributes:
        only: Placements to run: a name, where `*` and `?` stand for anything.
        model: As in `sweep.toml`, but a relative path counts from the working directory.
        build: As in `sweep.toml`; a placement that names its own build keeps it.
        devices: As in `sweep.toml`.
        repeat: As in `sweep.toml`.
        workloads: As in `sweep.toml`.
        splits: As `[trace] splits` in `sweep.toml`.
    """

    only: str | None = None
    model: str | None = None
    build: str | None = None
    devices: str | None = None
    repeat: int | None = None
    workloads: tuple[str, ...] | None = None
    splits: str | None = None

    def settings(self) -> dict[str, object]:
        """Return what replaces keys of `sweep.toml`."""
        given = {key: getattr(self, key) for key in ("model", "build", "devices", "repeat", "workloads")}
        if self.splits is not None:
            given["trace"] = {"splits": self.splits}
        return {key: value for key, value in given.items() if value is not None}


def load_experiment(path: Path, overrides: Overrides) -> Experiment:
    """Read an experiment.

    Args:
        path: A folder with one TOML file per placement and perhaps a `sweep.toml`; or one placement's file,
            which shares the `sweep.toml` beside it.
        overrides: What the command line says.

    Raises:
        ConfigErrors: Everything that is wrong, in all files and on the command line.
    """
    problems: list[ConfigError] = []
    with collecting(problems):
        return _load(path, overrides)
    raise ConfigErrors(problems)


def _load(path: Path, overrides: Overrides) -> Experiment:
    problems: list[ConfigError] = []
    folder, files = _find(path)
    settings = None
    with collecting(problems):
        settings = _read_settings(folder / SWEEP_FILE, overrides)
    placements: list[Placement] = []
    n_sound = 0
    for file in files:
        with collecting(problems):
            placements += _read_placements(file)
            n_sound += 1
    problems += _clashes(placements)
    with collecting(problems):
        if not files:
            raise ConfigError(
                f"{shown_path(path)}: no placements here", "write one TOML file per placement, for instance even.toml"
            )
        if n_sound == len(files):  # else nobody knows all the names
            placements = _select(placements, overrides.only)
            if overrides.build is not None and all(placement.build is not None for placement in placements):
                raise ConfigError(
                    "--build: would change nothing: every placement to be run names its own build",
                    "leave --build out, or take the key build out of a placement's file",
                )
    if problems or settings is None:
        raise ConfigErrors(problems)
    return Experiment(shown_path(folder), settings, tuple(placements))


def _find(path: Path) -> tuple[Path, list[Path]]:
    """Return the experiment's folder and the files of its placements, in order of their names."""
    name, remedy = shown_path(path), "give a folder of placements, or one placement's TOML file"
    try:
        if not stat.S_ISDIR(path.stat().st_mode):
            if path.suffix.lower() != ".toml" or path.name in NO_PLACEMENTS:
                raise ConfigError(f"{name}: no placement's file", remedy)
            return path.parent, [path]
        files = sorted(
            file
            for file in path.iterdir()
            if file.suffix.lower() == ".toml" and not file.name.startswith(".") and file.name not in NO_PLACEMENTS
        )
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{name}: {reason}", remedy) from error
    return path, files


def _read_settings(file: Path, overrides: Overrides) -> Settings:
    problems: list[ConfigError] = []
    name, exists = shown_path(file), os.path.lexists(file)
    table, chosen = SweepTable(), SweepTable()
    with collecting(problems):
        table = check(SWEEP, read_toml(file) if exists else {}, lambda key: f"{name}: {key}", SWEEP_KEYS)
        if table.model is not None:
            table = replace(table, model=_beside(file, table.model))
        elif overrides.model is None:
            problems.append(_no_model(file, exists))
    given = overrides.settings()
    with collecting(problems):
        chosen = check(SWEEP, given, lambda key: f"--{key.partition('[')[0].removeprefix('trace.')}", SWEEP_KEYS)
    table = replace(table, **{key: getattr(chosen, key) for key in given})
    if problems or table.model is None:
        raise ConfigErrors(problems)
    return Settings(
        model=table.model,
        devices=table.devices,
        build=table.build,
        workloads=tuple(workload for entry in table.workloads for workload in entry),
        levels=frozenset(workload for entry in table.workloads if len(entry) > 1 for workload in entry),
        repeat=table.repeat,
        price_per_hour=table.price_per_hour,
        flags=table.flags,
        file=name if exists else "",
        splits=table.trace.splits,
    )


def _no_model(file: Path, exists: bool) -> ConfigError:
    remedy = 'model = "demo:k3", or the path of a GGUF'
    if exists:
        return ConfigError(f"{shown_path(file)}: model: missing", f"write {remedy}; or give --model")
    return ConfigError(f"{shown_path(file.parent)}: no model", f"give --model, or write {file.name} with {remedy}")


def _beside(file: Path, model: str) -> str:
    """Return a model as seen from the working directory: in a file, a path counts from the file's folder."""
    if model.startswith("demo:"):
        return model
    try:
        return str(file.parent / Path(model).expanduser())
    except (RuntimeError, ValueError) as error:
        raise ConfigError(f"{shown_path(file)}: model: no home folder for {model!r}", "write the whole path") from error


def _read_placements(file: Path) -> list[Placement]:
    """Return a file's placement, or the several that its matrix makes of it."""
    document, name = read_toml(file), shown_path(file)
    matrix_env = _lift_matrix_env(document)
    problems: list[ConfigError] = []
    table, env = PlacementTable(), dict[str, list[str]]()
    with collecting(problems):
        table = check(PLACEMENT, document, lambda key: f"{name}: {key}", PLACEMENT_KEYS)
    with collecting(problems):
        env = check(MATRIX_ENV, matrix_env, lambda key: f"{name}: matrix.env{'.' * bool(key)}{key}")
    matrix: dict[str, Sequence[FlagValue]] = {**table.matrix}
    matrix.update({f"env.{variable}": values for variable, values in env.items()})
    if math.prod(len(values) for values in matrix.values()) > MAX_COMBINATIONS:
        problems.append(
            ConfigError(
                f"{name}: matrix: more than {MAX_COMBINATIONS} combinations",
                "try fewer values, or fewer keys at once",
            )
        )
    if problems:
        raise ConfigErrors(problems)
    placements = combine(Placement(file.stem, table.about, table.flags, table.env, name, build=table.build), matrix)
    for placement in placements:
        if not placement.name.isprintable():
            raise ConfigError(
                f"{name}: unprintable characters in the placement's name {placement.name!r}",
                "the name comes from the file's name and from the matrix: change these",
            )
    return placements


def _lift_matrix_env(document: dict[str, Any]) -> object:
    """Take the variables out of a document's matrix, be they written `env.NAME = ` or `"env.NAME" = `."""
    matrix = document.get("matrix")
    if not isinstance(matrix, dict):
        return {}
    env = matrix.pop("env", {})
    quoted = {key.removeprefix("env."): matrix.pop(key) for key in list(matrix) if key.startswith("env.")}
    return {**env, **quoted} if isinstance(env, dict) else env


def _clashes(placements: Iterable[Placement]) -> list[ConfigError]:
    files = defaultdict[str, list[str]](list)
    for placement in placements:
        files[placement.name].append(placement.file)
    return [
        ConfigError(
            f"{' and '.join(dict.fromkeys(where))}: {len(where)} placements are named {name}",
            "rename a file, or take a repeated value out of the matrix",
        )
        for name, where in files.items()
        if len(where) > 1
    ]


def _select(placements: list[Placement], only: str | None) -> list[Placement]:
    if only is None:
        return placements
    # Names hold brackets where a matrix made them, so that brackets mean themselves here.
    pattern = only.replace("[", "[[]")
    selected = [placement for placement in placements if fnmatchcase(placement.name, pattern)]
    if not selected:
        names = ", ".join(placement.name for placement in placements)
        raise ConfigError(f"--only: no placement is named {only!r}", f"there are: {names}")
    return selected
