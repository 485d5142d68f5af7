"""Make, register and list llama.cpp builds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from k3prof.core.build import Build, BuildProgress
from k3prof.errors import ConfigError
from k3prof.llama import build as llama_build
from k3prof.llama.compile import BuildFailedError, make_build

__all__ = ["BuildFailedError", "build", "list_builds", "with_missing"]


def build(
    name: str,
    *,
    use: Path | None = None,
    source: Path | None = None,
    cmake: Sequence[str] = (),
    cuda: bool = False,
    progress: Callable[[BuildProgress], None] = lambda _: None,
) -> Build:
    """Compile a build, or register one that exists.

    Args:
        name: What it is to be called.
        use: Where an existing one lies; compile when None.
        source: The llama.cpp to compile; the pinned one when None.
        cmake: Definitions for CMake.
        cuda: Whether to compile for NVIDIA GPUs.
        progress: Told how far it is.

    Raises:
        ConfigError: The options contradict each other or name what is not there.
        MachineError: Something is missing on this machine, or compiling fails (`BuildFailedError`).
    """
    if use is None:
        return make_build(source, cmake, cuda, name, progress)
    if source is not None or cmake or cuda:
        raise ConfigError(
            "--use registers a build as it is: --source, --cmake and --cuda do not go with it",
            "leave --use out to compile one",
        )
    return llama_build.use_build(use, name)


def list_builds() -> list[Build]:
    """Return the registered builds, by name.

    Raises:
        MachineError: A record cannot be read.
    """
    return llama_build.list_builds()


def with_missing(builds: Iterable[Build]) -> list[tuple[Build, tuple[str, ...]]]:
    """Return each build with those of llama.cpp's programs that it lacks."""
    return [(build, llama_build.missing_programs(build)) for build in builds]
