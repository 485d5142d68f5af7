"""What placements will take and how fast they can be, before anything is loaded: the model's header is enough."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from k3prof.collectors.nvml import list_gpus
from k3prof.collectors.visible_gpus import visible_gpus
from k3prof.core.build import Build
from k3prof.core.experiment import Experiment, Placement, Settings, effective_flags, where_flag
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
from k3prof.llama.build import find_build
from k3prof.llama.command import measurement_flags
from k3prof.llama.devices import DevicePlan, plan_devices
from k3prof.llama.flag_help import read_vocabulary
from k3prof.llama.gguf import read_model
from k3prof.store.config import Overrides, load_experiment
from k3prof.store.toml_file import collecting
from k3prof.workflows.compute_buffers import ComputeOracle, compute_oracle
from k3prof.workflows.machine_rig import machine_rig, named_rig
from k3prof.workflows.model_file import model_path

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

    The experiment's build, if it is here, checks the flags and is asked for compute buffers.

    Args:
        path: A folder of placements, or one placement's file.
        overrides: What the command line says.
        rig: `5xA40` or the path of a rig's file; None for this machine with the devices of the experiment.
        inherited_env: Our environment.

    Raises:
        ConfigError: The files, the options or the model are wrong; every problem with the files at once.
        MachineError: The build or the devices cannot be used. For another rig no build is needed, unless one is named.
    """
    experiment = load_experiment(path, overrides)
    ground = _find_ground(experiment.settings, rig, inherited_env, needs_build=overrides.build is not None)
    experiment = ground.checked(experiment)
    file = model_path(experiment.settings.model)
    model = read_model(file)
    problems: list[ConfigError] = []
    predictions = []
    with ground.oracle(file) as oracle:
        for placement in experiment.placements:
            with collecting(problems):
                predictions.append(_predict(placement, experiment.settings, model, ground, oracle))
    if problems:
        raise ConfigErrors(list({problem.message: problem for problem in problems}.values()))
    return Predictions(model, ground.rig, tuple(predictions), tuple(dict.fromkeys(ground.notes)))


@dataclass(frozen=True)
class _Ground:
    """What predictions stand on.

    Attributes:
        build: The build, if it is here.
        vocabulary: The flags that it understands.
        rig: The machine that they are for.
        plan: Its devices, if it is this machine.
        notes: What the user should know.
    """

    build: Build | None
    vocabulary: FlagVocabulary | None
    rig: Rig
    plan: DevicePlan | None
    notes: list[str] = field(default_factory=list)

    def checked(self, experiment: Experiment) -> Experiment:
        """Return the experiment with every flag under its canonical name.

        Raises:
            ConfigErrors: The build does not understand a flag.
        """
        if self.vocabulary is not None:
            if problems := check_flags(experiment, self.vocabulary, len(self.rig.devices) or None):
                raise ConfigErrors(problems)
            experiment = canonical(experiment, self.vocabulary)
        return under_known_names(experiment)

    @contextmanager
    def oracle(self, model: Path) -> Iterator[ComputeOracle | None]:
        """Make ready to ask the build for compute buffers; None where nobody can be asked."""
        if self.build is None:
            yield None
            return
        with compute_oracle(self.build, model, self.rig, self.plan) as oracle:
            yield oracle


def _find_ground(
    settings: Settings, rig: str | None, inherited_env: Mapping[str, str], *, needs_build: bool
) -> _Ground:
    machine = named_rig(rig) if rig is not None else None
    try:
        build = find_build(settings.build)
        vocabulary = read_vocabulary(Path(build.bin_dir))
    except K3profError as error:
        if machine is None or needs_build:
            raise
        note = f"{error.message}: flags are not checked against a build, and compute buffers are a margin"
        return _Ground(None, None, machine, None, [note])
    if machine is not None:
        return _Ground(build, vocabulary, machine, None)
    plan = plan_devices(settings.devices, build, visible_gpus(list_gpus(), inherited_env))
    return _Ground(build, vocabulary, machine_rig(plan), plan, [plan.notice] if plan.notice else [])


def _predict(
    placement: Placement, settings: Settings, model: Model, ground: _Ground, oracle: ComputeOracle | None
) -> Prediction:
    has_stand_ins = bool(ground.plan and ground.plan.stand_ins)
    defaults = measurement_flags(ground.vocabulary or _KNOWN_DEFAULTS, settings.workloads, has_stand_ins)
    flags = {**defaults, **effective_flags(settings, placement)}
    where = partial(where_flag, settings, placement)
    if trap := split_mode_trap(model, FlagReader(flags, where)):
        return Prediction(placement.name, ground.rig, warnings=(trap,))
    placed = lay_out(model, flags, ground.rig, where)
    return predict_placed(placement.name, placed, settings.workloads, _compute(placed, oracle, ground.notes))


def _compute(placed: Placed, oracle: ComputeOracle | None, notes: list[str]) -> ComputeBuffers | None:
    try:
        return oracle.ask(placed) if oracle is not None else None
    except K3profError as error:
        notes.append(f"compute buffers are a margin: {error.message}")
        return None
