"""Everything that is said of a placement before anything is loaded: bytes, fit, ceilings, warnings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from k3prof.core.device import HOST
from k3prof.core.layout.headroom import (
    ComputeBuffers,
    ComputeOrigin,
    DeviceMemory,
    compute_margin,
    longest_context,
    memory_by_device,
)
from k3prof.core.layout.placed import Placed
from k3prof.core.layout.placement import Layout
from k3prof.core.layout.rig import Rig
from k3prof.core.layout.roofline import Roofline, roofline
from k3prof.core.layout.traps import find_traps
from k3prof.core.trial import Caveat, Workload
from k3prof.core.weights.traffic import ForwardPass


@dataclass(frozen=True)
class Ceiling:
    """The best that one workload can reach.

    Attributes:
        workload: A `tg` workload: prefill computes more than it reads.
        roofline: Its times and rates.
    """

    workload: Workload
    roofline: Roofline


@dataclass(frozen=True)
class Prediction:
    """What is said of one placement; all figures are predicted.

    Attributes:
        placement: Its name.
        rig: The machine.
        layout: Where everything will lie; None where that is not predicted, and a warning says why.
        memory: Need and room, device by device, the host last.
        compute: Where the sizes of compute buffers come from.
        longest_context: Up to what `--ctx-size` each device would fit.
        ceilings: One per decode workload.
        warnings: What to know before running it.
    """

    placement: str
    rig: Rig
    layout: Layout | None = None
    memory: tuple[DeviceMemory, ...] = ()
    compute: ComputeOrigin = ComputeOrigin.MARGIN
    longest_context: Mapping[str, int] = field(default_factory=dict)
    ceilings: tuple[Ceiling, ...] = ()
    warnings: tuple[Caveat, ...] = ()

    @property
    def fits(self) -> bool | None:
        """Whether every device has room; None when not known. A host of unknown memory is not held against it."""
        verdicts = [need.fits for need in self.memory if need.device != HOST.name or need.fits is not None]
        if False in verdicts:
            return False
        return None if None in verdicts or not verdicts else True


def predict(
    name: str, placed: Placed, workloads: Iterable[Workload], compute: ComputeBuffers | None = None
) -> Prediction:
    """Say what a placement will take and how fast it can be.

    Args:
        name: The placement's name.
        placed: The placement, laid out.
        workloads: What is to be asked of it.
        compute: Sizes of compute buffers, where somebody could be asked; a margin otherwise.

    Raises:
        ConfigError: A workload does not go with the model.
    """
    model, layout, reader = placed.model, placed.layout, placed.reader
    compute = compute or compute_margin(model, layout, reader)
    memory = memory_by_device(layout, placed.rig, compute)
    return Prediction(
        placement=name,
        rig=placed.rig,
        layout=layout,
        memory=memory,
        compute=compute.origin,
        longest_context=longest_context(model, layout, memory, reader),
        ceilings=tuple(
            Ceiling(workload, roofline(model, layout, placed.rig, decode_step(workload, layout)))
            for workload in workloads
            if workload.kind == "tg"
        ),
        warnings=find_traps(placed),
    )


def decode_step(workload: Workload, layout: Layout) -> ForwardPass:
    """Return what a `tg` workload computes at once, with the caches of a layout: one token per stream."""
    return ForwardPass(
        tokens=workload.streams,
        sequences=workload.streams,
        depth=workload.depth,
        cache_type_k=layout.context.cache_type_k,
        cache_type_v=layout.context.cache_type_v,
    )
