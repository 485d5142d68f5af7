"""Into how many stretches llama.cpp's scheduler cuts the graph of one decode step, each on one device."""

from __future__ import annotations

from itertools import groupby, pairwise

from k3prof.core.device import HOST
from k3prof.core.layout.placement import Layout
from k3prof.core.weights.model import Model
from k3prof.core.weights.roles import Role

ATTENTION_RESIDUALS = frozenset({"kimi-k3"})
"""Architectures whose layers look back at hidden states from before: each boundary is crossed to and fro."""
_LEAVES_FROM_HOST = frozenset({"kimi-k3", "qwen3moe"})
"""Known to go from experts on the host straight to the next layer, on whichever device that is."""


def predicted_splits(model: Model, layout: Layout) -> int | None:
    """Return the splits of a decode step; None where the rule is not known.

    A plain model has one split per device that its layers pass, P, and one more for the embedding if its first layer
    is not on the host. A Kimi-K3 has 3P - 2 instead of P: its attention residuals take every boundary there, back and
    there again. A layer whose routed experts alone are on the host adds two, of which one is saved where the next layer
    is on another device anyway. Other tensors away from their layer, or caches away from it, follow no such rule.

    The rule was found by experiment (0.5.0-dev, commit 0c1e570) and is held against the real server in the tests.
    """
    host_experts = _layers_with_host_experts(layout)
    passed = [layer.index for layer in model.geometry.layers if not layer.mtp]
    devices = [*(layout.layer_devices[layer] for layer in passed), layout.layer_devices[-1]]
    caches_away = not layout.context.offloaded and any(device != HOST.name for device in devices)
    if host_experts is None or caches_away:
        return None
    boundaries = zip(passed, pairwise(devices), strict=True)
    saved = sum(here != there for layer, (here, there) in boundaries if layer in host_experts)
    if saved and model.architecture not in _LEAVES_FROM_HOST:
        return None
    runs = len(list(groupby(devices)))
    splits = 3 * runs - 2 if model.architecture in ATTENTION_RESIDUALS else runs
    return splits + (devices[0] != HOST.name) + 2 * len(host_experts) - saved


def _layers_with_host_experts(layout: Layout) -> set[int] | None:
    """Return the layers on devices whose routed experts are all on the host; None if any tensor is away otherwise."""
    at_home: set[int] = set()
    away: set[int] = set()
    for placed in layout.tensors:
        role, layer = placed.tensor.role, placed.tensor.layer
        if placed.device == placed.home:
            if role is Role.ROUTED_EXPERTS and layer is not None:
                at_home.add(layer)
        elif role is not Role.ROUTED_EXPERTS or layer is None:
            return None
        elif placed.device == HOST.name:
            away.add(layer)
        else:
            return None
    return None if at_home & away else away
