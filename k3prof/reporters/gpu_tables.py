"""What the counters of GPUs say of each workload, as a table: memory, power, energy, PCIe, clock, slowdowns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from k3prof.core.gpu_figures import GpuFigures
from k3prof.core.summary import WorkloadSummary
from k3prof.reporters import formats

GPU_COLUMNS = (
    "workload",
    "GPU",
    "memory used",
    "power",
    "energy per token",
    "PCIe received",
    "PCIe sent",
    "SM clock",
    "clock held down",
)
LEGEND = (
    "While the workload was measured. Memory: the most that programs held. PCIe: per token where the GPU counts bytes, "
    "the link's protocol included; else a rate, the mean of glimpses of 20 ms. Clock held down: the share of the time, "
    "for whichever of power and heat did so longest."
)


def gpu_rows(workloads: Sequence[WorkloadSummary]) -> tuple[tuple[str, ...], ...]:
    """Return one row of `GPU_COLUMNS` for each GPU under each workload; none where there was no GPU to sample."""
    return tuple(_row(one.workload.name, gpu) for one in workloads for gpu in one.gpus)


def as_json(figures: GpuFigures) -> dict[str, Any]:
    """Return what `json.dumps` takes."""
    return asdict(figures)


def _row(workload: str, gpu: GpuFigures) -> tuple[str, ...]:
    return (
        workload,
        gpu.device,
        formats.UNKNOWN if gpu.memory_bytes is None else f"{gpu.memory_bytes / 2**30:.1f} GiB",
        formats.UNKNOWN if gpu.power_w is None else f"{gpu.power_w:.0f} W",
        _scaled(gpu.energy_j_per_token, "J"),
        _link(gpu.received_bytes_per_token, gpu.received_bytes_per_s),
        _link(gpu.sent_bytes_per_token, gpu.sent_bytes_per_s),
        formats.UNKNOWN if gpu.sm_mhz is None else f"{gpu.sm_mhz:,.0f} MHz",
        formats.UNKNOWN if gpu.slowed_frac is None else f"{gpu.slowed_frac * 100:.0f} %",
    )


def _link(bytes_per_token: float | None, bytes_per_s: float | None) -> str:
    return _scaled(bytes_per_s, "B/s") if bytes_per_token is None else _scaled(bytes_per_token, "B/token")


def _scaled(figure: float | None, unit: str) -> str:
    """Return a figure with the prefix that leaves it few digits: `1.31 J`, `12.3 kB/token`."""
    if figure is None:
        return formats.UNKNOWN
    for prefix, size in (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0)):
        if figure >= 0.9995 * size:
            return f"{figure / size:.3g} {prefix}{unit}"
    return f"{figure * 1e3:.3g} m{unit}" if figure else f"0 {unit}"
