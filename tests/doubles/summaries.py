"""What sweeps found: summaries with figures chosen by hand, good, doubtful and failed."""

from __future__ import annotations

from k3prof.core.idle import Parallelism
from k3prof.core.summary import PlacementSummary, Spread, WorkloadSummary
from k3prof.core.trial import Caveat, Failure, Outcome, TrialStatus, Workload

PP512, TG128 = Workload("pp", 512), Workload("tg", 128)
DEVICES = ("RPC0", "RPC1", "RPC2")
OUT_OF_MEMORY = Outcome(
    TrialStatus.FAILED,
    Failure.OUT_OF_MEMORY,
    "RPC1 has no room for the weights",
    "ggml_backend_rpc_buffer_type_alloc_buffer: failed to allocate 41231.00 MiB on RPC1",
)
NO_PLATEAU = Caveat(
    "no-plateau",
    "tg128 was still getting faster when the warm-up ended: 27.1, 29.8, 31.0 tok/s",
    "raise warmup in sweep.toml",
)


def workload_summary(
    workload: Workload,
    rate: Spread | None,
    degree: tuple[float, float | None, float | None] | None,
    busy: tuple[float | None, ...],
    devices: tuple[str, ...] = DEVICES,
    ttft_ms: Spread | None = None,
) -> WorkloadSummary:
    parallelism = None if degree is None else Parallelism(*degree, 9, devices, 5_000_000)
    return WorkloadSummary(workload, rate, ttft_ms, parallelism, dict(zip((*devices, "CPU"), busy, strict=True)))


def placement(
    name: str, *workloads: WorkloadSummary, load_s: float | None = 2.13, caveats: tuple[Caveat, ...] = ()
) -> PlacementSummary:
    return PlacementSummary(name, Outcome(TrialStatus.OK), load_s, workloads, caveats)


def failed(name: str, outcome: Outcome = OUT_OF_MEMORY) -> PlacementSummary:
    nothing = [workload_summary(one, None, None, (None, None, None, None)) for one in (PP512, TG128)]
    return PlacementSummary(name, outcome, None, tuple(nothing), ())


def sweep() -> list[PlacementSummary]:
    """Return a sweep's summaries in the order of its files: three that ran, one that failed, one cut short."""
    even = placement(
        "even",
        workload_summary(PP512, Spread(331.42, 329.0, 334.87, 3), (1.27, 1.21, 1.33), (0.44, 0.39, 0.44, 0.03)),
        workload_summary(
            TG128,
            Spread(33.31, 32.8, 33.41, 3),
            (0.74, 0.72, 0.76),
            (0.28, 0.24, 0.22, 0.05),
            ttft_ms=Spread(41.3, 40.9, 44.0, 3),
        ),
    )
    half = placement(
        "experts-8",
        workload_summary(PP512, Spread(402.05, 399.4, 410.2, 3), (1.31, 1.25, 1.37), (0.45, 0.41, 0.45, 0.03)),
        workload_summary(TG128, Spread(41.87, 40.02, 42.11, 3), (0.71, 0.68, 0.74), (0.26, 0.24, 0.21, 0.07)),
        caveats=(NO_PLATEAU,),
    )
    host = placement(
        "n-cpu-moe-4",
        workload_summary(PP512, None, None, (None, None, None, None)),
        workload_summary(TG128, Spread(24.6, 24.6, 24.6, 1), (0.49, None, None), (0.11, 0.19, 0.19, 0.36)),
        load_s=1.87,
    )
    cut = PlacementSummary("autofit", Outcome(TrialStatus.INTERRUPTED, None, "stopped by Ctrl-C"), None, (), ())
    return [even, failed("all-on-one"), half, host, cut]
