"""Starts the process in which llama-cpp-python times a model's passes node by node, and says plainly why it failed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from k3prof.core.build import Build
from k3prof.core.ops.op_record import OpRecord, OpRequest
from k3prof.errors import ConfigError, K3profError, MachineError
from k3prof.llama.binding import check_binding
from k3prof.llama.child import spawn, terminate
from k3prof.llama.failures import classify, named_failure
from k3prof.llama.programs import clean_environment, printable

_RECORDER = "k3prof.llama.op_recorder"
_RECORDS = TypeAdapter(tuple[OpRecord, ...])
_BINDING = "llama-cpp-python"


@dataclass(frozen=True)
class Progress:
    """How far the recorder is.

    Attributes:
        stage: `loading`, `prefill` or `decode`.
        done: Steps of it that are done.
        total: All its steps; 0 when it cannot tell.
    """

    stage: str
    done: int
    total: int


@dataclass(frozen=True)
class _Said:
    """What the recorder said last."""

    progress: Progress = Progress("starting", 0, 0)
    refused: str = ""
    message: str = ""


def record_ops(
    build: Build, model: Path, request: OpRequest, on_progress: Callable[[Progress], None] = lambda _: None
) -> tuple[OpRecord, ...]:
    """Time a model's passes in a process of their own.

    Args:
        build: The build whose libllama computes.
        model: The model's file, or the first of its shards.
        request: What to time.
        on_progress: Called as it goes on.

    Returns:
        One record per kind of pass: a prompt, if one was asked for, then single tokens.

    Raises:
        ConfigError: An override has a value that the library cannot hold.
        MachineError: llama-cpp-python is missing, does not fit the build, or the library does not take the model.
    """
    check_binding(build)
    with tempfile.TemporaryDirectory(prefix="k3prof-ops-") as name:
        folder = Path(name)
        spec = {"model": str(model), "request": asdict(request)}
        (folder / "request.json").write_text(json.dumps(spec))
        code, said = _run(build, folder, on_progress)
        if code != 0:
            raise _failure(build, model, code, said, (folder / "log").read_text(errors="replace"))
        try:
            return _RECORDS.validate_json((folder / "record.json").read_bytes())
        except (OSError, ValidationError) as error:
            raise K3profError(f"the recorder of single operations left no record: {error}") from error


def _run(build: Build, folder: Path, on_progress: Callable[[Progress], None]) -> tuple[int, _Said]:
    env = {**clean_environment(), "LLAMA_CPP_LIB_PATH": build.bin_dir}
    # It finds the modules that we do, wherever they are.
    env["PYTHONPATH"] = os.pathsep.join(filter(None, [env.get("PYTHONPATH"), *sys.path]))
    argv = [sys.executable, "-P", "-m", _RECORDER, str(folder)]
    said = _Said()
    with (folder / "log").open("wb") as log:
        process = spawn(argv, env=env, stdout=subprocess.PIPE, stderr=log)
    try:
        for line in process.stdout or ():
            said = _read(line, said)
            on_progress(said.progress)
        return process.wait(), said
    finally:
        terminate(process)


def _read(line: bytes, before: _Said) -> _Said:
    told = json.loads(line)
    if "refused" in told:
        return _Said(before.progress, told["refused"], told["message"])
    return _Said(Progress(told["stage"], told["done"], told["total"]))


def _failure(build: Build, model: Path, code: int, said: _Said, log: str) -> K3profError:
    library, binding = f"libllama of build {build.name!r}", f"{_BINDING} {version(_BINDING)}"
    cause = named_failure(log)
    why = cause.message if cause is not None else _last_line(log)
    doing = said.progress.stage
    if code < 0 and code != -signal.SIGKILL:
        return MachineError(
            f"{model}: {library} crashed while {doing}: {classify(log, code).message}",
            f"it may be of another version than {binding} is made for; `k3prof build` makes that one",
        )
    if code < 0 and cause is None:
        why = classify(log, code).message
    refusals: dict[str, K3profError] = {
        "override": ConfigError(f"--override-kv: {said.message}"),
        "model": MachineError(f"{model}: {library} does not load it: {why}"),
        "context": MachineError(f"{model}: {library} makes no context for it: {why}"),
        "pass": MachineError(f"{model}: {library} fails: {said.message}: {why}"),
        "version": MachineError(
            f"build {build.name!r}: its libllama is of another version than {binding} is made for: {said.message}",
            "make a build of the version that it is made for: `k3prof build`",
        ),
    }
    failed = MachineError(f"{model}: timing single operations failed while {doing}: {why}")
    return refusals.get(said.refused, failed)


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    return printable(lines[-1]) if lines else "it printed nothing"
