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
