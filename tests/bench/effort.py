"""How long the benchmark takes its time."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Effort:
    """How much is measured.

    Attributes:
        model: The model that is sampled while it decodes.
        blocks: Blocks of four runs, sampled and unsampled.
        loads: Turns of the client through all numbers of streams.
        samples: Samples in the trace that is reported, at least.
        starts: Starts of the command, and of Python alone.
        headers: Readings of a model's header.
        header_layers: Its layers.
        header_tokens: Its tokens.
    """

    model: str
    blocks: int
    loads: int
    samples: int
    starts: int
    headers: int
    header_layers: int
    header_tokens: int


FULL = Effort(
    model="demo:k3", blocks=12, loads=6, samples=1_000_000, starts=7, headers=3, header_layers=93, header_tokens=163_840
)
QUICK = Effort(
    model="demo:k3-tiny", blocks=2, loads=1, samples=40_000, starts=3, headers=1, header_layers=9, header_tokens=2_000
)
