"""What the pictures and figures mean, in the words that every reporter uses."""

from __future__ import annotations

LANES = (
    "Filled: mean busy share, full height is always busy. Pale: the highest reading behind it. "
    "CPU: llama-server's own threads, not counted in P."
)
PARALLELISM = (
    "P: the sum of the devices' mean busy shares, how many were busy at a time, with its 90 % interval. "
    "Above 1 some worked at once; 1 or less alone does not prove that they took turns."
)
EXACT_RECORDING = "every begin and end recorded by a profiler"
EXACT_SPLITS = "splits traced, exact: each device was waited for"
LIGHT_SPLITS = "splits traced, the host's view: ends are when the call returned"
SPLITS = (
    "Up close: blocks are splits with their layers, pale ones the host's handing over, dark lines below them copies, "
    "hatched the host's waiting. Elsewhere merged to the busy share, its sum unchanged."
)


def lines(*, splits: bool) -> tuple[str, ...]:
    """Return what the reader of a timeline has to know."""
    return (LANES, SPLITS, PARALLELISM) if splits else (LANES, PARALLELISM)
