"""NVIDIA's management library as a shared object that follows a script, for processes that load it themselves."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

_SOURCE = Path(__file__).with_suffix(".c")
_NAME = "libnvidia-ml.so.1"


@dataclass(frozen=True)
class ScriptedLibrary:
    """The library, built, with a script to follow.

    Attributes:
        folder: Where it lies under the name by which it is loaded.
        script: The file that it reads when it starts.
    """

    folder: Path
    script: Path

    @property
    def env(self) -> dict[str, str]:
        """What a process needs in its environment to load it."""
        return {"LD_LIBRARY_PATH": str(self.folder), "K3PROF_NVML_SCRIPT": str(self.script)}


def gpu(uuid: str, bus: int, *lines: str) -> str:
    """Return the part of a script that is about one GPU; the words are those of `nvml_library.c`."""
    return "\n".join([f"gpu {uuid} {bus}", *lines])


def built(folder: Path, gpus: Sequence[str]) -> ScriptedLibrary:
    """Build the library into a folder and write its script; skip the test where there is no C compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to build the double of NVIDIA's library with")
    flags = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", "-pthread", f"-Wl,-soname,{_NAME}"]
    subprocess.run([compiler, *flags, "-o", str(folder / _NAME), str(_SOURCE)], check=True)
    script = folder / "gpus.txt"
    script.write_text("\n".join(gpus) + "\n")
    return ScriptedLibrary(folder, script)
