"""Libraries in the place of libllama and libggml-base, for what the real ones do only in another version."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from k3prof.core.build import Build

_BOUND = re.compile(r'@ctypes_function\(\s*"(\w+)"|_lib\.(\w+)\.argtypes')


def compile_library(folder: Path, name: str, source: str) -> Path:
    """Compile a shared library from C."""
    code, library = folder / f"{name}.c", folder / f"lib{name}.so"
    code.write_text(source)
    subprocess.run(["cc", "-shared", "-fPIC", "-w", "-o", library, code], check=True)
    return library


def other_libllama(folder: Path, real: Build, bodies: Mapping[str, str]) -> Build:
    """Return a build whose libllama has every function that llama-cpp-python binds, and does nothing.

    Args:
        folder: An empty folder for it.
        real: The build whose other libraries it gets.
        bodies: Functions that do something, with their bodies in C; without one a function is left out.
    """
    for library in Path(real.bin_dir).glob("libggml*.so*"):
        shutil.copy(library, folder, follow_symlinks=False)
    package = importlib.util.find_spec("llama_cpp")
    assert package is not None
    assert package.origin is not None
    bound = _BOUND.findall(Path(package.origin).with_name("llama_cpp.py").read_text())
    names = {name for pair in bound for name in pair if name}
    assert len(names) > 100
    functions = (f"long {name}(void) {{ {bodies.get(name, 'return 0;')} }}" for name in sorted(names))
    kept = (line for line in functions if not line.endswith("{  }"))
    compile_library(folder, "llama", "#include <stdlib.h>\n" + "\n".join(kept))
    return Build("other", str(folder), "", "", "", (), "registered", "", True)
