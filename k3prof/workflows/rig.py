"""What a sweep runs on and what it runs: builds, devices, model and placements, all checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.experiment import Experiment, Placement, Settings, by_build, effective_flags, where_flag
from k3prof.core.flag_check import canonical, check_flags
from k3prof.core.flags import FlagVocabulary
from k3prof.core.layout.flag_reader import FlagReader, known_names
from k3prof.core.layout.level_fit import LevelFit
from k3prof.core.layout.overrides import OVERRIDE_TENSOR, with_buffer_types
from k3prof.core.layout.placed import lay_out
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.layout.traps import split_mode_trap
from k3prof.core.trial import Caveat, TrialSpec
from k3prof.errors import ConfigError, ConfigErrors, IneffectiveError
from k3prof.llama.command import deciding_env, measurement_flags, server_argv
from k3prof.llama.devices import DevicePlan, stand_in_buffer_types
from k3prof.store.config import Overrides, load_experiment
from k3prof.store.toml_file import collecting
from k3prof.workflows.level_fit import level_fit
from k3prof.workflows.machine_rig import machine_rig
from k3prof.workflows.model_file import ModelFile, find_model
from k3prof.workflows.split_tracing import SplitTracing, plan_tracing
from k3prof.workflows.used_builds import find_used_builds, plan_same_devices


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
        experiment: What the files and the command line ask for, as they write it.
        rigs: What each placement runs on, by the placement's name; they differ in the build alone.
        specs: One trial per placement, in the order of running, flags under the build's own names.
        predicted: The buffers that each placement's server should allocate, by the placement's name; None where that
            is not predicted.
        ineffective: What a placement asks for and llama-server would silently ignore, by the placement's name.
        skipped: The levels of ladders that a placement's server cannot take, each with the reason.
    """

    experiment: Experiment
    rigs: Mapping[str, Rig]
    specs: tuple[TrialSpec, ...]
    predicted: Mapping[str, tuple[PlannedBuffer, ...] | None]
    ineffective: Mapping[str, IneffectiveError] = field(default_factory=dict)
    skipped: Mapping[str, tuple[Caveat, ...]] = field(default_factory=dict)

    @property
    def builds(self) -> tuple[Build, ...]:
        """The builds that placements run on, in the order of first use."""
        return tuple({rig.build.name: rig.build for rig in self.rigs.values()}.values())

    @property
    def model(self) -> ModelFile:
        """The model, which all placements share."""
        return next(iter(self.rigs.values())).model

    @property
    def devices(self) -> DevicePlan:
        """The devices, which all placements share."""
        return next(iter(self.rigs.values())).devices

    @property
    def tracing_caveats(self) -> tuple[Caveat, ...]:
        """Why servers are not traced although it was asked for, each reason once."""
        return tuple(dict.fromkeys(caveat for rig in self.rigs.values() if (caveat := rig.tracing.caveat) is not None))

    @property
    def notices(self) -> tuple[str, ...]:
        """What the user should know about builds and devices before they wait for the result."""
        return tuple(filter(None, (self.devices.notice, *_same_code(self.builds), *_left_out(self.skipped))))


def prepare(
    path: Path,
    overrides: Overrides,
    inherited_env: Mapping[str, str] = os.environ,
    *,
    refuse_ineffective: bool = True,
) -> PreparedSweep:
    """Check everything that a sweep needs.

    Args:
        path: An experiment's folder, or one of its placements.
        overrides: What the command line says.
        inherited_env: The environment that servers inherit.
        refuse_ineffective: Whether what llama-server would silently ignore is an error; else it is noted.

    Raises:
        ConfigError: The files, the options or the model are wrong; every problem with the files at once.
        MachineError: A build or the devices cannot do it.
    """
    return prepare_experiment(load_experiment(path, overrides), inherited_env, refuse_ineffective=refuse_ineffective)


def prepare_experiment(
    experiment: Experiment, inherited_env: Mapping[str, str] = os.environ, *, refuse_ineffective: bool = True
) -> PreparedSweep:
    """Check everything that an experiment needs which has been read, as `prepare` does."""
    settings = experiment.settings
    parts = by_build(experiment)
    used = find_used_builds(parts)
    plans = plan_same_devices(used, settings.devices, inherited_env)
    n_devices = len(next(iter(plans.values())).devices) - 1 or None
    vocabularies = {name: one.vocabulary for name, one in used.items()}
    if flag_problems := check_flags(experiment, vocabularies, n_devices):
        raise ConfigErrors(flag_problems)
    model = find_model(settings.model)
    rigs: dict[str, Rig] = {}
    specs: dict[str, TrialSpec] = {}
    predicted: dict[str, tuple[PlannedBuffer, ...] | None] = {}
    ineffective: dict[str, IneffectiveError] = {}
    skipped: dict[str, tuple[Caveat, ...]] = {}
    problems: list[ConfigError] = []
    for name, one in used.items():
        part = canonical(parts[name], one.vocabulary)
        rig = Rig(one.build, one.vocabulary, plans[name], model, plan_tracing(settings.splits, one.build))
        fits = _fits(part, rig, problems)
        own_specs = {one.name: _spec(part.settings, one, rig, fits[one.name], inherited_env) for one in part.placements}
        skipped |= {placement: fit.skipped for placement, fit in fits.items()}
        with collecting(problems):
            predicted |= _predict(part, rig, own_specs, None if refuse_ineffective else ineffective)
        rigs |= dict.fromkeys(own_specs, rig)
        specs |= own_specs
    if problems:
        raise ConfigErrors(_unique(problems))
    in_order = tuple(specs[one.name] for one in experiment.placements)
    return PreparedSweep(experiment, rigs, in_order, predicted, ineffective, skipped)


def _fits(part: Experiment, rig: Rig, problems: list[ConfigError]) -> dict[str, LevelFit]:
    """Return what each placement can be asked for; all of it where a problem keeps that from being told."""
    machine = machine_rig(rig.devices)
    fits = dict.fromkeys((one.name for one in part.placements), LevelFit(part.settings.workloads, ()))
    for placement in part.placements:
        with collecting(problems):
            fits[placement.name] = level_fit(
                part.settings,
                placement,
                rig.vocabulary,
                rig.model.header,
                machine,
                has_stand_ins=bool(rig.devices.stand_ins),
            )
    return fits


def _spec(
    settings: Settings, placement: Placement, rig: Rig, fit: LevelFit, inherited_env: Mapping[str, str]
) -> TrialSpec:
    defaults = measurement_flags(rig.vocabulary, fit.kept, bool(rig.devices.stand_ins))
    return TrialSpec(
        placement=placement.name,
        model=rig.model.fingerprint,
        model_path=str(rig.model.path),
        build=rig.build.identity,
        devices=rig.devices.identity,
        flags={**defaults, **effective_flags(settings, placement)},
        env=deciding_env(inherited_env, placement.env),
        workloads=fit.kept,
        repeat=settings.repeat,
        splits=rig.tracing.mode,
    )


def _predict(
    part: Experiment, rig: Rig, specs: Mapping[str, TrialSpec], ineffective: dict[str, IneffectiveError] | None
) -> dict[str, tuple[PlannedBuffer, ...] | None]:
    """Lay the model out as each placement asks.

    Args:
        part: Placements.
        rig: What they run on.
        specs: What is asked of each, by its name.
        ineffective: Gets what llama-server would silently ignore, by the placement's name; None to refuse that.

    Raises:
        ConfigErrors: Placements name devices, buffers or tensors that are not there.
    """
    problems: list[ConfigError] = []
    predicted: dict[str, tuple[PlannedBuffer, ...] | None] = {}
    machine = machine_rig(rig.devices)
    for placement in part.placements:
        flags, where = known_names(specs[placement.name].flags), partial(where_flag, part.settings, placement)
        with collecting(problems):
            unpredictable = split_mode_trap(rig.model.header, FlagReader(flags, where))
            predicted[placement.name] = None
            try:
                placed = None if unpredictable else lay_out(rig.model.header, flags, machine, where)
            except IneffectiveError as error:
                if ineffective is None:
                    raise
                ineffective[placement.name] = error
                continue
            predicted[placement.name] = placed.layout.buffers if placed is not None else None
    if problems:
        raise ConfigErrors(problems)
    return predicted


def _unique(problems: Iterable[ConfigError]) -> list[ConfigError]:
    """Return problems, each once: placements share those of their file and of `sweep.toml`."""
    return list({problem.message: problem for problem in problems}.values())


def _left_out(skipped: Mapping[str, Sequence[Caveat]]) -> Iterator[str]:
    """Yield a line for each level of a ladder that is left out, with the placements unless it is all of them."""
    placements: dict[Caveat, list[str]] = {}
    for placement, levels in skipped.items():
        for level in levels:
            placements.setdefault(level, []).append(placement)
    for level, names in placements.items():
        whose = "" if len(names) == len(skipped) else f" of {', '.join(names)}"
        yield f"left out{whose}: {level.message}: {level.remedy}"


def _same_code(builds: Iterable[Build]) -> Iterator[str]:
    """Yield a warning for each build that has another one's code, byte for byte, under a name of its own."""
    names: dict[str, str] = {}
    for build in builds:
        first = names.setdefault(build.identity, build.name)
        if first != build.name:
            yield f"builds {first!r} and {build.name!r} are the same code: comparing them would show noise alone"
