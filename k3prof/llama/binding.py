"""llama-cpp-python on top of a build: Python code that calls the very libllama which the build's servers run."""

from __future__ import annotations

import sys
from pathlib import Path

from k3prof.core.build import Build
from k3prof.errors import MachineError
from k3prof.llama.programs import ask, clean_environment

_INSTALL = "`make setup` installs it along with k3prof"
# The library crashes rather than raises when it does not fit, so a process of its own finds out.
_LOAD = """
try:
    import llama_cpp
    llama_cpp.llama_backend_init()
except ModuleNotFoundError as error:
    print("missing", error.name)
except Exception as error:
    print("refused", " ".join(str(error).split()))
else:
    print("loaded")
"""


def check_binding(build: Build) -> None:
    """Make sure that llama-cpp-python is here and loads a build's libllama.

    Raises:
        MachineError: It is not, or does not.
    """
    env = {**clean_environment(), "LLAMA_CPP_LIB_PATH": build.bin_dir, "CUDA_VISIBLE_DEVICES": "-1"}
    try:
        said = ask(Path(sys.executable), "-P", "-c", _LOAD, env=env).stdout.strip().rpartition("\n")[2]
    except MachineError as error:
        said = f"refused {error.message}"
    verdict, _, detail = said.partition(" ")
    if verdict == "missing":
        raise MachineError(f"Python module {detail} is missing: single operations cannot be timed", _INSTALL)
    if verdict != "loaded":
        raise MachineError(
            f"llama-cpp-python does not load libllama of build {build.name!r}: {detail}",
            "make a build of the version that it is made for: `k3prof build`",
        )
