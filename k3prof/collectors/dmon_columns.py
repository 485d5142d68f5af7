"""The columns that `nvidia-smi` writes, by its two ways of naming them, and what they count."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from k3prof.core.timeline import Counter

_MIB = 2.0**20
_PERCENT, _MB = 0.01, 1e6
_NUMBER = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)\s*(\S*)")
_P_STATE = re.compile(r"P(\d{1,2})")
_ABSENT = frozenset(
    {"-", "n/a", "[n/a]", "[not supported]", "not supported", "[unknown error]", "[insufficient permissions]", ""}
)


@dataclass(frozen=True)
class Column:
    """What a column counts.

    Attributes:
        counter: The counter.
        unit: The unit that the number is in where one is written.
        scale: What a number is multiplied with.
        most: The highest number that can be true.
    """

    counter: Counter
    unit: str
    scale: float
    most: float = math.inf

    def read(self, cell: str) -> float | None:
        """Return a cell's value, NaN where the device does not offer it, None where the text is no such value."""
        text = cell.strip()
        if text.lower() in _ABSENT:
            return math.nan
        if self.counter is Counter.P_STATE:
            state = _P_STATE.fullmatch(text)
            return float(state[1]) if state else None
        number = _NUMBER.fullmatch(text)
        if number is None or number[2] not in ("", self.unit):
            return None
        value = float(number[1])
        return value * self.scale if value <= self.most else None


DMON = {
    "sm": Column(Counter.BUSY_FRAC, "%", _PERCENT, 100),
    "mem": Column(Counter.MEMORY_BUSY_FRAC, "%", _PERCENT, 100),
    "pwr": Column(Counter.POWER_W, "W", 1),
    "fb": Column(Counter.MEMORY_BYTES, "MB", _MIB),
    "pclk": Column(Counter.SM_MHZ, "MHz", 1),
    "mclk": Column(Counter.MEMORY_MHZ, "MHz", 1),
    "rxpci": Column(Counter.PCIE_RX_BYTES_PER_S, "MB/s", _MB),
    "txpci": Column(Counter.PCIE_TX_BYTES_PER_S, "MB/s", _MB),
}
"""`nvidia-smi dmon`: its MB of memory are MiB."""

QUERY = {
    "utilization.gpu": DMON["sm"],
    "utilization.memory": DMON["mem"],
    "power.draw": DMON["pwr"],
    "power.draw.average": DMON["pwr"],
    "power.draw.instant": Column(Counter.POWER_INSTANT_W, "W", 1),
    "memory.used": Column(Counter.MEMORY_BYTES, "MiB", _MIB),
    "clocks.sm": DMON["pclk"],
    "clocks.current.sm": DMON["pclk"],
    "clocks.mem": DMON["mclk"],
    "clocks.current.memory": DMON["mclk"],
    "pstate": Column(Counter.P_STATE, "", 1),
    "pcie.link.gen.current": Column(Counter.PCIE_GENERATION, "", 1),
    "pcie.link.gen.gpucurrent": Column(Counter.PCIE_GENERATION, "", 1),
    "pcie.link.width.current": Column(Counter.PCIE_WIDTH, "", 1),
}
"""`nvidia-smi --query-gpu`."""

ALIASES = {"gpu_uuid": "uuid", "gpu_name": "name", "gpu_bus_id": "pci.bus_id", "gpu": "index"}
IDENTITIES = ("index", "uuid", "pci.bus_id")
"""What tells one GPU's rows from another's, the most telling last."""
