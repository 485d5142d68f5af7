"""What each node of llama.cpp's graph is part of: its layer, its part of the layer, the weights that it uses.

The graph says little of that: most nodes have no name of their own, and many use no weights. But each is computed from
others, and those that use weights say in whose service it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from k3prof.core.weights.model import Model, TensorEntry
from k3prof.core.weights.roles import Role, place_of


@dataclass(frozen=True)
class OpNode:
    """One node of a graph, as ggml describes it.

    Attributes:
        name: Its name: `ffn_moe_out-3`; not unique, and often no more than `node_17`.
        op: What it computes: `MUL_MAT`, `SILU`.
        n_bytes: Size of its result.
        device: Where its result lies; empty when ggml does not tell.
        sources: What it is computed from: places of earlier nodes, and names of tensors that no node computes.
    """

    name: str
    op: str
    n_bytes: int
    device: str
    sources: tuple[int | str, ...]

    @property
    def works(self) -> bool:
        """Whether there is anything to compute: some ops only look at a tensor in another shape."""
        return self.op not in _VIEWS and self.n_bytes > 0


class Part(StrEnum):
    """A part of a model that is computed in one go. The text is how tables call it."""

    EMBEDDING = "embedding"
    KDA = "attention (KDA)"
    MLA = "attention (MLA)"
    GQA = "attention (GQA)"
    OTHER_ATTENTION = "attention (other)"
    RESIDUALS = "attention residuals"
    """Mixes the hidden states of earlier layers, before attention and before the feed-forward network."""
    MOE = "MoE"
    """Router, routed and shared experts, what leads into and out of their latent space."""
    DENSE = "dense FFN"
    OUTPUT = "output head"
    OTHER = "other"


@dataclass(frozen=True)
class NodePlace:
    """Where a node belongs.

    Attributes:
        layer: Its layer; None outside the layers.
        part: Its part of the model.
        role: What the weights that it uses are for; None when it uses none.
    """

    layer: int | None
    part: Part
    role: Role | None


_VIEWS = frozenset({"NONE", "RESHAPE", "VIEW", "PERMUTE", "TRANSPOSE"})
"""ggml_op_is_empty in ggml/src/ggml-impl.h."""
_NORMS = frozenset({"NORM", "RMS_NORM", "L2_NORM", "GROUP_NORM"})

_PARTS = {
    Role.EMBEDDING: Part.EMBEDDING,
    Role.ATTENTION_KDA: Part.KDA,
    Role.ATTENTION_MLA: Part.MLA,
    Role.ATTENTION_GQA: Part.GQA,
    Role.ATTENTION_OTHER: Part.OTHER_ATTENTION,
    Role.ROUTER: Part.MOE,
    Role.ROUTED_EXPERTS: Part.MOE,
    Role.SHARED_EXPERTS: Part.MOE,
    Role.LATENT: Part.MOE,
    Role.DENSE_FFN: Part.DENSE,
    Role.OUTPUT: Part.OUTPUT,
}
_RESIDUAL_SCORE = re.compile(r"(attn|ffn|output)_res_score")

# The scheduler's copy of a tensor for another device: `CUDA1#l_out-3#0` (ggml_backend_sched_split_graph).
_COPY = re.compile(r"[^#]+#(?P<name>.+)#\d+")

_Home = tuple[int | None, Part]


def place_nodes(nodes: Sequence[OpNode], model: Model) -> tuple[NodePlace, ...]:
    """Return where each node of a graph belongs.

    A node that uses weights belongs where they do. Any other belongs to the latest weights that went into it, so that
    adding a branch to the residual stream belongs to the branch. Norms alone belong to what they prepare. What is
    computed from nothing but caches and inputs belongs to what uses it first.

    Args:
        nodes: The graph, in the order in which it is computed.
        model: The model that it was made for.
    """
    sources = _sources(nodes)
    users: list[list[int]] = [[] for _ in nodes]
    for place, computed in enumerate(sources):
        for source in computed:
            users[source].append(place)
    weights = _weights(nodes, {tensor.name: tensor for tensor in model.tensors})
    roles = [None if weight is None else _role(weight, node) for weight, node in zip(weights, nodes, strict=True)]
    graph = _Graph(nodes, sources, users, weights, roles)
    return tuple(NodePlace(*home, role) for home, role in zip(graph.homes(), roles, strict=True))


def stretches(nodes: Sequence[OpNode], places: Sequence[NodePlace]) -> tuple[int, ...]:
    """Return for each node in which stretch it lies, from 0.

    A stretch is a run of nodes of one part of one layer on one device. Nodes that compute nothing belong to the one
    that goes on.
    """
    number, current = -1, None
    found = []
    for node, place in zip(nodes, places, strict=True):
        here = (place.layer, place.part, node.device)
        if node.works and here != current:
            number, current = number + 1, here
        found.append(max(number, 0))
    return tuple(found)


@dataclass(frozen=True)
class _Graph:
    """A graph with its edges both ways, and the weights that each node uses."""

    nodes: Sequence[OpNode]
    sources: Sequence[Sequence[int]]
    users: Sequence[Sequence[int]]
    weights: Sequence[TensorEntry | None]
    roles: Sequence[Role | None]

    def homes(self) -> list[_Home]:
        """Return layer and part of each node."""
        homes = self._by_weights()
        for place in reversed(range(len(homes))):
            if self._is_norm(place):
                homes[place] = self._by_what_it_prepares(place, homes) or homes[place]
            homes[place] = homes[place] or next((home for user in self.users[place] if (home := homes[user])), None)
        last: _Home = (None, Part.OTHER)
        settled = []
        for home in homes:
            last = home or last
            settled.append(last)
        return settled

    def _by_weights(self) -> list[_Home | None]:
        """Return the home of the latest weights that each node was computed with, its own before all others."""
        homes: list[_Home | None] = []
        latest: list[int] = []
        for place, sources in enumerate(self.sources):
            own, weight = self._own_home(place), self.weights[place]
            after = max((latest[source] for source in sources), default=-1)
            latest.append(after if own is None else place)
            home = own or (homes[after] if after >= 0 else None)
            homes.append((weight.layer, home[1]) if home and weight and weight.layer is not None else home)
        return homes

    def _own_home(self, place: int) -> _Home | None:
        weight, role = self.weights[place], self.roles[place]
        if weight is None or role is None:
            return None
        if _RESIDUAL_SCORE.fullmatch(place_of(weight.name).stem):
            return weight.layer, Part.RESIDUALS
        part = _PARTS.get(role)
        return None if part is None else (weight.layer, part)

    def _by_what_it_prepares(self, place: int, homes: Sequence[_Home | None]) -> _Home | None:
        for user in self.users[place]:
            if self._is_norm(user) or self._own_home(user) is not None:
                return homes[user]
            if not self.nodes[user].works and (home := self._by_what_it_prepares(user, homes)):
                return home
        return None

    def _is_norm(self, place: int) -> bool:
        return self.roles[place] is Role.NORM or (self.roles[place] is None and self.nodes[place].op in _NORMS)


def _sources(nodes: Sequence[OpNode]) -> list[list[int]]:
    """Return the places of the nodes that each is computed from, whether or not they were copied to its device."""
    latest: dict[str, int] = {}
    found = []
    for place, node in enumerate(nodes):
        copies = (match["name"] for source in node.sources if (match := _copy_of(source)))
        computed = [source for source in node.sources if isinstance(source, int)]
        found.append(computed + [latest[name] for name in copies if name in latest])
        latest[node.name] = place
    return found


def _weights(nodes: Sequence[OpNode], tensors: Mapping[str, TensorEntry]) -> list[TensorEntry | None]:
    """Return the weights that each node uses, be it through a view of them."""
    found: list[TensorEntry | None] = []
    for node in nodes:
        weights = (_weight(source, nodes, found, tensors) for source in node.sources)
        found.append(next((weight for weight in weights if weight is not None), None))
    return found


def _weight(
    source: int | str,
    nodes: Sequence[OpNode],
    found: Sequence[TensorEntry | None],
    tensors: Mapping[str, TensorEntry],
) -> TensorEntry | None:
    if isinstance(source, int):
        return None if nodes[source].works else found[source]
    copy = _copy_of(source)
    return tensors.get(copy["name"] if copy else source)


def _copy_of(source: int | str) -> re.Match[str] | None:
    return _COPY.fullmatch(source) if isinstance(source, str) else None


def _role(weight: TensorEntry, node: OpNode) -> Role:
    """Return what weights are used for: an embedding table that is multiplied, not looked up, is the output head."""
    if weight.role is Role.EMBEDDING and node.op.startswith("MUL_MAT"):
        return Role.OUTPUT
    return weight.role
