"""Times the passes of a model node by node, in a process of its own: `python -m k3prof.llama.op_recorder FOLDER`.

`request.json` in the folder says what to do, `record.json` is what was measured. On stdout goes how far it is, one JSON
object a line; all that the library prints goes to stderr.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from pydantic import TypeAdapter

from k3prof.core.ops.op_graph import OpNode, place_nodes, stretches
from k3prof.core.ops.op_record import OpRecord, OpRequest, TimedPasses, Timing
from k3prof.core.weights.model import Model
from k3prof.llama.eval_callback import EvalCallback, GraphChangedError
from k3prof.llama.ggml_tensor import LayoutError, TensorReader
from k3prof.llama.gguf import read_model
from k3prof.llama.libllama import Context, LibraryError, LoadedModel, start

RECORDS: TypeAdapter[tuple[OpRecord, ...]] = TypeAdapter(tuple[OpRecord, ...])

_UNTIMED_PASSES = 2
"""Before a graph is described: the first passes fault pages in and set caches up."""
_IDLE_PASSES = 2
_PROMPT_PASSES = 9
_CONTEXT_STEP = 256
_LEAST_BATCH = 512


@dataclass
class _Timed:
    """Passes of one timing, as they come."""

    plain_ns: list[int] = field(default_factory=list)
    whole_ns: list[int] = field(default_factory=list)
    computed_ns: list[tuple[int, ...]] = field(default_factory=list)

    def finished(self) -> TimedPasses:
        return TimedPasses(tuple(self.plain_ns), tuple(self.whole_ns), tuple(self.computed_ns))


class _Arms:
    """The same passes in two contexts, of which one has the callback."""

    def __init__(self, model: LoadedModel, request: OpRequest, callback: EvalCallback) -> None:
        size = -(-_tokens_needed(request) // _CONTEXT_STEP) * _CONTEXT_STEP
        batch = min(max(request.prompt, _LEAST_BATCH), size)
        self.plain = Context(model, size, batch, request.threads)
        self.traced = Context(model, size, batch, request.threads, callback)
        self.callback = callback

    def clear(self) -> None:
        self.plain.clear()
        self.traced.clear()

    def forward(self, tokens: Sequence[int], *, traced_first: bool = False) -> tuple[int, int]:
        """Compute a pass in both and return how long each took, in ns: without the callback, and with it."""
        if traced_first:
            traced_ns = self.traced.forward(tokens)
            return self.plain.forward(tokens), traced_ns
        return self.plain.forward(tokens), self.traced.forward(tokens)


def record(model: Model, path: Path, request: OpRequest, tell: Callable[..., None]) -> tuple[OpRecord, ...]:
    """Time what is asked for.

    Raises:
        LibraryError: The library refuses.
        GraphChangedError: Passes of one kind are not alike.
        LayoutError: The library's tensors cannot be read.
    """
    bin_dir = Path(os.environ["LLAMA_CPP_LIB_PATH"])
    tell(stage="loading")
    start(bin_dir)
    loaded = LoadedModel(path, request.overrides)
    callback = EvalCallback(TensorReader(bin_dir))
    arms = _Arms(loaded, request, callback)
    text = loaded.text(max(request.prompt, 1))
    gc.disable()
    records = []
    if request.prompt:
        recorder = _Recorder(model, arms, request.timing, lambda done, total: tell("prefill", done, total))
        records.append(recorder.record("pp", 0, _prompts(arms, text), _PROMPT_PASSES))
    recorder = _Recorder(model, arms, request.timing, lambda done, total: tell("decode", done, total))
    records.append(recorder.record("tg", request.prompt, _generated(arms, text[-1]), request.tokens))
    return tuple(records)


class _Recorder:
    """Times passes of one kind."""

    def __init__(self, model: Model, arms: _Arms, timing: Timing, tell: Callable[[int, int], None]) -> None:
        self._model = model
        self._arms = arms
        self._timings = [Timing.LAYER, *([Timing.NODE] if timing is Timing.NODE else [])]
        self._tell = tell

    def record(self, kind: str, depth: int, passes: Iterator[Sequence[int]], count: int) -> OpRecord:
        callback = self._arms.callback
        nodes = self._described(passes)
        idle_ns: list[int] = []
        for _ in range(_IDLE_PASSES):
            callback.time([True] * len(nodes))
            tokens = next(passes)
            self._arms.forward(tokens)
            idle_ns += [took for took, node in zip(callback.timed(), nodes, strict=True) if not node.works]
        wanted = {Timing.LAYER: self._ends(nodes), Timing.NODE: [node.works for node in nodes]}
        timed = {timing: _Timed() for timing in self._timings}
        for number in range(count):
            self._tell(number, count)
            for timing, found in timed.items():
                callback.time(wanted[timing])
                plain_ns, whole_ns = self._arms.forward(next(passes), traced_first=number % 2 == 1)
                found.plain_ns.append(plain_ns)
                found.whole_ns.append(whole_ns)
                found.computed_ns.append(callback.timed())
        by_node = timed.get(Timing.NODE)
        return OpRecord(
            kind=kind,
            tokens=len(tokens),
            depth=depth + (_UNTIMED_PASSES + _IDLE_PASSES if kind == "tg" else 0),
            nodes=nodes,
            idle_ns=tuple(idle_ns),
            by_stretch=timed[Timing.LAYER].finished(),
            by_node=None if by_node is None else by_node.finished(),
        )

    def _described(self, passes: Iterator[Sequence[int]]) -> tuple[OpNode, ...]:
        for _ in range(_UNTIMED_PASSES):
            self._arms.callback.describe()
            self._arms.forward(next(passes))
        nodes = self._arms.callback.described()
        if not any(node.works for node in nodes):
            raise LibraryError("version", "it never called back")
        return nodes

    def _ends(self, nodes: Sequence[OpNode]) -> list[bool]:
        """Return which nodes are the last of a stretch."""
        numbers = stretches(nodes, place_nodes(nodes, self._model))
        return [number != after for number, after in zip(numbers, (*numbers[1:], None), strict=True)]


def _prompts(arms: _Arms, prompt: Sequence[int]) -> Iterator[Sequence[int]]:
    while True:
        arms.clear()
        yield prompt


def _generated(arms: _Arms, first: int) -> Iterator[Sequence[int]]:
    yield [first]
    while True:
        yield [arms.plain.likeliest()]


def _tokens_needed(request: OpRequest) -> int:
    generated = _UNTIMED_PASSES + _IDLE_PASSES + request.tokens * (2 if request.timing is Timing.NODE else 1)
    return request.prompt + generated


def main() -> int:
    """Do what the request says; 0 when there is a record."""
    folder = Path(sys.argv[1])
    channel = _take_stdout()

    def tell(stage: str, done: int = 0, total: int = 0) -> None:
        print(json.dumps({"stage": stage, "done": done, "total": total}), file=channel, flush=True)

    spec = json.loads((folder / "request.json").read_text())
    path, request = Path(spec["model"]), TypeAdapter(OpRequest).validate_python(spec["request"])
    try:
        records = record(read_model(path), path, request, tell)
    except (LibraryError, LayoutError, GraphChangedError) as error:
        kind = error.kind if isinstance(error, LibraryError) else "version"
        print(json.dumps({"refused": kind, "message": str(error)}), file=channel, flush=True)
        return 1
    (folder / "record.json").write_bytes(RECORDS.dump_json(records))
    return 0


def _take_stdout() -> TextIO:
    """Keep stdout for ourselves: what the library prints there goes to stderr from now on."""
    kept = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return kept


if __name__ == "__main__":
    sys.exit(main())
