"""What the driver says of GPUs, held against what a measurement needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from k3prof.core.machine.diagnosis import Finding, Level, gigabytes, listed
from k3prof.core.machine.gpu import GpuProcess, GpuState, PcieLink

_UNDER_LOAD_FRAC = 0.1
"""A link's speed means something only while the GPU works: an idle one is slowed down to save power."""
_BUSY_FRAC = 0.5
_LOW_CLOCK_FRAC = 0.8
_UNEXPLAINED_BYTES = 2**30
"""More than the driver keeps for itself: an idle A40 lists 578 MiB as not free."""
_NARROWEST_HBM_BITS = 1024
"""GDDR keeps its error correction among the data, at the price of capacity and bandwidth; HBM has memory of its own."""


Gpus = Sequence[GpuState]


def check_gpus(gpus: Gpus) -> list[Finding]:
    """Return all that is wrong with the GPUs, the worst first."""
    found = [check(gpus) for check in _CHECKS]
    return [finding for finding in found if finding is not None]


def without_driver(n_listed: int, n_on_bus: int | None) -> Finding | None:
    """GPUs that somebody may be paying for, and that no program can use.

    Args:
        n_listed: GPUs that the driver lists.
        n_on_bus: NVIDIA GPUs on the PCI bus; None when not known.
    """
    if n_listed or not n_on_bus:
        return None
    return Finding(
        Level.WARNING,
        "GPUs",
        f"{n_on_bus} NVIDIA GPUs are on the PCI bus, but no driver shows them: stand-ins would take their place",
        "see what nvidia-smi says; start the container with docker run --gpus all, or install the driver",
    )


def foreign_processes(gpus: Gpus) -> Finding | None:
    """Programs that use a GPU compete for it, and hold memory that a placement counts on."""
    used = [(gpu, process) for gpu in gpus for process in gpu.processes]
    if not used:
        return None
    pids = sorted({process.pid for _, process in used})
    return Finding(
        Level.WARNING,
        "GPU in use",
        listed([f"{gpu.name}: {_holding(process)}" for gpu, process in used]),
        f"wait until it is done, or stop it: kill {' '.join(map(str, pids))}",
    )


def unexplained_memory(gpus: Gpus) -> Finding | None:
    """Memory that no visible program holds: another container's, or left by one that died."""
    hidden = [(gpu, _unexplained_bytes(gpu)) for gpu in gpus]
    found = [f"{gpu.name}: {gigabytes(n_bytes)}" for gpu, n_bytes in hidden if n_bytes >= _UNEXPLAINED_BYTES]
    if not found:
        return None
    return Finding(
        Level.WARNING,
        "GPU in use",
        f"memory is taken by programs that do not show here: {listed(found)}",
        "look from outside of this container: nvidia-smi, fuser -v /dev/nvidia*; restart the pod if nobody owns it",
    )


def slowed(gpus: Gpus) -> Finding | None:
    """The driver itself says why clocks are down."""
    found = [f"{gpu.name}: {', '.join(gpu.slowed_by)}" for gpu in gpus if gpu.slowed_by]
    if not found:
        return None
    return Finding(
        Level.WARNING,
        "GPU clocks",
        f"clocks are held down now: {listed(found)}",
        "let it cool down, or see its limits: nvidia-smi -q -d PERFORMANCE,POWER,TEMPERATURE",
    )


def low_clock(gpus: Gpus) -> Finding | None:
    """A clock means something only while the GPU works; idle ones are low."""
    found = [f"{gpu.name}: {gpu.sm_mhz} of {gpu.highest_sm_mhz} MHz" for gpu in gpus if _is_slow_at_work(gpu)]
    if not found:
        return None
    return Finding(
        Level.WARNING,
        "GPU clocks",
        f"at work, but slow, and the driver gives no reason: {listed(found)}",
        "lift clock limits: sudo nvidia-smi -rgc -rac",
    )


def slow_link(gpus: Gpus) -> Finding | None:
    """A link below what GPU and slot can do, as far as the moment allows to judge."""
    below = [gpu for gpu in gpus if gpu.link is not None and _is_below(gpu.link)]
    at_work = [gpu for gpu in below if (gpu.busy_frac or 0) >= _UNDER_LOAD_FRAC]
    narrow = [gpu for gpu in below if gpu.link is not None and gpu.link.width < gpu.link.highest_width]
    if at_work:
        return Finding(
            Level.WARNING,
            "PCIe",
            f"slow links, under load: {_links(at_work)}",
            "look for errors: sudo dmesg | grep -i -e pcie -e xid; another slot or riser, or another machine",
        )
    if narrow:
        return Finding(
            Level.NOTE,
            "PCIe",
            f"few lanes, though nothing runs: {_links(narrow)}; idle links slow down",
            "judge it under load: nvidia-smi -q -d PCIE during a sweep",
        )
    return None


def divided(gpus: Gpus) -> Finding | None:
    """NVML counts nothing for slices of a GPU."""
    found = [gpu for gpu in gpus if gpu.mig]
    if not found:
        return None
    return Finding(
        Level.WARNING,
        "MIG",
        f"{_names(found, gpus)}: divided into slices, of which the driver tells no busy share",
        "sudo nvidia-smi -mig 0, where the machine is yours",
    )


def uncounted(gpus: Gpus) -> Finding | None:
    """Without the utilisation counter a GPU has no busy share."""
    found = [gpu for gpu in gpus if gpu.busy_window_ns is None and not gpu.mig]
    if not found:
        return None
    return Finding(
        Level.WARNING,
        "counters",
        f"{_names(found, gpus)}: the driver tells no utilisation, so P stays unknown",
        "run the container with NVIDIA_DRIVER_CAPABILITIES=compute,utility, on a GPU that counts it",
    )


def held_clock(gpus: Gpus) -> Finding | None:
    """A fixed clock is repeatable, but not the GPU's best."""
    found = [f"{gpu.name}: {_megahertz(gpu)}" for gpu in gpus if gpu.held_by_setting]
    if not found:
        return None
    return Finding(
        Level.NOTE,
        "GPU clocks",
        f"somebody set the clock: {listed(found)}: repeatable, but perhaps not the best",
        "sudo nvidia-smi -rgc -rac gives it back to the driver",
    )


def not_persistent(gpus: Gpus) -> Finding | None:
    """A driver that unloads between servers makes each load wait for it, and forgets settings."""
    found = [gpu for gpu in gpus if gpu.persistent is False]
    if not found:
        return None
    return Finding(
        Level.NOTE,
        "GPU driver",
        f"{_names(found, gpus)}: no persistence mode: every server first waits for the driver to load",
        "sudo nvidia-smi -pm 1",
    )


def inline_ecc(gpus: Gpus) -> Finding | None:
    """Error correction among the data costs bandwidth, which is what decode lives on."""
    found = [gpu for gpu in gpus if gpu.ecc and (gpu.bus_bits or _NARROWEST_HBM_BITS) < _NARROWEST_HBM_BITS]
    if not found:
        return None
    return Finding(
        Level.NOTE,
        "GPU memory",
        f"{_names(found, gpus)}: ECC takes a sixteenth of the memory and some of the bandwidth",
        "keep it, and do not compare with figures taken without; sudo nvidia-smi -e 0 and a reboot switch it off",
    )


def _names(found: Gpus, gpus: Gpus) -> str:
    return f"all {len(gpus)} GPUs" if 1 < len(gpus) == len(found) else listed([gpu.name for gpu in found])


def _holding(process: GpuProcess) -> str:
    memory = "" if process.memory_bytes is None else f" holds {gigabytes(process.memory_bytes)}"
    return f"{process.name or 'a program'} (pid {process.pid}){memory}"


def _unexplained_bytes(gpu: GpuState) -> int:
    """Return what no process accounts for; nothing where the driver does not tell what they hold."""
    held = [process.memory_bytes for process in gpu.processes]
    known = [n_bytes for n_bytes in held if n_bytes is not None]
    return 0 if gpu.used_bytes is None or len(known) < len(held) else gpu.used_bytes - sum(known)


def _is_slow_at_work(gpu: GpuState) -> bool:
    if gpu.sm_mhz is None or gpu.highest_sm_mhz is None or gpu.slowed_by or gpu.held_by_setting:
        return False
    return (gpu.busy_frac or 0) >= _BUSY_FRAC and gpu.sm_mhz < _LOW_CLOCK_FRAC * gpu.highest_sm_mhz


def _is_below(link: PcieLink) -> bool:
    return link.generation < link.highest_generation or link.width < link.highest_width


def _links(gpus: Gpus) -> str:
    return listed([f"{gpu.name} {gpu.link.text}" for gpu in gpus if gpu.link is not None])


def _megahertz(gpu: GpuState) -> str:
    return f"{gpu.sm_mhz or 'unknown'} of {gpu.highest_sm_mhz or 'unknown'} MHz"


_CHECKS: tuple[Callable[[Gpus], Finding | None], ...] = (
    foreign_processes,
    unexplained_memory,
    slowed,
    low_clock,
    slow_link,
    divided,
    uncounted,
    not_persistent,
    held_clock,
    inline_ecc,
)
