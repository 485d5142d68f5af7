"""What placements will take and how fast they can be, before anything is loaded: the model's header is enough."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from k3prof.core.experiment import Experiment, Placement, Settings, by_build, effective_flags, where_flag
from k3prof.core.flag_check import canonical, check_flags
from k3prof.core.flags import Flag, FlagVocabulary
from k3prof.core.layout.flag_reader import FlagReader, under_known_names
from k3prof.core.layout.headroom import ComputeBuffers
from k3prof.core.layout.placed import Placed, lay_out
from k3prof.core.layout.prediction import Prediction
from k3prof.core.layout.prediction import predict as predict_placed
from k3prof.core.layout.rig import Rig
from k3prof.core.layout.traps import split_mode_trap
from k3prof.core.weights.model import Model
from k3prof.errors import ConfigError, ConfigErrors, K3profError
from k3prof.llama.command import measurement_flags
from k3prof.llama.devices import DevicePlan
from k3prof.llama.gguf import read_model
from k3prof.store.config import Overrides, load_experiment
from k3prof.store.toml_file import collecting
from k3prof.workflows.compute_buffers import ComputeOracle, compute_oracle
from k3prof.workflows.level_fit import level_fit
from k3prof.workflows.machine_rig import machine_rig, named_rig
from k3prof.workflows.model_file import model_path
from k3prof.workflows.used_builds import UsedBuild, find_used_build, find_used_builds, plan_same_devices

_KNOWN_DEFAULTS = FlagVocabulary(Flag(name) for name in ("fit", "parallel"))
"""What a measurement sets that changes a placement, where no build is here to say what it understands."""


@dataclass(frozen=True)
class Predictions:
    """What is said of an experiment's placements.

    Attributes:
        model: The model, as its header describes it.
        rig: The machine.
        placements: One each, in the order of the files.
        notes: What the user should know about how they were made.
    """

    model: Model
    rig: Rig
    placements: tuple[Prediction, ...]
    notes: tuple[str, ...]


def predict(
    path: Path, overrides: Overrides, rig: str | None = None, inherited_env: Mapping[str, str] = os.environ
) -> Predictions:
    """Predict every placement of an experiment.

    The build of a placement, if it is here, checks its flags and is asked for compute buffers.

    Args:
        path: A folder of placements, or one placement's file.
        overrides: What the command line says.
        rig: `5xA40` or the path of a rig's file; None for this machine with the devices of the experiment.
        inherited_env: Our environment.

    Raises:
        ConfigError: The files, the options or the model are wrong; every problem with the files at once.
        MachineError: A build or the devices cannot be used. For another rig no build is needed, unless the command line
            names one.
    """
    experiment = load_experiment(path, overrides)
    parts = by_build(experiment)
    if rig is not None:
        grounds = _elsewhere(parts, named_rig(rig), needed_build=overrides.build)
    else:
        grounds = _here(parts, experiment.settings.devices, inherited_env)
    machine = next(iter(grounds.values())).rig
    vocabularies = {name: ground.used.vocabulary for name, ground in grounds.items() if ground.used is not None}
    if flag_problems := check_flags(experiment, vocabularies, len(machine.devices) or None):
        raise ConfigErrors(flag_problems)
    file = model_path(experiment.settings.model)
    model = read_model(file)
    problems: list[ConfigError] = []
    found: dict[str, Prediction] = {}
    for name, ground in grounds.items():
        part = ground.known(parts[name])
        with ground.oracle(file) as oracle:
            for placement in part.placements:
                with collecting(problems):
                    found[placement.name] = _predict(placement, part.settings, model, ground, oracle)
    if problems:
        raise ConfigErrors(list({problem.message: problem for problem in problems}.values()))
    notes = dict.fromkeys(note for ground in grounds.values() for note in ground.notes)
    return Predictions(model, machine, tuple(found[one.name] for one in experiment.placements), tuple(notes))


@dataclass(frozen=True)
class _Ground:
    """What the predictions for the placements of one build stand on.

    Attributes:
        used: The build and its flags, if it is here.
        rig: The machine that they are for.
        plan: Its devices, if it is this machine.
        notes: What the user should know.
    """

    used: UsedBuild | None
    rig: Rig
    plan: DevicePlan | None = None
    notes: list[str] = field(default_factory=list)

    def known(self, part: Experiment) -> Experiment:
        """Return these placements with every flag under the name that a prediction looks for."""
        return under_known_names(canonical(part, self.used.vocabulary) if self.used is not None else part)

    @contextmanager
    def oracle(self, model: Path) -> Iterator[ComputeOracle | None]:
        """Make ready to ask the build for compute buffers; None where nobody can be asked."""
        if self.used is None:
            yield None
            return
        with compute_oracle(self.used.build, model, self.rig, self.plan) as oracle:
            yield oracle


def _elsewhere(parts: Mapping[str, Experiment], machine: Rig, needed_build: str | None) -> dict[str, _Ground]:
    """Return the ground by build for another machine, where a build that is not here is done without unless needed."""
    grounds = {}
    for name, part in parts.items():
        try:
            grounds[name] = _Ground(find_used_build(name, part), machine)
        except K3profError as error:
            if name == needed_build:
                raise
            note = f"{error.message}: flags are not checked against a build, and compute buffers are a margin"
            grounds[name] = _Ground(None, machine, notes=[note])
    return grounds


def _here(parts: Mapping[str, Experiment], devices: str, inherited_env: Mapping[str, str]) -> dict[str, _Ground]:
    """Return the ground by build for this machine."""
    used = find_used_builds(parts)
    plans = plan_same_devices(used, devices, inherited_env)
    return {
        name: _Ground(one, machine_rig(plans[name]), plans[name], list(filter(None, [plans[name].notice])))
        for name, one in used.items()
    }


def _predict(
    placement: Placement, settings: Settings, model: Model, ground: _Ground, oracle: ComputeOracle | None
) -> Prediction:
    has_stand_ins = bool(ground.plan and ground.plan.stand_ins)
    vocabulary = ground.used.vocabulary if ground.used is not None else _KNOWN_DEFAULTS
    fit = level_fit(settings, placement, vocabulary, model, ground.rig, has_stand_ins=has_stand_ins)
    defaults = measurement_flags(vocabulary, fit.kept, has_stand_ins)
    flags = {**defaults, **effective_flags(settings, placement)}
    where = partial(where_flag, settings, placement)
    if trap := split_mode_trap(model, FlagReader(flags, where)):
        return Prediction(placement.name, ground.rig, warnings=(trap,))
    placed = lay_out(model, flags, ground.rig, where)
    found = predict_placed(placement.name, placed, fit.kept, _compute(placed, oracle, ground.notes))
    return replace(found, warnings=(*found.warnings, *fit.skipped))


def _compute(placed: Placed, oracle: ComputeOracle | None, notes: list[str]) -> ComputeBuffers | None:
    try:
        return oracle.ask(placed) if oracle is not None else None
    except K3profError as error:
        notes.append(f"compute buffers are a margin: {error.message}")
        return None
