"""Where layers can live."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DeviceKind(StrEnum):
    """What stands behind a device's name."""

    CUDA = "cuda"
    STAND_IN = "stand-in"
    """A `ggml-rpc-server` on this machine's processor, playing a GPU's part."""
    CPU = "cpu"


@dataclass(frozen=True)
class Device:
    """One device, as llama-server names it.

    Attributes:
        name: `CUDA0`, `RPC0`, or `CPU` for the host.
        kind: What it is.
        description: For people: the GPU's product name, or what the stand-in is.
        memory_bytes: Its memory; None when not known.
        uuid: NVIDIA's identifier, stable over reboots; None for anything else.
        pci_bus_id: `00000000:41:00.0`; None for anything else.
    """

    name: str
    kind: DeviceKind
    description: str = ""
    memory_bytes: int | None = None
    uuid: str | None = None
    pci_bus_id: str | None = None


HOST = Device("CPU", DeviceKind.CPU, "the host: llama-server's own threads")
