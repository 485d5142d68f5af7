"""Examines this machine: what it can run and measure, and what would spoil a measurement here."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from k3prof.collectors.bandwidth import Progress
from k3prof.collectors.gpu_state import driver_version, gpu_states
from k3prof.collectors.host_activity import watch
from k3prof.collectors.host_facts import host_facts
from k3prof.collectors.host_settings import host_settings
from k3prof.collectors.nvml import list_gpus
from k3prof.collectors.nvml_topology import gpu_paths
from k3prof.collectors.tick import observe_tick
from k3prof.collectors.visible_gpus import visible_gpus
from k3prof.core.device import Device
from k3prof.core.machine import gpu_checks, host_checks, rig_checks
from k3prof.core.machine.activity_checks import check_activity
from k3prof.core.machine.diagnosis import Diagnosis, Finding, Level, refusal, worst_first
from k3prof.core.machine.gpu import GpuState
from k3prof.core.machine.host import HostFacts, HostSettings
from k3prof.core.machine.host_bandwidth import HostBandwidth
from k3prof.core.machine.model_checks import FreeMemory, check_model
from k3prof.core.machine.rig_checks import BuildState, Obstacles, Space
from k3prof.core.machine.topology import check_paths
from k3prof.errors import K3profError, MachineError
from k3prof.llama.binding import check_binding
from k3prof.llama.build import PROGRAMS, find_build, is_unchanged, list_builds, missing_programs
from k3prof.llama.cache import cache_dir
from k3prof.llama.devices import DevicePlan, plan_devices
from k3prof.llama.toolchain import Definitions, find_toolchain
from k3prof.llama.unseen_flags import find_hidden_settings
from k3prof.workflows.bandwidth import known_bandwidth, measure
from k3prof.workflows.model_file import find_model

_WATCHED_S = 0.5
_STAND_IN_PROGRAM = "ggml-rpc-server"
_CUDA = "-DGGML_CUDA=ON"


def diagnose(
    build: str = "default",
    model: str | None = None,
    bandwidth: Progress | None = None,
    env: Mapping[str, str] = os.environ,
) -> Diagnosis:
    """Examine this machine; takes a second or two.

    Args:
        build: The build that a sweep would run.
        model: A model to hold against the memory that is free.
        bandwidth: Told how far measuring the memory's bandwidth is; nothing is measured when None.
        env: The environment.

    Raises:
        ConfigError: There is no such model.
        MachineError: The bandwidth was to be measured and cannot be.
    """
    model_bytes = None if model is None else find_model(model).header.n_bytes
    # Before anything else is started: what k3prof does itself must not be taken for other load.
    activity = watch(_WATCHED_S, PROGRAMS)
    facts, settings = host_facts(), host_settings()
    n_listed, gpus, lost = _gpus(env)
    states, paths = gpu_states(gpus), gpu_paths(gpus)
    measured, unread = _bandwidth(facts, settings, bandwidth)
    findings = [
        *lost,
        rig_checks.gpus(gpus, driver_version()),
        gpu_checks.without_driver(n_listed, settings.nvidia_on_bus) if not lost else None,
        *_rig(build, gpus, states, check_devices=not lost),
        *([] if model_bytes is None else [check_model(model_bytes, _free(facts, states))]),
        *gpu_checks.check_gpus(states),
        *check_paths(paths),
        *check_activity(activity, facts.cores_visible, facts.cpu_quota_cores, facts.load_average),
        *host_checks.check_host(facts, settings),
        host_checks.small_shared_memory(facts.shm_bytes, len(gpus)),
        *rig_checks.hidden_settings(find_hidden_settings(env)),
        *unread,
        rig_checks.host_bandwidth(measured) if not unread else None,
        host_checks.python_profile(facts, settings, _is_installed("py-spy")),
        host_checks.stand_ins(facts),
    ]
    told = worst_first(finding for finding in findings if finding is not None)
    return Diagnosis(told, facts, states, measured, paths)


def _gpus(env: Mapping[str, str]) -> tuple[int, Sequence[Device], list[Finding]]:
    """Return how many GPUs the driver lists, those that programs started from here see, and what went wrong."""
    try:
        listed = list_gpus()
        return len(listed), visible_gpus(listed, env), []
    except K3profError as error:
        return 0, (), [refusal("GPUs", error)]


def _rig(name: str, gpus: Sequence[Device], states: Sequence[GpuState], *, check_devices: bool) -> Iterator[Finding]:
    """Examine builds, the means to make them, the devices they drive, and what can be measured with them."""
    build, plan = None, None
    found: list[Finding] = []
    try:
        build = find_build(name)
        plan = plan_devices("auto", build, gpus) if check_devices else None
    except K3profError as error:
        found.append(refusal("build" if build is None else "devices", error))
    obstacles = Obstacles(
        compiling=_obstacle(lambda: find_toolchain(Definitions([]))),
        compiling_cuda=_obstacle(lambda: find_toolchain(Definitions([_CUDA]))) if gpus else None,
        loading_library=None if build is None else _obstacle(lambda: check_binding(build)),
        tick=_obstacle(_require_tick),
    )
    yield from rig_checks.toolchain(obstacles, has_build=not found, wants_cuda=bool(gpus))
    yield from found
    if build is not None:
        needed = {_STAND_IN_PROGRAM} if plan is None or plan.stand_ins else ()
        yield rig_checks.chosen_build(BuildState(build, missing_programs(build)), needed)
    yield from _other_builds(name)
    yield from _devices(plan, states, obstacles)
    if build is not None:
        yield rig_checks.split_tracer(build, obstacles)
        yield rig_checks.op_profile(obstacles)
    for place in _places(has_build=build is not None):
        if (finding := rig_checks.space(place)) is not None:
            yield finding


def _devices(plan: DevicePlan | None, states: Sequence[GpuState], obstacles: Obstacles) -> Iterator[Finding]:
    if plan is None:
        return
    yield rig_checks.devices(plan.devices, plan.notice)
    windows_ns = [state.busy_window_ns for state in states if state.busy_window_ns is not None]
    yield rig_checks.counters(max(windows_ns, default=None), obstacles)


def _other_builds(chosen: str) -> Iterator[Finding]:
    try:
        builds = list_builds()
    except MachineError as error:
        yield refusal("build", error, Level.NOTE)
        return
    for build in builds:
        if build.name != chosen:
            try:
                yield rig_checks.other_build(BuildState(build, missing_programs(build), is_unchanged(build)))
            except K3profError as error:
                yield refusal("build", error, Level.NOTE)


def _places(*, has_build: bool) -> Iterator[Space]:
    yield _space(Path("traces").absolute(), "traces", True, "run k3prof in a folder on another disk")
    yield _space(cache_dir(), "builds and demo models", not has_build, "set XDG_CACHE_HOME to a folder on another disk")


def _space(path: Path, holds: str, vital: bool, elsewhere: str) -> Space:
    exists = next(folder for folder in (path, *path.parents) if folder.exists())
    writable = exists.is_dir() and os.access(exists, os.W_OK)
    return Space(str(path), holds, shutil.disk_usage(exists).free, writable, vital, elsewhere)


def _bandwidth(
    facts: HostFacts, settings: HostSettings, progress: Progress | None
) -> tuple[HostBandwidth | None, list[Finding]]:
    if progress is not None:
        return measure(facts, settings, progress), []
    try:
        return known_bandwidth(facts), []
    except MachineError as error:
        return None, [refusal("bandwidth", error, Level.NOTE)]


def _free(facts: HostFacts, states: Sequence[GpuState]) -> FreeMemory:
    return FreeMemory(facts.memory_available_bytes, [(state.name, state.free_bytes) for state in states])


def _obstacle(attempt: Callable[[], object]) -> K3profError | None:
    try:
        attempt()
    except K3profError as error:
        return error
    return None


def _require_tick() -> None:
    if observe_tick() is None:
        raise MachineError(
            "the scheduler's tick does not show: too much runs here, or a sandbox emulates the kernel",
            "look again when nothing else runs; else processor time of stand-ins is coarser than 5 ms",
        )


def _is_installed(program: str) -> bool:
    beside = Path(sys.executable).with_name(program)
    return os.access(beside, os.X_OK) or shutil.which(program) is not None
