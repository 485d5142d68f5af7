"""Checks of where the model went: devices, layers, experts, cache."""

from __future__ import annotations

import re
from collections.abc import Sequence

from k3prof.core.evidence.check import NO, YES, Agreement, Asked, Check
from k3prof.core.evidence.loaded import HOST_DEVICE, BufferKind, FitStatus
from k3prof.core.layout.layers import layer_devices

_EXPERTS = re.compile(r"blk\.(\d{1,6})\.ffn_(?:up|down|gate|gate_up)_(?:ch|)exps\.weight")


def check_fit(asked: Asked) -> Check:
    """Check `fit`: it was to run and did not give up, or was not to run."""
    fit = asked.done.fit
    status = None if fit is None else fit.status
    wanted = asked.flags["fit"] in YES
    same = status in (FitStatus.UNCHANGED, FitStatus.CHANGED) if wanted else status is FitStatus.NOT_RUN
    fallback = "fit-failed" if status is FitStatus.FAILED else "fit-gave-up"
    return asked.compare("fit", status, same, "" if fit is None else fit.reason, fallback)


def check_devices(asked: Asked) -> Check | None:
    """Check that the model was given the devices that there were, or those of `device`, in their order."""
    devices = asked.devices
    if "device" in asked.flags:
        names = asked.flags["device"].split(",")
        devices = () if names == ["none"] else names
    if devices is None:
        return None
    if asked.flags.get("split-mode") == "none":
        main = asked.number("main-gpu") or 0
        devices = devices[main : main + 1] if main >= 0 else ()
    wanted, used = ", ".join(devices) or HOST_DEVICE, asked.done.devices
    if used is None:
        return Check("devices", wanted, None, Agreement.UNKNOWN)
    done = ", ".join(device.name for device in used) or HOST_DEVICE
    return Check("devices", wanted, done, Agreement.SAME if done == wanted else Agreement.DIFFERS)


def check_gpu_layers(asked: Asked) -> Check | None:
    """Check `n-gpu-layers`; the count that the log gives proves nothing where there is no device."""
    if asked.flags["n-gpu-layers"] == "auto":
        return None
    total, done = asked.done.layers_total, asked.done.layers_offloaded
    wanted = total if asked.flags["n-gpu-layers"] == "all" else asked.number("n-gpu-layers")
    if total is None or done is None or wanted is None or wanted < 0:
        return asked.unknown("n-gpu-layers")
    if wanted and asked.done.devices == ():
        return asked.compare("n-gpu-layers", "0 layers", False, "the server had no device")
    return asked.compare("n-gpu-layers", f"{done} of {total} layers", done == min(wanted, total))


def check_split_mode(asked: Asked) -> Check:
    """Check `split-mode` by the names of the weights' buffers; with one device all modes are one."""
    buffers, wanted = asked.done.buffers.get(BufferKind.MODEL), asked.flags["split-mode"]
    if buffers is None or asked.done.devices is None:
        return asked.unknown("split-mode")
    if len(asked.done.devices) < 2:
        return asked.compare("split-mode", "a single device", True)
    names = " ".join(buffer.name for buffer in buffers)
    done = "row" if "_Split" in names else "tensor" if "Meta" in names else "layer"
    return asked.compare("split-mode", done, done == wanted)


def check_tensor_split(asked: Asked) -> Check:
    """Check `tensor-split` by the rule: layer by layer where the log has a map, else which devices have weights.

    The latter can only show a difference.
    """
    expected = _split_by_rule(asked)
    if expected is None:
        return asked.unknown("tensor-split")
    by_rule = f"by the rule {_counted(expected)}"
    if (actual := asked.done.layer_devices) is not None:
        return asked.compare("tensor-split", _counted(actual), actual == expected, by_rule)
    weights = asked.done.mib_by_device(BufferKind.MODEL)
    if weights is None or set(expected) - {HOST_DEVICE} == set(weights) - {HOST_DEVICE}:
        return asked.unknown("tensor-split")
    return asked.compare("tensor-split", f"weights on {', '.join(weights)}", False, by_rule)


def _split_by_rule(asked: Asked) -> tuple[str, ...] | None:
    used, layers, offloaded = asked.done.devices, asked.done.model.layers, asked.done.layers_offloaded
    shares = [_share(text) for text in re.split(r"[,/]+", asked.flags["tensor-split"])]
    known = [share for share in shares if share is not None]
    if used is None or layers is None or offloaded is None or len(known) != len(shares):
        return None
    per_device = [*known, *[0.0] * len(used)][: len(used)]
    if not any(per_device):
        return None
    indices = layer_devices(layers, per_device, offloaded)
    return tuple(HOST_DEVICE if index is None else used[index].name for index in indices)


def _share(text: str) -> float | None:
    return float(text) if re.fullmatch(r"\d{1,12}(?:\.\d{1,12})?", text) else None


def _counted(devices: Sequence[str]) -> str:
    return ", ".join(f"{devices.count(name)} layers on {name}" for name in dict.fromkeys(devices))


def check_cpu_moe(asked: Asked) -> Check:
    """Check `cpu-moe`: every layer's experts lie on the host, so some do."""
    moved = _moved_experts(asked)
    wanted = asked.flags["cpu-moe"] in YES
    return asked.compare("cpu-moe", _experts_of(moved), moved is not None and bool(moved) == wanted)


def check_n_cpu_moe(asked: Asked) -> Check:
    """Check `n-cpu-moe`: experts of its first layers moved, and of no other. Leading layers may have none."""
    count, moved = asked.number("n-cpu-moe"), _moved_experts(asked)
    if count is None or "override-tensor" in asked.flags:
        return asked.unknown("n-cpu-moe")
    within = moved is not None and all(layer < count for layer in moved)
    return asked.compare("n-cpu-moe", _experts_of(moved), within)


def _moved_experts(asked: Asked) -> set[int] | None:
    moved = asked.done.overridden_tensors
    if moved is None:
        return None
    return {int(match[1]) for tensor, _ in moved if (match := _EXPERTS.fullmatch(tensor))}


def _experts_of(layers: set[int] | None) -> str | None:
    return None if layers is None else f"experts of {len(layers)} layers moved"


def check_kv_offload(asked: Asked) -> Check | None:
    """Check `kv-offload` when it was switched off."""
    if asked.flags["kv-offload"] not in NO:
        return None
    by_device = asked.done.mib_by_device(BufferKind.KV)
    done = None if by_device is None else f"KV cache on {', '.join(by_device)}"
    return asked.compare("kv-offload", done, by_device is not None and set(by_device) == {HOST_DEVICE})


def check_load_mode(asked: Asked) -> Check | None:
    """Check `load-mode`; with `auto`, the server chooses."""
    wanted, done = asked.flags["load-mode"], asked.done.load_mode
    return None if wanted == "auto" else asked.compare("load-mode", done, done == wanted)
