"""A GPU at the moment, as its driver describes it, and how it reaches others."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GpuProcess:
    """A program that uses a GPU.

    Attributes:
        pid: Its process, as this container numbers it.
        name: Its name; empty when it does not show here.
        memory_bytes: What it holds there; None when the driver does not tell.
    """

    pid: int
    name: str = ""
    memory_bytes: int | None = None


@dataclass(frozen=True)
class PcieLink:
    """How a GPU is connected.

    Attributes:
        generation: PCIe's generation now.
        width: Lanes now.
        highest_generation: The best that GPU and slot can do together.
        highest_width: Likewise.
    """

    generation: int
    width: int
    highest_generation: int
    highest_width: int

    @property
    def text(self) -> str:
        """As people write it: `gen1 x16 of gen4 x16`."""
        return f"gen{self.generation} x{self.width} of gen{self.highest_generation} x{self.highest_width}"


@dataclass(frozen=True)
class GpuPath:
    """The way between two GPUs.

    Attributes:
        device: One of them, by name.
        peer: The other.
        text: The way, and what one may do in the other's memory, in a few words.
    """

    device: str
    peer: str
    text: str


@dataclass(frozen=True)
class GpuState:
    """A GPU at the moment. What the driver does not tell is None.

    Attributes:
        name: As k3prof names it: `CUDA0`.
        memory_bytes: All its memory.
        free_bytes: What is free of it.
        used_bytes: What programs use, without what the driver keeps for itself.
        busy_frac: Share of the last window in which it worked.
        busy_window_ns: What `busy_frac` averages over; None where the driver does not count.
        sm_mhz: Clock of its processors.
        highest_sm_mhz: The highest that they can have.
        slowed_by: What the driver says keeps the clocks down; empty when nothing does, or nobody can tell.
        held_by_setting: Whether somebody set a clock.
        persistent: Whether the driver stays loaded while nobody uses it.
        ecc: Whether errors in its memory are corrected.
        bus_bits: Width of its memory's bus.
        mig: Whether it is divided into slices.
        link: Its connection.
        processes: Programs that use it, without those of this k3prof.
    """

    name: str
    memory_bytes: int | None = None
    free_bytes: int | None = None
    used_bytes: int | None = None
    busy_frac: float | None = None
    busy_window_ns: int | None = None
    sm_mhz: int | None = None
    highest_sm_mhz: int | None = None
    slowed_by: tuple[str, ...] = ()
    held_by_setting: bool = False
    persistent: bool | None = None
    ecc: bool | None = None
    bus_bits: int | None = None
    mig: bool | None = None
    link: PcieLink | None = None
    processes: tuple[GpuProcess, ...] = ()
