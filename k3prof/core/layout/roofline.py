"""How fast a placement can be at best: what each device must read per pass, over how fast it can read.

For one stream of tokens the devices take turns, so that their times add up (field terms: layer split, one ubatch):

    T = sum over devices (bytes / bandwidth) + crossings (latency + bytes / link) + host (bytes / host bandwidth)

With many streams in flight the devices may overlap, and then no pass takes less than the slowest device's time.
Computing, launching and sampling take time too: both are ceilings, not forecasts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from k3prof.core.layout.graph_splits import predicted_splits
from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.layout.placement import Layout
from k3prof.core.layout.rig import Link, Rig
from k3prof.core.weights.model import Model
from k3prof.core.weights.roles import Role
from k3prof.core.weights.traffic import ForwardPass, cache_traffic, weight_reads

_ACTIVATION_BYTES = 4


@dataclass(frozen=True)
class DeviceTime:
    """One device's part of a forward pass, predicted.

    Attributes:
        device: The device; `CPU` for the host.
        bytes_by_role: Weights that it reads, by role. Rows of the embedding table, some kB per token, are left out.
        kv_bytes: KV cells that it reads and writes; None when the architecture's caches are not known.
        state_bytes: Recurrent state that it reads and writes; None likewise.
        bandwidth: How fast its memory can be read; None when not known.
    """

    device: str
    bytes_by_role: Mapping[Role, float]
    kv_bytes: int | None
    state_bytes: int | None
    bandwidth: Bandwidth | None

    @property
    def n_bytes(self) -> float | None:
        """All that it moves; None when its caches are not known."""
        if self.kv_bytes is None or self.state_bytes is None:
            return None
        return sum(self.bytes_by_role.values()) + self.kv_bytes + self.state_bytes

    @property
    def ms(self) -> float | None:
        """The time that this takes; None when it is not known."""
        if self.n_bytes == 0:
            return 0.0
        if self.n_bytes is None or self.bandwidth is None:
            return None
        return self.n_bytes / self.bandwidth.gb_per_s / 1e6


@dataclass(frozen=True)
class Crossings:
    """Data that passes from one device to another within a forward pass, predicted.

    Attributes:
        splits: Stretches of the graph on one device each; None when not known.
        bytes_each: What a crossing between them carries at least: the hidden state of each token.
        link: What carries them; None when not known.
    """

    splits: int | None
    bytes_each: int
    link: Link | None

    @property
    def count(self) -> int | None:
        """Crossings: one between each two stretches."""
        return None if self.splits is None else self.splits - 1

    @property
    def n_bytes(self) -> int | None:
        """What all crossings carry at least; None when their number is not known."""
        return None if self.count is None else self.count * self.bytes_each

    @property
    def ms(self) -> float | None:
        """The time that they take; a latency that is not known is left out. None when count or link is not known."""
        if self.count == 0:
            return 0.0
        if self.count is None or self.link is None:
            return None
        each_ms = self.bytes_each / self.link.bandwidth.gb_per_s / 1e6 + (self.link.latency_us or 0.0) / 1e3
        return self.count * each_ms


@dataclass(frozen=True)
class Roofline:
    """The ceilings of one placement for one kind of pass, all predicted.

    Attributes:
        forward: What is computed at once.
        devices: Every device that is used, in order, the host last.
        crossings: What passes between them.
    """

    forward: ForwardPass
    devices: tuple[DeviceTime, ...]
    crossings: Crossings

    @property
    def n_bytes(self) -> float | None:
        """All that a pass moves in the devices' memories; None when the caches are not known."""
        return _sum(device.n_bytes for device in self.devices)

    @property
    def sequential_ms(self) -> float | None:
        """The least time of a pass whose devices take turns; None when a device's is not known.

        Crossings of unknown time are left out, so that the true time is longer.
        """
        busy_ms = _sum(device.ms for device in self.devices)
        return None if busy_ms is None else busy_ms + (self.crossings.ms or 0.0)

    @property
    def overlap_ms(self) -> float | None:
        """The time of the slowest device: no pass takes less, even if all devices work at once."""
        times = [device.ms for device in self.devices]
        known = [time for time in times if time is not None]
        return max(known, default=0.0) if len(known) == len(times) else None

    @property
    def tokens_per_s(self) -> float | None:
        """The ceiling of one pass after the other; None when not known."""
        return _rate(self.forward.tokens, self.sequential_ms)

    @property
    def overlapped_tokens_per_s(self) -> float | None:
        """The ceiling of many streams, if passes of this size filled all devices at once; None when not known."""
        return _rate(self.forward.tokens, self.overlap_ms)

    @property
    def of_unknown_speed(self) -> tuple[str, ...]:
        """The devices that read, and of which it is not known how fast they can."""
        return tuple(one.device for one in self.devices if one.n_bytes is not None and one.ms is None)


@dataclass(frozen=True)
class Achieved:
    """What a measured speed means in bytes per second.

    Attributes:
        gb_per_s: Bytes that the tokens needed, per second of wall time.
        of_one_device_frac: Against the devices taking turns: of the peak of the ONE whose turn it is.
        of_sum_frac: Against all devices reading at once, which one stream cannot make them do.
    """

    gb_per_s: float
    of_one_device_frac: float
    of_sum_frac: float


def roofline(model: Model, layout: Layout, rig: Rig, forward: ForwardPass) -> Roofline:
    """Return the ceilings of a placement.

    Args:
        model: What the header says, with its overrides.
        layout: Where llama-server will put it.
        rig: Where the devices' speeds stand.
        forward: What is computed at once: one token per stream in decode.

    Raises:
        ConfigError: More experts per token than the model has.
    """
    weights: dict[str, dict[Role, float]] = defaultdict(lambda: defaultdict(float))
    homes = {(placed.tensor.name, placed.tensor.role): placed.device for placed in reversed(layout.tensors)}
    for read in weight_reads(model, forward):
        if read.role is Role.EMBEDDING:
            continue
        weights[homes[read.tensor.name, read.role]][read.role] += read.n_bytes
    kv: dict[str, int] = defaultdict(int)
    state: dict[str, int] = defaultdict(int)
    traffic = cache_traffic(model, forward)
    for cache in traffic or ():
        device = layout.cache_device(cache.layer)
        kv[device] += cache.kv_read + cache.kv_written
        state[device] += cache.state_read + cache.state_written
    devices = tuple(
        DeviceTime(
            device=name,
            bytes_by_role=dict(weights[name]),
            kv_bytes=None if traffic is None else kv[name],
            state_bytes=None if traffic is None else state[name],
            bandwidth=rig.bandwidth(name),
        )
        for name in layout.devices
    )
    width = model.geometry.embedding_length or 0
    crossings = Crossings(predicted_splits(model, layout), forward.tokens * width * _ACTIVATION_BYTES, rig.link)
    return Roofline(forward, devices, crossings)


def achieved(ceilings: Roofline, tokens_per_s: float) -> Achieved | None:
    """Hold a measured speed against a placement's peaks; None when a peak or the bytes are not known."""
    times = [device.ms for device in ceilings.devices]
    busy_ms = _sum(times)
    peaks = [device.bandwidth.gb_per_s for device in ceilings.devices if device.bandwidth and device.n_bytes]
    if ceilings.n_bytes is None or not busy_ms or None in times:
        return None
    passes_per_s = tokens_per_s / ceilings.forward.tokens
    gb_per_s = ceilings.n_bytes * passes_per_s / 1e9
    return Achieved(gb_per_s, busy_ms / 1e3 * passes_per_s, gb_per_s / sum(peaks))


def _sum(parts: Iterable[float | None]) -> float | None:
    total = 0.0
    for part in parts:
        if part is None:
            return None
        total += part
    return total


def _rate(tokens: int, ms: float | None) -> float | None:
    return tokens / ms * 1e3 if ms else None
