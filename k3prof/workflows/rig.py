"""What a sweep runs on and what it runs: build, devices, model and placements, all checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from k3prof.collectors.nvml import list_gpus
from k3prof.collectors.visible_gpus import visible_gpus
from k3prof.core.build import Build
from k3prof.core.experiment import Experiment, effective_flags, where_flag
from k3prof.core.flag_check import canonical, check_flags
from k3prof.core.flags import FlagVocabulary
from k3prof.core.layout.flag_reader import FlagReader, known_names
from k3prof.core.layout.overrides import OVERRIDE_TENSOR, with_buffer_types
from k3prof.core.layout.placed import lay_out
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.layout.traps import split_mode_trap
from k3prof.core.trial import TrialSpec
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.llama.build import find_build
from k3prof.llama.command import deciding_env, measurement_flags, server_argv
from k3prof.llama.devices import DevicePlan, plan_devices, stand_in_buffer_types
from k3prof.llama.flag_help import read_vocabulary
from k3prof.store.config import Overrides, load_experiment
from k3prof.store.toml_file import collecting
from k3prof.workflows.machine_rig import machine_rig
from k3prof.workflows.model_file import ModelFile, find_model
from k3prof.workflows.split_tracing import SplitTracing, plan_tracing


@dataclass(frozen=True)
class Rig:
    """A machine made ready in thought: nothing has been started.

    Attributes:
        build: The llama.cpp build.
        vocabulary: The flags it understands.
        devices: The devices to use.
        model: The model.
        tracing: How the servers are traced.
    """

    build: Build
    vocabulary: FlagVocabulary
    devices: DevicePlan
    model: ModelFile
    tracing: SplitTracing = field(default_factory=SplitTracing)

    def argv(self, spec: TrialSpec, endpoints: tuple[str, ...], port: int | str, alias: str) -> list[str]:
        """Return the command that starts a trial's server.

        Overrides may name a stand-in as its device; the server knows its memory by the endpoint.
        """
        flags = dict(spec.flags)
        if OVERRIDE_TENSOR in flags:
            names = [device.name for device in self.devices.stand_ins]
            flags[OVERRIDE_TENSOR] = with_buffer_types(flags[OVERRIDE_TENSOR], stand_in_buffer_types(names, endpoints))
        return server_argv(
            Path(self.build.bin_dir) / "llama-server",
            self.vocabulary,
            flags,
            model=self.model.path,
            endpoints=endpoints,
            port=port,
            alias=alias,
        )


@dataclass(frozen=True)
class PreparedSweep:
    """An experiment whose every file, flag and device has been checked.

    Attributes:
        experiment: What the files and the command line ask for, flags under the build's own names.
        rig: What it runs on.
        specs: One trial per placement, in the order of running.
        predicted: The buffers that each placement's server should allocate, by the placement's name; None where that
            is not predicted.
    """

    experiment: Experiment
    rig: Rig
    specs: tuple[TrialSpec, ...]
    predicted: Mapping[str, tuple[PlannedBuffer, ...] | None]


def prepare(path: Path, overrides: Overrides, inherited_env: Mapping[str, str] = os.environ) -> PreparedSweep:
    """Check everything that a sweep needs.

    Raises:
        ConfigError: The files, the options or the model are wrong; every problem with the files at once.
        MachineError: The build or the devices cannot do it.
    """
    experiment = load_experiment(path, overrides)
    build = find_build(experiment.settings.build)
    vocabulary = read_vocabulary(Path(build.bin_dir))
    devices = plan_devices(experiment.settings.devices, build, visible_gpus(list_gpus(), inherited_env))
    if problems := check_flags(experiment, vocabulary, len(devices.devices) - 1 or None):
        raise ConfigErrors(problems)
    experiment = canonical(experiment, vocabulary)
    settings = experiment.settings
    rig = Rig(build, vocabulary, devices, find_model(settings.model), plan_tracing(settings.splits, build))
    defaults = measurement_flags(vocabulary, settings.workloads, bool(devices.stand_ins))
    specs = tuple(
        TrialSpec(
            placement=placement.name,
            model=rig.model.fingerprint,
            model_path=str(rig.model.path),
            build=build.identity,
            devices=devices.identity,
            flags={**defaults, **effective_flags(settings, placement)},
            env=deciding_env(inherited_env, placement.env),
            workloads=settings.workloads,
            repeat=settings.repeat,
            splits=rig.tracing.mode,
        )
        for placement in experiment.placements
    )
    return PreparedSweep(experiment, rig, specs, _predict(experiment, rig, specs))


def _predict(
    experiment: Experiment, rig: Rig, specs: Sequence[TrialSpec]
) -> dict[str, tuple[PlannedBuffer, ...] | None]:
    """Lay the model out as each placement asks.

    Raises:
        ConfigErrors: Placements name devices, buffers or tensors that are not there.
    """
    problems: list[ConfigError] = []
    predicted: dict[str, tuple[PlannedBuffer, ...] | None] = {}
    machine = machine_rig(rig.devices)
    for placement, spec in zip(experiment.placements, specs, strict=True):
        flags, where = known_names(spec.flags), partial(where_flag, experiment.settings, placement)
        with collecting(problems):
            unpredictable = split_mode_trap(rig.model.header, FlagReader(flags, where))
            placed = None if unpredictable else lay_out(rig.model.header, flags, machine, where)
            predicted[placement.name] = placed.layout.buffers if placed is not None else None
    if problems:
        raise ConfigErrors(list({problem.message: problem for problem in problems}.values()))
    return predicted
