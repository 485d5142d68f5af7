"""What looking at a model costs: our header reader beside the `gguf` package's, on a full-size Kimi-K3's header."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import gguf

from k3prof.llama.gguf import read_model
from tests.bench.effort import Effort
from tests.bench.figure import Figure
from tests.doubles.full_size_k3 import K3, write_full_size_k3

LEAST_RATIO = 20


@dataclass(frozen=True)
class HeaderTime:
    """How long a header takes to read.

    Attributes:
        ours_s: Median over the readings, in seconds.
        package_s: Likewise, of the package.
        tensors: How many tensors both found.
        tokens: Entries of the vocabulary.
        readings: How often each read it.
    """

    ours_s: float
    package_s: float
    tensors: int
    tokens: int
    readings: int

    @property
    def about(self) -> str:
        """Say how it was measured."""
        return (
            f"Header: {self.tensors:,} tensors and {self.tokens:,} tokens; median of {self.readings} readings in turn, "
            f"ours {self.ours_s * 1000:.0f} ms, the package's {self.package_s:.1f} s."
        )

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        ratio = self.package_s / self.ours_s
        aim = f"{LEAST_RATIO} × faster"
        return [Figure("header of a Kimi-K3", f"{ratio:.0f} × faster than the gguf package", aim, ratio >= LEAST_RATIO)]


def measure(effort: Effort) -> HeaderTime:
    """Read the same header with both in turn, after once each, so that the file is in memory."""
    model = K3(layers=effort.header_layers, tokens=effort.header_tokens)
    with tempfile.TemporaryDirectory() as folder:
        path = write_full_size_k3(Path(folder) / "k3.gguf", model)
        pairs = [_pair(path) for _ in range(effort.headers + 1)][1:]
        tensors = len(read_model(path).tensors)
    ours_s, package_s = median(ours for ours, _ in pairs), median(package for _, package in pairs)
    return HeaderTime(ours_s, package_s, tensors, model.tokens, len(pairs))


def _pair(path: Path) -> tuple[float, float]:
    return _wall_s(lambda: read_model(path)), _wall_s(lambda: gguf.GGUFReader(path))


def _wall_s(read: Callable[[], object]) -> float:
    began = time.perf_counter()
    read()
    return time.perf_counter() - began
