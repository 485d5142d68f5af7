"""What one more token of context costs a decode step at best: its KV cells, read at the speed of where they lie."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.placed import Placed
from k3prof.core.weights.traffic import ForwardPass, cache_traffic


@dataclass(frozen=True)
class ContextCost:
    """What each step of one stream reads for one token of its context, predicted.

    Attributes:
        bytes_by_device: KV cells in bytes by the device that holds them; devices without any are left out.
        gb_per_s: How fast each of these devices can read; those of which that is not known are left out.
    """

    bytes_by_device: Mapping[str, int]
    gb_per_s: Mapping[str, float]

    @property
    def n_bytes(self) -> int:
        """Over all devices."""
        return sum(self.bytes_by_device.values())

    @property
    def of_unknown_speed(self) -> tuple[str, ...]:
        """The devices that hold some, and of which it is not known how fast they can read."""
        return tuple(device for device in self.bytes_by_device if device not in self.gb_per_s)

    def ms_per_1000_tokens(self, streams: int = 1) -> float | None:
        """Return by how much 1,000 tokens of context prolong a step of so many streams; None when not known.

        The devices take turns, so that their times add up: 1000 · streams · sum over devices (bytes / bandwidth).
        """
        if self.of_unknown_speed:
            return None
        seconds = sum(n_bytes / (self.gb_per_s[device] * 1e9) for device, n_bytes in self.bytes_by_device.items())
        return 1000 * streams * seconds * 1e3


def context_cost(placed: Placed, bandwidths: Mapping[str, Bandwidth]) -> ContextCost | None:
    """Return what context costs a placement; None when the architecture's caches are not known.

    Args:
        placed: The placement, laid out.
        bandwidths: How fast the memory of each device, the host among them, can be read, as far as that is known.
    """
    shape = placed.layout.context
    deep, empty = (
        cache_traffic(
            placed.model, ForwardPass(depth=depth, cache_type_k=shape.cache_type_k, cache_type_v=shape.cache_type_v)
        )
        for depth in (1, 0)
    )
    if deep is None or empty is None:
        return None
    held: dict[str, int] = defaultdict(int)
    for with_token, without in zip(deep, empty, strict=True):
        if row := with_token.kv_read - without.kv_read:
            held[placed.layout.cache_device(with_token.layer)] += row
    speeds = {device: bandwidths[device].gb_per_s for device in held if device in bandwidths}
    return ContextCost(dict(held), speeds)
