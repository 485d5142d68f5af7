"""What watching costs: decode speed with and without the sampler, its share of a processor, its punctuality."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from k3prof.core.build import Build
from k3prof.core.trial import Workload
from tests.bench.decoding import Decoding
from tests.bench.effort import Effort
from tests.bench.figure import Figure
from tests.bench.ratio import Ratio, interleaved, ratio
from tests.bench.serving import served

STAND_INS = "rpc:3"
TG64 = Workload("tg", 64)
MOST_COST_FRAC = 0.01
MOST_LATE_MS = 2.0


@dataclass(frozen=True)
class SamplerCost:
    """What the sampler costs.

    Attributes:
        model: What was decoded.
        speed: Decode speed, sampled over unsampled.
        processor_frac: Its processor time over wall time: its share of one processor.
        interval_ms: Time between its samples.
        late_p50_ms: Median time from a deadline to its sample.
        late_p99_ms: The same, exceeded by one sample in a hundred.
        samples: How many samples that rests on.
    """

    model: str
    speed: Ratio
    processor_frac: float
    interval_ms: float
    late_p50_ms: float
    late_p99_ms: float
    samples: int

    @property
    def about(self) -> str:
        """Say how it was measured."""
        return (
            f"Sampler: {TG64.name} of {self.model} on {STAND_INS}, {self.speed.blocks} blocks of ABBA or BAAB; "
            f"{self.samples} samples, one every {self.interval_ms:g} ms."
        )

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        return [
            Figure(
                "sampled / unsampled tok/s",
                str(self.speed),
                f"cost below {MOST_COST_FRAC:.0%}",
                self.speed.at_least(1 - MOST_COST_FRAC),
            ),
            Figure("sampler's processor share", f"{self.processor_frac:.2%}"),
            Figure(
                "sampler's lateness",
                f"p50 {self.late_p50_ms:.3f}, p99 {self.late_p99_ms:.3f} ms",
                f"p99 under {MOST_LATE_MS:g} ms",
                self.late_p99_ms < MOST_LATE_MS,
            ),
        ]


def measure(build: Build, effort: Effort) -> SamplerCost:
    """Decode on one server, sampled and unsampled in turn."""
    with served(build, effort.model, STAND_INS, TG64, {}) as server:
        decoding = Decoding(server, TG64)
        decoding.unsampled()
        speed = ratio(interleaved(effort.blocks, decoding.sampled, decoding.unsampled))
    watch = decoding.watch
    late_p50_ms, late_p99_ms = np.quantile(watch.late_ns, [0.5, 0.99]) / 1e6
    return SamplerCost(
        model=effort.model,
        speed=speed,
        processor_frac=watch.spent_ns / watch.wall_ns,
        interval_ms=watch.interval_ns / 1e6,
        late_p50_ms=float(late_p50_ms),
        late_p99_ms=float(late_p99_ms),
        samples=len(watch.late_ns),
    )
