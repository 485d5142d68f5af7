"""Which GPUs the user's environment leaves visible, by identity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from k3prof.core.device import Device
from k3prof.errors import ConfigError


def visible_gpus(gpus: Sequence[Device], env: Mapping[str, str]) -> list[Device]:
    """Return the GPUs that the user's `CUDA_VISIBLE_DEVICES` leaves, named in the order it gives.

    Args:
        gpus: All GPUs, in the order of their PCI addresses.
        env: The environment.

    Raises:
        ConfigError: It names a GPU that is not here, one of several, one twice, a slice of a GPU; or it gives numbers
            while `CUDA_DEVICE_ORDER` leaves open which GPU they mean.
    """
    wanted = env.get("CUDA_VISIBLE_DEVICES")
    if wanted is None:
        return list(gpus)
    chosen: list[Device] = []
    for entry in (part.strip() for part in wanted.split(",")):
        # CUDA stops at the first entry that is no device: "-1" and "" are how people hide all of them.
        if entry in ("", "-1"):
            break
        gpu = _find(entry, gpus, env.get("CUDA_DEVICE_ORDER", "FASTEST_FIRST"))
        if gpu in chosen:
            raise _visibility_error(entry, "names the same GPU twice")
        chosen.append(gpu)
    return [replace(gpu, name=f"CUDA{index}") for index, gpu in enumerate(chosen)]


def _find(entry: str, gpus: Sequence[Device], order: str) -> Device:
    if entry.isdecimal():
        if order != "PCI_BUS_ID" and len(gpus) > 1:
            raise _visibility_error(entry, f"means nothing certain while CUDA_DEVICE_ORDER is {order}")
        if int(entry) >= len(gpus):
            raise _visibility_error(entry, f"is beyond the {len(gpus)} GPUs of this machine")
        return gpus[int(entry)]
    if entry.startswith("MIG-"):
        raise _visibility_error(entry, "is a slice of a GPU, which NVML cannot watch")
    matches = [gpu for gpu in gpus if gpu.uuid and gpu.uuid.startswith(entry)]
    if len(matches) != 1:
        raise _visibility_error(entry, "fits several GPUs" if matches else "is no GPU of this machine")
    return matches[0]


def _visibility_error(entry: str, problem: str) -> ConfigError:
    return ConfigError(
        f"environment: CUDA_VISIBLE_DEVICES: {entry!r} {problem}",
        "give UUIDs, as `nvidia-smi -L` lists them, or set CUDA_DEVICE_ORDER=PCI_BUS_ID",
    )
