"""The split tracer's part in a trial: preloaded into its server, switched on and off, what it saw carried away."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.spans import Spans, SplitMode
from k3prof.core.trial import Caveat
from k3prof.errors import K3profError
from k3prof.llama.split_ring import SplitRing
from k3prof.llama.splits import SplitTracer, split_tracer


@dataclass(frozen=True)
class SplitTracing:
    """How the servers of a sweep are traced.

    Attributes:
        mode: How closely, off included.
        tracer: What traces them; None when nothing does.
        caveat: Why they are not traced although it was asked for; None when all is as asked.
    """

    mode: SplitMode = SplitMode.OFF
    tracer: SplitTracer | None = None
    caveat: Caveat | None = None

    def env(self, ring: Path | str) -> dict[str, str]:
        """Return the variables that a server is traced with."""
        return self.tracer.env(ring, os.environ) if self.tracer is not None else {}


def plan_tracing(asked: SplitMode, build: Build) -> SplitTracing:
    """Return how servers can be traced as asked; where that cannot be, they are not, and everything else goes on."""
    if asked is SplitMode.OFF:
        return SplitTracing()
    try:
        return SplitTracing(asked, split_tracer(build))
    except K3profError as error:
        return SplitTracing(caveat=Caveat("splits-not-traced", f"splits are not traced: {error.message}", error.hint))


class TrialTracer:
    """The tracer in one trial; without a ring it does nothing.

    Args:
        tracing: How the sweep's servers are traced.
        folder: Where the ring may lie.
        endpoints: `host:port` of each stand-in, in the order of the devices.
        keep: Gets the spans.

    Raises:
        MachineError: There is no space for the ring.
    """

    def __init__(
        self, tracing: SplitTracing, folder: Path, endpoints: Sequence[str], keep: Callable[[Spans], None]
    ) -> None:
        self._mode = tracing.mode
        self._keep = keep
        self._ring = SplitRing(folder / "splits", endpoints) if tracing.tracer is not None else None
        self.env = tracing.env(folder / "splits")

    def switch(self, *, on: bool) -> None:
        """Begin or cease to watch the server."""
        if self._ring is not None:
            self._ring.watch(self._mode if on else SplitMode.OFF)

    def drain(self, *, final: bool = False) -> None:
        """Carry on what the server has written; `final` when it is gone."""
        if self._ring is not None:
            self._keep(self._ring.drain(final=final))

    @property
    def caveats(self) -> list[Caveat]:
        """What makes the spans doubtful; complete after the final drain."""
        if self._ring is None or not self._ring.lost:
            return []
        share = self._ring.lost / (self._ring.lost + self._ring.taken)
        return [
            Caveat(
                "spans-lost",
                f"{self._ring.lost:,} of the split tracer's records were lost, {share * 100:.2g} % of all",
                "other load keeps this process from reading them: see `k3prof doctor`",
            )
        ]
