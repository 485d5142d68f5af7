"""The callback that ggml's scheduler calls for each node of a graph, in Python.

Before it computes anything, it asks for node after node whether somebody wants to see it, until one is wanted; then it
computes all up to that one at once, waits for the device, and calls again (`ggml_backend_sched_compute_splits` in
ggml/src/ggml-backend.cpp). So between the answer "yes" and the second call lies the computing, and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

from k3prof.core.ops.op_graph import OpNode
from k3prof.llama.ggml_tensor import TensorReader


class GraphChangedError(Exception):
    """A pass had other nodes than the one that was described."""


class EvalCallback:
    """Describes the nodes of one pass, or times some of them.

    Args:
        reader: Reads the tensors that the scheduler names.
    """

    def __init__(self, reader: TensorReader) -> None:
        self._reader = reader
        self._wanted: Iterator[int] | None = None
        self._places: dict[int, int] = {}
        self._nodes: list[OpNode] = []
        self._begun_ns: list[int] = []
        self._ended_ns: list[int] = []
        self._left = 0

    def __call__(self, tensor: int, ask: bool, _: int | None) -> bool:
        """Answer the scheduler; `ggml_backend_sched_eval_callback` in ggml/include/ggml-backend.h."""
        if not ask:
            self._ended_ns.append(time.monotonic_ns())
            return True
        if self._wanted is None:
            self._nodes.append(self._reader.describe(tensor, self._places))
            self._places[tensor] = len(self._places)
            return False
        if next(self._wanted):
            self._begun_ns.append(time.monotonic_ns())
            return True
        return False

    def describe(self) -> None:
        """Describe the nodes of the next pass."""
        self._wanted, self._places, self._nodes = None, {}, []

    def described(self) -> tuple[OpNode, ...]:
        """Return the nodes of the last pass."""
        return tuple(self._nodes)

    def time(self, wanted: Sequence[bool]) -> None:
        """Time some nodes of the next pass, each with those before it that are not wanted.

        Args:
            wanted: Whether each node is.
        """
        self._begun_ns, self._ended_ns = [], []
        self._left = len(wanted)
        self._wanted = self._answers(bytes(wanted))

    def timed(self) -> tuple[int, ...]:
        """Return how long the wanted nodes took, in ns.

        Raises:
            GraphChangedError: The pass had fewer nodes, or more.
        """
        if self._left != 0:
            raise GraphChangedError(f"{abs(self._left)} nodes {'fewer' if self._left > 0 else 'more'} than before")
        return tuple(end - begin for begin, end in zip(self._begun_ns, self._ended_ns, strict=True))

    def _answers(self, wanted: bytes) -> Iterator[int]:
        for answer in wanted:
            self._left -= 1
            yield answer
        while True:
            self._left -= 1
            yield 0
