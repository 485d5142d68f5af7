"""What a machine can run and measure: builds, devices, grains of evidence, and what is set behind the user's back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from k3prof.core.build import Build
from k3prof.core.device import Device
from k3prof.core.machine.diagnosis import Finding, Level, gigabytes, listed, refusal
from k3prof.core.machine.host_bandwidth import HostBandwidth
from k3prof.errors import K3profError

_LITTLE_SPACE_BYTES = 2**30
_VARIABLES_SHOWN = 4
_STEADY_FRAC = 0.1


@dataclass(frozen=True)
class BuildState:
    """A build as it lies on this machine now.

    Attributes:
        build: What it was when it was described.
        missing: Programs that it lacks.
        unchanged: Whether its code is still the same.
    """

    build: Build
    missing: tuple[str, ...] = ()
    unchanged: bool = True


@dataclass(frozen=True)
class Obstacles:
    """Why something cannot be done here; None where it can.

    Attributes:
        compiling: Compiling a build.
        compiling_cuda: Compiling one for NVIDIA GPUs.
        loading_library: Loading the build's libllama into Python.
        tick: Seeing the scheduler's tick.
    """

    compiling: K3profError | None = None
    compiling_cuda: K3profError | None = None
    loading_library: K3profError | None = None
    tick: K3profError | None = None


@dataclass(frozen=True)
class HiddenSettings:
    """What sets flags of llama-server without showing on its command line.

    Attributes:
        system_file: The configuration file for everybody; None when there is none.
        user_file: The user's own.
        variables: Environment variables.
    """

    system_file: str | None = None
    user_file: str | None = None
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Space:
    """A folder that k3prof writes to.

    Attributes:
        path: Where it is, or will be.
        holds: What it is for.
        free_bytes: Space left there.
        writable: Whether this user may write there.
        vital: Whether a sweep cannot do without.
        elsewhere: How to choose another.
    """

    path: str
    holds: str
    free_bytes: int
    writable: bool
    vital: bool
    elsewhere: str


def chosen_build(state: BuildState, needed: Collection[str]) -> Finding:
    """The build that a sweep would run, and the programs of it that the devices need."""
    build = state.build
    if state.missing:
        return Finding(
            Level.PROBLEM if set(needed) & set(state.missing) else Level.NOTE,
            "build",
            f"{build.name} lacks {listed(state.missing)}",
            "make a whole one with `k3prof build`, or register another with `k3prof build --use PATH`",
        )
    kind = "shared libraries" if build.shared_libraries else "static"
    return Finding(Level.OK, "build", f"{build.name}: llama.cpp {build.version}, unchanged, {kind}")


def other_build(state: BuildState) -> Finding:
    """A build that a sweep can be told to run."""
    build = state.build
    if state.unchanged and not state.missing:
        return Finding(Level.OK, "build", f"{build.name}: llama.cpp {build.version}, unchanged")
    wrong = "its files were changed or are gone" if not state.unchanged else f"it lacks {listed(state.missing)}"
    return Finding(Level.NOTE, "build", f"{build.name}: {wrong}", "make it again, or register it again: `k3prof build`")


def toolchain(obstacles: Obstacles, *, has_build: bool, wants_cuda: bool) -> Iterator[Finding]:
    """What is missing to compile llama.cpp; a problem only where there is no build to run.

    Args:
        obstacles: What stands in the way.
        has_build: Whether a build is here that drives the devices.
        wants_cuda: Whether GPUs are here.
    """
    level = Level.NOTE if has_build else Level.PROBLEM
    if obstacles.compiling is not None:
        yield refusal("compiler", obstacles.compiling, level)
    elif wants_cuda and obstacles.compiling_cuda is not None:
        yield refusal("compiler", obstacles.compiling_cuda, level)
    else:
        yield Finding(Level.OK, "compiler", "llama.cpp can be compiled" + (", for CUDA too" if wants_cuda else ""))


def devices(found: Sequence[Device], notice: str) -> Finding:
    """The devices that `auto` means here."""
    return Finding(Level.OK, "devices", notice or f"auto is {', '.join(device.name for device in found)}")


def gpus(visible: Sequence[Device], driver: str | None) -> Finding | None:
    """The GPUs that programs started from here see, and the version of their driver."""
    if not visible:
        return None
    alike = Counter((gpu.description or "GPU", _memory(gpu)) for gpu in visible)
    said = listed([f"{count} × {kind} with {memory}" for (kind, memory), count in alike.items()])
    return Finding(Level.OK, "GPUs", f"{said}; driver {driver or 'unknown'}")


def split_tracer(build: Build, obstacles: Obstacles) -> Finding:
    """Whether calls between llama.cpp's libraries can be watched from a small library compiled here."""
    if not build.shared_libraries:
        return Finding(
            Level.NOTE,
            "splits",
            f"build {build.name} is static: its graph splits cannot be traced",
            "make one with shared libraries: `k3prof build`",
        )
    if obstacles.compiling is not None:
        return Finding(
            Level.NOTE,
            "splits",
            f"graph splits cannot be traced: {obstacles.compiling.message}",
            obstacles.compiling.hint,
        )
    return Finding(Level.OK, "splits", "graph splits can be traced: shared libraries and a C compiler")


def op_profile(obstacles: Obstacles) -> Finding:
    """Whether the build's libllama loads into Python."""
    if obstacles.loading_library is not None:
        return refusal("ops", obstacles.loading_library, Level.NOTE)
    return Finding(Level.OK, "ops", "single operations can be timed: llama-cpp-python loads the build's libllama")


def counters(gpu_window_ns: int | None, obstacles: Obstacles) -> Finding:
    """The grain of evidence that is always on."""
    if gpu_window_ns is not None:
        return Finding(
            Level.OK, "counters", f"of GPUs: busy share over {gpu_window_ns / 1e6:.0f} ms, memory, power; of the host"
        )
    if obstacles.tick is not None:
        return refusal("counters", obstacles.tick, Level.NOTE)
    return Finding(Level.OK, "counters", "of stand-ins: processor time at every scheduler tick; of the host")


def hidden_settings(hidden: HiddenSettings) -> Iterator[Finding]:
    """What a server obeys though nobody sees it."""
    if hidden.system_file is not None:
        yield Finding(
            Level.WARNING,
            "hidden flags",
            f"every llama-server here obeys {hidden.system_file} before its own flags, and no command line shows it",
            f"sudo mv {hidden.system_file} {hidden.system_file}.off",
        )
    if hidden.user_file is not None:
        yield Finding(
            Level.NOTE,
            "hidden flags",
            f"{hidden.user_file} sets flags of servers that you start by hand; k3prof's ignore it",
            "write what you want measured under [flags] in sweep.toml",
        )
    if hidden.variables:
        yield Finding(
            Level.NOTE,
            "hidden flags",
            f"k3prof drops {listed(hidden.variables, _VARIABLES_SHOWN)} from the environment",
            "write what you want measured under [flags] in sweep.toml",
        )


def space(place: Space) -> Finding | None:
    """Whether there is room for what is written."""
    if not place.writable:
        level = Level.PROBLEM if place.vital else Level.NOTE
        return Finding(level, "disk", f"{place.path}: {place.holds} cannot be written there", place.elsewhere)
    if place.free_bytes >= _LITTLE_SPACE_BYTES:
        return None
    return Finding(
        Level.WARNING,
        "disk",
        f"{place.path}: {gigabytes(place.free_bytes)} are left for {place.holds}",
        f"make space, or {place.elsewhere}",
    )


def host_bandwidth(measured: HostBandwidth | None) -> Finding:
    """Whether the host's part of a ceiling is known."""
    if measured is None:
        return Finding(
            Level.NOTE,
            "bandwidth",
            "how fast the host's memory is read has not been measured: ceilings of what runs there are unknown",
            "k3prof doctor --bandwidth takes some seconds",
        )
    threads = measured.plateau.threads
    said = f"host memory: {measured.best.gb_per_s:.1f} GB/s (measured), {threads} thread{'s' * (threads > 1)} reach it"
    spread = 1 - min(measured.best.rounds_gb_per_s) / measured.best.gb_per_s
    if spread > _STEADY_FRAC:
        return Finding(
            Level.NOTE,
            "bandwidth",
            f"{said}; but its rounds differ by {spread:.0%}",
            "measure again when nothing else runs: k3prof doctor --bandwidth",
        )
    return Finding(Level.OK, "bandwidth", said)


def _memory(device: Device) -> str:
    return "unknown memory" if device.memory_bytes is None else gigabytes(device.memory_bytes)
