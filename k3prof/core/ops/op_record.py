"""Forward passes in which llama.cpp was watched node by node, as they were timed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from k3prof.core.ops.op_graph import OpNode


class Timing(StrEnum):
    """How closely passes are timed."""

    LAYER = "layer"
    """Stretches: runs of nodes of one part of one layer, each as a whole."""
    NODE = "node"
    """Each node by itself, too."""


@dataclass(frozen=True)
class OpRequest:
    """What is to be timed.

    Attributes:
        timing: How closely.
        tokens: Tokens to generate for each way of timing.
        prompt: Tokens of a prompt to begin with, which is timed as well; 0 for none.
        threads: Threads of the host that compute.
        overrides: Keys of the model's header that are to have another value.
    """

    timing: Timing
    tokens: int
    prompt: int
    threads: int
    overrides: tuple[tuple[str, bool | int | float | str], ...] = ()


@dataclass(frozen=True)
class TimedPasses:
    """Passes with a callback, each beside one of the same tokens without.

    Attributes:
        plain_ns: How long each took without the callback.
        whole_ns: How long each took with it.
        computed_ns: How long what was waited for took, one row per pass: all stretches, or all nodes that work.
    """

    plain_ns: tuple[int, ...]
    whole_ns: tuple[int, ...]
    computed_ns: tuple[tuple[int, ...], ...]

    @property
    def slowdown(self) -> float:
        """How many times as long the callback makes a pass: the median over passes."""
        return float(np.median(np.array(self.whole_ns) / np.array(self.plain_ns)))


@dataclass(frozen=True)
class OpRecord:
    """Passes of one kind.

    Attributes:
        kind: `tg` for one token at a time, `pp` for a prompt at once.
        tokens: Tokens of each pass.
        depth: Tokens in the context before the first.
        nodes: The graph, in the order in which it is computed.
        idle_ns: How long nodes that compute nothing took when they were waited for: what waiting costs.
        by_stretch: Passes in which stretches were timed.
        by_node: As many in which nodes were; None when there were none.
    """

    kind: str
    tokens: int
    depth: int
    nodes: tuple[OpNode, ...]
    idle_ns: tuple[int, ...]
    by_stretch: TimedPasses
    by_node: TimedPasses | None
