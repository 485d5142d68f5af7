"""What share of a forward pass each layer, part, op and kind of weights takes, and what making it free could gain.

Timing an op costs about as much as a small op takes. So the shares of parts come from passes in which only the ends of
whole stretches of the graph were waited for; passes in which each node was waited for say no more than how a stretch's
time divides among its nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from k3prof.core.build import Build
from k3prof.core.ops.op_graph import NodePlace, OpNode, Part, place_nodes, stretches
from k3prof.core.ops.op_record import OpRecord, OpRequest, TimedPasses
from k3prof.core.weights.model import Model
from k3prof.core.weights.roles import AttentionKind

CONFIDENCE = 0.90
OUTSIDE = "outside"
WITHOUT_WEIGHTS = "no weights"
"""Activations, caches and states alone: the attention to the cache, recurrences, routing, adding up experts."""

_MOST_BLOCKS = 8
_PASSES_PER_BLOCK = 8
"""So that medians pass over a few that something else on the machine disturbed."""
_FEW_BLOCKS, _FEWEST_PASSES_PER_BLOCK = 3, 3
"""Of passes that are fewer because they take longer."""

_Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Share:
    """What share of the computing something takes.

    Attributes:
        name: What it is.
        frac: Its share.
        low: Lower end of the share's 90 % interval, Student's t over blocks of passes; None for a single block.
        high: Upper end.
        about: What else there is to say of it; empty for nothing.
    """

    name: str
    frac: float
    low: float | None
    high: float | None
    about: str = ""

    @property
    def most_gain(self) -> float | None:
        """How many times as fast the whole would be if this took no time; None where nothing else is left.

        1 / (1 - f): G. Amdahl, Validity of the single processor approach to achieving large scale computing
        capabilities, 1967. What a token takes outside the graph makes the true gain smaller.
        """
        return 1 / (1 - self.frac) if self.frac < 1 else None


@dataclass(frozen=True)
class Distortion:
    """How far timing changes what it times: medians over passes, each held against the untimed one beside it.

    Attributes:
        nodes: Nodes of the graph; the callback is called for each.
        working_nodes: How many of them compute something.
        stretches: How many stretches they form.
        wait_ns: What waiting for a node costs, taken off everything that was timed; None when it was not found.
        plain_ns: An untimed pass.
        by_stretch: How many times as long a pass takes when stretches are timed.
        by_node: Likewise for nodes; None when they were not timed.
        stretches_frac: What all stretches add up to, as a share of an untimed pass.
        nodes_frac: Likewise for nodes.
    """

    nodes: int
    working_nodes: int
    stretches: int
    wait_ns: float | None
    plain_ns: float
    by_stretch: float
    by_node: float | None
    stretches_frac: float
    nodes_frac: float | None


@dataclass(frozen=True)
class OpProfile:
    """Where the computing of passes of one kind goes. Each of the four lists of shares sums to 1.

    Attributes:
        record: What was measured.
        by_part: By part of the model, the largest first.
        by_layer: By layer in their order, what is outside the layers last.
        by_role: By what the weights that a node uses are for, the largest first; None when nodes were not timed.
        by_op: By op, likewise.
        distortion: What timing did to the passes.
    """

    record: OpRecord
    by_part: tuple[Share, ...]
    by_layer: tuple[Share, ...]
    by_role: tuple[Share, ...] | None
    by_op: tuple[Share, ...] | None
    distortion: Distortion

    @property
    def devices(self) -> tuple[str, ...]:
        """Where something was computed, in the order of the graph."""
        return tuple(dict.fromkeys(node.device for node in self.record.nodes if node.works))

    def part(self, part: Part) -> Share | None:
        """Return the share of a part; None when the model has none."""
        return next((share for share in self.by_part if share.name == part), None)


@dataclass(frozen=True)
class OpReport:
    """What was found out of one model.

    Attributes:
        model: The model, with the overrides that it was loaded with.
        build: The build that computed.
        request: What was asked for.
        profiles: One for each kind of pass.
    """

    model: Model
    build: Build
    request: OpRequest
    profiles: tuple[OpProfile, ...]


def profile(record: OpRecord, model: Model) -> OpProfile:
    """Return where the computing goes.

    Args:
        record: What was measured.
        model: The model, with the overrides that it was loaded with.
    """
    graph = _TimedGraph(record, place_nodes(record.nodes, model))
    blocks = [graph.times_ns(passes) for passes in _blocks(len(record.by_stretch.whole_ns))]

    def shares(name: Callable[[OpNode, NodePlace], str]) -> list[Share]:
        return _shares([name(node, place) for node, place in graph.working], blocks)

    by_layer = {share.name: share for share in shares(lambda _, place: _layer(place.layer))}
    kinds = {_layer(layer.index): _layer_kind(layer.attention, layer.experts_used) for layer in model.geometry.layers}
    order = [*kinds, OUTSIDE]
    nodes_timed = record.by_node is not None
    return OpProfile(
        record=record,
        by_part=_largest_first(shares(lambda _, place: place.part)),
        by_layer=tuple(replace(by_layer[name], about=kinds.get(name, "")) for name in order if name in by_layer),
        by_role=_largest_first(shares(lambda _, place: place.role or WITHOUT_WEIGHTS)) if nodes_timed else None,
        by_op=_largest_first(shares(lambda node, _: node.op)) if nodes_timed else None,
        distortion=graph.distortion(),
    )


class _TimedGraph:
    """The nodes that compute something, and how long each takes."""

    def __init__(self, record: OpRecord, places: Sequence[NodePlace]) -> None:
        self._record = record
        self.working = [(node, place) for node, place in zip(record.nodes, places, strict=True) if node.works]
        numbers = zip(stretches(record.nodes, places), record.nodes, strict=True)
        self._stretch = np.array([number for number, node in numbers if node.works])
        self._wait_ns = float(np.median(record.idle_ns)) if record.idle_ns else None

    def times_ns(self, passes: slice) -> _Floats:
        """Return the time of each working node over some of the passes, shape (working nodes,), float64.

        Each stretch's time is divided among its nodes as they took when they were timed one by one; when they were not,
        it goes to the first of them, since only the sums over stretches then mean anything.
        """
        stretches_ns = self._medians(self._record.by_stretch, passes)
        if self._record.by_node is None:
            weights = np.diff(self._stretch, prepend=-1).astype(float)
        else:
            weights = self._medians(self._record.by_node, passes)
        sums = np.bincount(self._stretch, weights)
        # Where none of a stretch's nodes took longer than waiting does, they share alike.
        flat = sums[self._stretch] == 0
        weights[flat], sums = 1.0, np.bincount(self._stretch, np.where(flat, 1.0, weights))
        times_ns: _Floats = stretches_ns[self._stretch] * weights / sums[self._stretch]
        return times_ns

    def distortion(self) -> Distortion:
        """Return what timing did to the passes."""
        record, by_node = self._record, self._record.by_node
        return Distortion(
            nodes=len(record.nodes),
            working_nodes=len(self.working),
            stretches=int(self._stretch[-1]) + 1,
            wait_ns=self._wait_ns,
            plain_ns=float(np.median(record.by_stretch.plain_ns)),
            by_stretch=record.by_stretch.slowdown,
            by_node=None if by_node is None else by_node.slowdown,
            stretches_frac=self._found_frac(record.by_stretch),
            nodes_frac=None if by_node is None else self._found_frac(by_node),
        )

    def _medians(self, timed: TimedPasses, passes: slice) -> _Floats:
        medians_ns: _Floats = np.median(self._computed_ns(timed)[passes], axis=0)
        return medians_ns

    def _found_frac(self, timed: TimedPasses) -> float:
        return float(np.median(self._computed_ns(timed).sum(axis=1) / np.array(timed.plain_ns)))

    def _computed_ns(self, timed: TimedPasses) -> _Floats:
        return np.maximum(np.array(timed.computed_ns, np.float64) - (self._wait_ns or 0.0), 0.0)


def _shares(names: Sequence[str], blocks: Sequence[_Floats]) -> list[Share]:
    """Return what share of the time each name has.

    Args:
        names: One per node.
        blocks: Times of the nodes in each block of passes.
    """
    found, place = np.unique(names, return_inverse=True)
    fracs = np.array([np.bincount(place, times, minlength=found.size) / times.sum() for times in blocks])
    means = fracs.mean(axis=0)
    if len(blocks) < 2:
        return [Share(name, mean, None, None) for name, mean in zip(found.tolist(), means.tolist(), strict=True)]
    half = stats.t.ppf((1 + CONFIDENCE) / 2, len(blocks) - 1) * stats.sem(fracs, axis=0)
    lows, highs = np.maximum(means - half, 0.0), np.minimum(means + half, 1.0)
    columns = zip(found.tolist(), means.tolist(), lows.tolist(), highs.tolist(), strict=True)
    return [Share(name, mean, low, high) for name, mean, low, high in columns]


def _largest_first(shares: Sequence[Share]) -> tuple[Share, ...]:
    return tuple(sorted(shares, key=lambda share: -share.frac))


def _blocks(passes: int) -> list[slice]:
    few = min(passes // _FEWEST_PASSES_PER_BLOCK, _FEW_BLOCKS)
    count = min(max(passes // _PASSES_PER_BLOCK, few, 1), _MOST_BLOCKS)
    edges = np.linspace(0, passes, count + 1).astype(int).tolist()
    return [slice(*edge) for edge in pairwise(edges)]


def _layer(index: int | None) -> str:
    return OUTSIDE if index is None else str(index)


def _layer_kind(attention: AttentionKind, experts_used: int) -> str:
    ffn = "MoE" if experts_used else "dense"
    return ffn if attention is AttentionKind.NONE else f"{attention} + {ffn}"
