"""The builds that an experiment's placements run on: each found and asked for its flags, all shown the same devices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from k3prof.collectors.nvml import list_gpus
from k3prof.collectors.visible_gpus import visible_gpus
from k3prof.core.build import Build
from k3prof.core.experiment import Experiment
from k3prof.core.flags import FlagVocabulary
from k3prof.errors import ConfigError, ConfigErrors, K3profError, MachineError
from k3prof.llama.build import find_build
from k3prof.llama.devices import DevicePlan, plan_devices
from k3prof.llama.flag_help import read_vocabulary
from k3prof.store.toml_file import collecting


@dataclass(frozen=True)
class UsedBuild:
    """A build that placements run on.

    Attributes:
        build: The build.
        vocabulary: The flags that it understands.
    """

    build: Build
    vocabulary: FlagVocabulary


def find_used_build(name: str, part: Experiment) -> UsedBuild:
    """Return a build by its name.

    Args:
        name: As an experiment gives it: a registered name, or a folder.
        part: The placements that run on it, of which one may have named it.

    Raises:
        ConfigError: There is no such build; the message says which file asked for it.
        MachineError: It is gone, was changed, or does not run on this machine; likewise.
    """
    try:
        build = find_build(name)
        return UsedBuild(build, read_vocabulary(Path(build.bin_dir)))
    except K3profError as error:
        asking = next((placement for placement in part.placements if placement.build is not None), None)
        if asking is None:
            raise
        raise type(error)(f"{asking.file}: build: {error.message}", error.hint) from error


def find_used_builds(parts: Mapping[str, Experiment]) -> dict[str, UsedBuild]:
    """Return every build that an experiment uses, by its name.

    Raises:
        ConfigErrors: Some of them are not there.
        MachineError: One is gone, was changed, or does not run on this machine.
    """
    problems: list[ConfigError] = []
    used = {}
    for name, part in parts.items():
        with collecting(problems):
            used[name] = find_used_build(name, part)
    if problems:
        raise ConfigErrors(problems)
    return used


def plan_same_devices(
    used: Mapping[str, UsedBuild], devices: str, inherited_env: Mapping[str, str]
) -> dict[str, DevicePlan]:
    """Plan the devices for each build; placements can only be compared on the same ones.

    Args:
        used: The builds by their names, at least one.
        devices: `auto`, `rpc:N` or `cpu`.
        inherited_env: Our environment.

    Raises:
        ConfigError: `devices` is none of these.
        MachineError: A build cannot use the GPUs that are here, or sees other devices than another.
    """
    gpus = visible_gpus(list_gpus(), inherited_env)
    plans = {name: plan_devices(devices, one.build, gpus) for name, one in used.items()}
    (first_name, first), *others = plans.items()
    for name, plan in others:
        if plan.identity != first.identity:
            raise MachineError(
                f"build {first_name!r} sees {_listed(first)}, build {name!r} sees {_listed(plan)}: their placements "
                "cannot be compared",
                "run them on what both see, for instance --devices rpc:3; `k3prof doctor` compares the GPUs",
            )
    return plans


def _listed(plan: DevicePlan) -> str:
    return ", ".join(device.name for device in plan.devices)
