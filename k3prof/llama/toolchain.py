"""The programs that compile llama.cpp: found, identified, and their absence said before anything is started."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from k3prof.errors import ConfigError, MachineError
from k3prof.llama.programs import printable

_OFF = frozenset({"", "0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND"})
"""CMake's false constants."""

_COMPILER_MEMORY_BYTES = 2**30
_CUDA_COMPILER_MEMORY_BYTES = 3 * 2**30
"""What one compiler takes at most for llama.cpp's largest files."""

_INSTALL_COMPILER = "install a C++ compiler: `apt install build-essential`, or `dnf install gcc-c++`"
_INSTALL_CUDA = "install the CUDA toolkit and put nvcc on the PATH, or name it with CUDACXX"


@dataclass(frozen=True)
class Toolchain:
    """What a build is compiled with.

    Attributes:
        cmake: CMake.
        ninja: Ninja.
        identity: What each compiler says about itself: other compilers, other code.
        env: Variables that tell CMake about them.
    """

    cmake: str
    ninja: str
    identity: tuple[str, ...]
    env: Mapping[str, str] = field(default_factory=dict)


class Definitions:
    """CMake's `-D` options; of two with one name the later holds, as in CMake."""

    def __init__(self, flags: Iterable[str]) -> None:
        pairs = (flag.removeprefix("-D").partition("=") for flag in flags)
        self._values = {name.partition(":")[0]: value for name, _, value in pairs}

    def get(self, name: str) -> str | None:
        """Return a definition's value, or None."""
        return self._values.get(name)

    def is_on(self, name: str, default: bool) -> bool:
        """Return whether CMake takes a definition for true."""
        value = self.get(name)
        return default if value is None else value.upper() not in _OFF and not value.upper().endswith("-NOTFOUND")

    @property
    def is_cuda(self) -> bool:
        """Whether the build is to use NVIDIA GPUs."""
        return self.is_on("GGML_CUDA", default=False)

    @property
    def is_native(self) -> bool:
        """Whether the code is made for this machine's processor and GPUs only."""
        return self.is_on("GGML_NATIVE", default=True)


def find_toolchain(definitions: Definitions) -> Toolchain:
    """Find what a build needs.

    Raises:
        ConfigError: A compiler that the user names is not there.
        MachineError: A program is missing on this machine.
    """
    compilers = [
        _c_compiler(definitions),
        _compiler(definitions, "CMAKE_CXX_COMPILER", "CXX", ("c++", "g++", "clang++")),
    ]
    env = {}
    if definitions.is_cuda:
        nvcc = _nvcc(definitions)
        env["CUDACXX"] = nvcc[0]
        compilers.append(nvcc)
    identity = [_first_answer(compiler) for compiler in compilers]
    if definitions.is_cuda:
        identity += _gpu_architectures(definitions)
    return Toolchain(_build_tool("cmake"), _build_tool("ninja"), tuple(identity), env)


def jobs(is_cuda: bool) -> int | None:
    """Return how many compilers may run at once for want of memory, or None where ninja may decide by processors."""
    each_bytes = _CUDA_COMPILER_MEMORY_BYTES if is_cuda else _COMPILER_MEMORY_BYTES
    affordable = max(1, psutil.virtual_memory().available // each_bytes)
    # Ninja's own choice: the processors that it may use, and two more.
    return affordable if affordable < len(os.sched_getaffinity(0)) + 2 else None


def c_compiler() -> tuple[list[str], str]:
    """Return the C compiler's command, and what it says about itself.

    Raises:
        ConfigError: The one that CC names is not there.
        MachineError: There is none on this machine, or it does not run.
    """
    command = _c_compiler(Definitions(()))
    return command, _first_answer(command)


def _c_compiler(definitions: Definitions) -> list[str]:
    return _compiler(definitions, "CMAKE_C_COMPILER", "CC", ("cc", "gcc", "clang"))


def _build_tool(name: str) -> str:
    # Their Python packages put them beside the interpreter, on the PATH or not.
    beside = Path(sys.executable).with_name(name)
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which(name)
    if found is None:
        raise MachineError(f"{name} is missing, which builds llama.cpp", f"`pip install {name}`")
    return found


def _compiler(definitions: Definitions, definition: str, variable: str, usual: Sequence[str]) -> list[str]:
    named = definitions.get(definition) or os.environ.get(variable, "")
    if named:
        command = shlex.split(named)
        if command and (program := shutil.which(command[0])):
            return [program, *command[1:]]
        where = f"--cmake {definition}" if definitions.get(definition) else variable
        raise ConfigError(f"{where}: {printable(named)}: no such compiler", _INSTALL_COMPILER)
    found = next(filter(None, map(shutil.which, usual)), None)
    if found is None:
        language = "C" if variable == "CC" else "C++"
        raise MachineError(f"no {language} compiler here: looked for {', '.join(usual)}", _INSTALL_COMPILER)
    return [found]


def _nvcc(definitions: Definitions) -> list[str]:
    named = definitions.get("CMAKE_CUDA_COMPILER") or os.environ.get("CUDACXX", "")
    toolkits = [os.environ.get(variable, "") for variable in ("CUDAToolkit_ROOT", "CUDA_HOME", "CUDA_PATH")]
    beside = [f"{toolkit}/bin/nvcc" for toolkit in (*toolkits, "/usr/local/cuda") if toolkit]
    candidates = [named] if named else ["nvcc", *beside]
    found = next(filter(None, map(shutil.which, candidates)), None)
    if found is None:
        raise MachineError(f"no CUDA compiler here: looked for {', '.join(map(printable, candidates))}", _INSTALL_CUDA)
    return [found]


def _gpu_architectures(definitions: Definitions) -> list[str]:
    """Return what the GPUs here are, if that decides what is compiled."""
    if definitions.get("CMAKE_CUDA_ARCHITECTURES") or not definitions.is_native:
        return []
    found = sorted(set(_lines(["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"])))
    if not found:
        raise MachineError(
            "no NVIDIA GPU is visible here, so it is not known for which to compile",
            "name it: `--cmake CMAKE_CUDA_ARCHITECTURES=86` is an A40",
        )
    return [f"compute capability {capability}" for capability in found]


def _first_answer(compiler: Sequence[str]) -> str:
    lines = _lines([*compiler, "--version"])
    if not lines:
        raise MachineError(f"{compiler[0]} --version says nothing: it does not run here", _INSTALL_COMPILER)
    # nvcc's first line names no version.
    return next((line for line in lines if "release" in line), lines[0])


def _lines(argv: Sequence[str]) -> list[str]:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=60, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return []
    return [line.strip() for line in done.stdout.splitlines() if line.strip()]
