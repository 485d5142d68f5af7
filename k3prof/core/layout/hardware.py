"""Memory bandwidths of GPUs from their makers' datasheets: what a ceiling is computed with until one is measured."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from k3prof.core.flags import nearest
from k3prof.errors import ConfigError


@dataclass(frozen=True)
class Bandwidth:
    """How fast a device's memory can be read.

    Attributes:
        name: The device, for people.
        gb_per_s: 10⁹ bytes per second.
        origin: Whether it was measured, is printed in a datasheet, or was given on the command line.
    """

    name: str
    gb_per_s: float
    origin: Literal["measured", "datasheet", "given"]


_DATASHEETS = (
    ("A40", 696),  # 384 bit × 14.5 Gbit/s GDDR6; NVIDIA A40 product brief PB-09976-001
    ("RTX 3090", 936),  # 384 bit × 19.5 Gbit/s GDDR6X
    ("RTX 4090", 1008),  # 384 bit × 21 Gbit/s GDDR6X
    ("L40S", 864),  # 384 bit × 18 Gbit/s GDDR6; NVIDIA L40S datasheet
    ("A100 80 SXM", 2039),  # HBM2e; NVIDIA A100 80 GB datasheet
    ("H100 SXM", 3350),  # HBM3; NVIDIA H100 datasheet
    ("H200", 4800),  # HBM3e; NVIDIA H200 datasheet
)

DATASHEETS = tuple(Bandwidth(name, gb_per_s, "datasheet") for name, gb_per_s in _DATASHEETS)
"""From slow to fast within a generation. A GPU with ECC switched on in GDDR6 reaches less."""


def parse_bandwidth(text: str) -> Bandwidth:
    """Read a bandwidth: GB/s as a number, or the name of a GPU in `DATASHEETS`.

    Raises:
        ConfigError: It is neither.
    """
    try:
        given = float(text)
    except ValueError:
        return _named(text)
    if not math.isfinite(given) or given <= 0:
        raise ConfigError(f"--bandwidth {text}: must be above 0 GB/s")
    return Bandwidth(f"{given:g} GB/s", given, "given")


def _named(text: str) -> Bandwidth:
    known = {_plain(device.name): device for device in DATASHEETS}
    found = known.get(_plain(text))
    if found:
        return found
    guess = nearest(_plain(text), known)
    names = ", ".join(device.name for device in DATASHEETS)
    hint = f"did you mean {known[guess].name}?" if guess else f"give GB/s as a number, or one of {names}"
    raise ConfigError(f"--bandwidth {text!r}: neither a number nor a GPU in the table", hint)


def _plain(name: str) -> str:
    return "".join(name.lower().split())
