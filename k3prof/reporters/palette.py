"""Colours that everyone can tell apart: Okabe and Ito's set, reordered for lanes that lie next to each other."""

from __future__ import annotations

from k3prof.core.device import DeviceKind
from k3prof.core.timeline import PhaseKind

INK = "#1f2328"
MUTED = "#656d76"
FAINT = "#d8dee4"
PAPER = "#ffffff"

_DEVICES = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00")
_HOST = "#8c959f"
# Greys from light to dark, so that colour means a device and nothing else.
PHASES = {
    PhaseKind.LOAD: "#e1e6eb",
    PhaseKind.WARMUP: "#c6cdd5",
    PhaseKind.UNTRACED: "#d3d9df",
    PhaseKind.PREFILL: "#8c959f",
    PhaseKind.DECODE: "#424a53",
    PhaseKind.IDLE: "#ffffff",
}


def device_colour(kind: DeviceKind, position: int) -> str:
    """Return the colour of the lane at a position (from 0); the host is grey, for it is not counted in P."""
    return _HOST if kind is DeviceKind.CPU else _DEVICES[position % len(_DEVICES)]


def ink_on(colour: str) -> str:
    """Return the colour of letters that can be read on a colour, by its relative luminance (WCAG 2, without gamma)."""
    red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return INK if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.45 else PAPER
