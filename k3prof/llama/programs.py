"""Run one of llama.cpp's programs that answers and ends (`--version`, `--help`), and say plainly why it does not."""

from __future__ import annotations

import errno
import os
import platform
import signal
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

from k3prof.errors import ConfigError, MachineError

_ELF_MACHINES = {3: "i686", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
_MAKE_ONE_HERE = "make a build on this machine: `k3prof build`"


def clean_environment() -> dict[str, str]:
    """Return our environment without what would set llama.cpp's flags behind our back."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LLAMA_")}
    # llama.cpp applies `$XDG_CONFIG_HOME/llama.cpp/config.ini` silently; nothing can lie below a file.
    return {**kept, "XDG_CONFIG_HOME": os.devnull}


def ask(
    program: Path, *arguments: str, env: Mapping[str, str] | None = None, patience_s: float = 120
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end and return what it said.

    Args:
        program: The program.
        arguments: Its arguments.
        env: Its whole environment; `clean_environment()` when None.
        patience_s: How long it may take: a CUDA build first wakes the GPUs.

    Raises:
        ConfigError: It is not there, or not a program.
        MachineError: It does not run on this machine, or fails.
    """
    try:
        done = subprocess.run(
            [program, *arguments],
            env=clean_environment() if env is None else env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MachineError(
            f"{program} {' '.join(arguments)}: no answer within {patience_s:g} s", "run it by hand to see what it does"
        ) from error
    except OSError as error:
        raise _not_started(program, error) from error
    if done.returncode != 0:
        raise _failed(program, done)
    return done


def _not_started(program: Path, error: OSError) -> ConfigError | MachineError:
    if error.errno == errno.ENOEXEC:
        return _foreign(program)
    if isinstance(error, PermissionError):
        return ConfigError(f"{program}: not an executable file", f"chmod +x {program}, or name another build")
    if isinstance(error, FileNotFoundError) and program.is_file():
        return MachineError(
            f"{program}: the dynamic loader that it asks for is not on this machine: it was built for another Linux",
            _MAKE_ONE_HERE,
        )
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return ConfigError(f"{program}: no such program", "give the folder that holds a build's programs")
    return MachineError(f"{program}: {error.strerror}")


def _foreign(program: Path) -> ConfigError | MachineError:
    with program.open("rb") as file:
        header = file.read(20)
    if len(header) < 20 or header[:4] != b"\x7fELF":
        return ConfigError(f"{program}: not a program", "give the folder that holds a build's programs")
    # e_machine, in the byte order that byte 5 names.
    (machine,) = struct.unpack_from("<H" if header[5] == 1 else ">H", header, 18)
    made_for = _ELF_MACHINES.get(machine, f"another processor architecture (ELF machine {machine})")
    return MachineError(f"{program}: made for {made_for}, this machine is {platform.machine()}", _MAKE_ONE_HERE)


def _failed(program: Path, done: subprocess.CompletedProcess[str]) -> MachineError:
    if done.returncode == -signal.SIGILL:
        return MachineError(
            f"{program}: it uses instructions that this processor lacks: it was built for another one",
            f"{_MAKE_ONE_HERE}; one that runs on both: `k3prof build --cmake GGML_NATIVE=OFF`",
        )
    said = [line.strip() for line in f"{done.stdout}\n{done.stderr}".splitlines() if line.strip()]
    last = printable(said[-1]) if said else "it printed nothing"
    if done.returncode < 0:
        return MachineError(f"{program}: crashed with {_signal_name(-done.returncode)}: {last}")
    if "error while loading shared libraries" in last:
        return MachineError(last, "keep a build's libraries beside its programs, or set LD_LIBRARY_PATH")
    if "not found (required by" in last:
        return MachineError(f"{last}: it was built for a newer Linux", _MAKE_ONE_HERE)
    return MachineError(f"{program}: failed with exit code {done.returncode}: {last}")


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def printable(text: str) -> str:
    """Return a line of a program's output without what a terminal would obey."""
    return "".join(character for character in text.expandtabs() if character.isprintable())
