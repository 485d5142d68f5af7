"""Where the log says that the model went: devices, buffers, layers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from k3prof.core.evidence.loaded import HOST_DEVICE, Buffer, BufferKind, UsedDevice
from k3prof.llama.log_lines import LogLine
from k3prof.llama.log_sections import LOADER_OWNERS, META_OWNERS, Step, compute_attempts, shown_whole, step_of

_USING = re.compile(r"using device (\S+) \((.*?)\)(?: \([^()]*\))? - +(\d{1,9}) MiB free")
_LINES_BEFORE = 2
"""A list that begins earlier may have lost its head: the first line of a cut log may itself be cut."""

_LISTED = re.compile(r"- (\S+) +: .*\((\d{1,9}) MiB, \d{1,9} MiB free\)")

_SIZE = re.compile(r"(\S+)(?: +(?:model|KV|RS|compute|output))? buffer size += +(\d{1,12}\.\d+) MiB$")
_STEPS = {
    BufferKind.MODEL: Step.MODEL_BUFFERS,
    BufferKind.KV: Step.KV_BUFFERS,
    BufferKind.STATE: Step.STATE_BUFFERS,
    BufferKind.OUTPUT: Step.OUTPUT_BUFFERS,
    BufferKind.COMPUTE: Step.COMPUTE_BUFFERS,
}

_HOST_NAME = re.compile(r"(?:CPU|BLAS|ACCEL|AMX|KLEIDIAI)\w*|\w+_Host", re.IGNORECASE)
_REMOTE_NAME = re.compile(r"RPC(\d{1,4})?\[(.+)\]")
_DEVICE_NAME = re.compile(r"(?!CPU)[A-Za-z]+\d{1,4}")

_OFFLOADED = re.compile(r"offloaded (\d{1,5})/(\d{1,5}) layers to GPU")
_LAYER = re.compile(r"layer +(\d{1,5}) assigned to device ([^\s,]+)")
_IK_LAYER = re.compile(r"Setting default device in layer (\d{1,5}) to (\d{1,4})$")
_OVERRIDDEN = re.compile(r"tensor (\S+) \(.*\) buffer type overridden to (\S+)$")
_LOADING = re.compile(r"loading model tensors, this can take a while")
_FILE_SIZE = re.compile(r"file size +=")
_VOCABULARY_OWNERS = frozenset({"load", "init_tokenizer"})
_LAYERS_ALL = re.compile(r"n_layer(_all)? += (\d{1,5})$")


def read_devices(server: Sequence[LogLine], load: Sequence[LogLine]) -> tuple[UsedDevice, ...] | None:
    """Return the devices that the model was given, in order; None where the log does not show their list whole.

    New builds list them between the file's size and the vocabulary: nothing between them means that there are none.
    Older ones list them before they open the file.
    """
    if not load:
        return None
    if any(map(_nothing_between, load, load[1:])):
        return ()
    begin = next(index for index, line in enumerate(server) if line.number == load[0].number)
    lists = _device_lists(server[: begin + len(load)])
    if not lists:
        return None
    first, used = lists[-1]
    if first < _LINES_BEFORE or first + len(used) == len(server):
        return None
    totals = {match[1]: int(match[2]) for line in server if (match := _LISTED.match(line.message))}
    return tuple(UsedDevice(match[1], match[2], totals.get(match[1]), int(match[3])) for match in used)


def _device_lists(lines: Sequence[LogLine]) -> list[tuple[int, list[re.Match[str]]]]:
    """Return the unbroken lists of used devices, each with the index of its first line."""
    lists: list[tuple[int, list[re.Match[str]]]] = []
    for index, line in enumerate(lines):
        if match := _USING.match(line.message):
            if not lists or lists[-1][0] + len(lists[-1][1]) != index:
                lists.append((index, []))
            lists[-1][1].append(match)
    return lists


def _nothing_between(line: LogLine, after: LogLine) -> bool:
    adjacent = after.number == line.number + 1 and after.owner in _VOCABULARY_OWNERS
    return adjacent and line.owner in META_OWNERS and _FILE_SIZE.match(line.message) is not None


def read_buffers(
    context: Sequence[LogLine], devices: Sequence[UsedDevice] | None
) -> Mapping[BufferKind, tuple[Buffer, ...]]:
    """Return the buffers of every kind that the log shows whole.

    Of compute buffers, which may be reserved several times, those of the last time count.
    """
    found: dict[BufferKind, tuple[Buffer, ...]] = {}
    for kind, step in _STEPS.items():
        attempts = compute_attempts(context) if kind is BufferKind.COMPUTE else [list(context)]
        for lines in reversed(attempts):
            if shown_whole(lines, step):
                found[kind] = _add_up((line for line in lines if step_of(line) is step), devices or ())
                break
    return found


def _add_up(lines: Iterable[LogLine], devices: Sequence[UsedDevice]) -> tuple[Buffer, ...]:
    sizes: dict[str, float] = {}
    for line in lines:
        if match := _SIZE.match(line.message):
            sizes[match[1]] = round(sizes.get(match[1], 0.0) + float(match[2]), 4)
    return tuple(Buffer(name, device_of_buffer(name, devices), mib) for name, mib in sizes.items())


def device_of_buffer(name: str, devices: Sequence[UsedDevice]) -> str | None:
    """Return the device whose memory a buffer's name means, or None where the name does not tell.

    `RPC1[host:port]` counts the devices behind that one address: its device is the second that the log lists there.
    """
    if remote := _REMOTE_NAME.fullmatch(name):
        behind = [device.name for device in devices if device.description == remote[2]]
        index = int(remote[1] or 0)
        return behind[index] if index < len(behind) else None
    if _HOST_NAME.fullmatch(name):
        return HOST_DEVICE
    return name if _DEVICE_NAME.fullmatch(name) else None


def read_offload(load: Sequence[LogLine]) -> tuple[int | None, int | None]:
    """Return layers offloaded and layers in all, the output layer counted as one."""
    for line in reversed(load):
        if line.owner in LOADER_OWNERS and (match := _OFFLOADED.match(line.message)):
            return int(match[1]), int(match[2])
    return None, None


def read_layers(load: Sequence[LogLine]) -> int | None:
    """Return the model's layers, additional prediction layers included, the output layer not."""
    found = {
        bool(m[1]): int(m[2]) for line in load if line.owner in META_OWNERS and (m := _LAYERS_ALL.match(line.message))
    }
    return found.get(True, found.get(False))


def read_layer_devices(load: Sequence[LogLine], layers: int | None) -> tuple[str, ...] | None:
    """Return the device of each layer, the output layer last; None unless every layer is there."""
    devices: dict[int, str] = {}
    for line in load:
        if line.owner in LOADER_OWNERS and (match := _LAYER.match(line.message)):
            devices[int(match[1])] = match[2]
        elif match := _IK_LAYER.match(line.text):
            devices[int(match[1])] = f"device {match[2]}"
    if layers is None or set(devices) != set(range(layers + 1)):
        return None
    return tuple(devices[layer] for layer in range(layers + 1))


def read_overridden_tensors(load: Sequence[LogLine]) -> tuple[tuple[str, str], ...] | None:
    """Return the tensors that overrides sent elsewhere, with the buffer; None unless the log names every tensor."""
    begin = next((index for index, line in enumerate(load) if _LOADING.match(line.message)), None)
    if begin is None or not shown_whole(load, Step.MODEL_BUFFERS):
        return None
    if not any(line.owner == "create_tensor" for line in load[begin:]):
        return None
    return tuple((m[1], m[2]) for line in load[begin:] if (m := _OVERRIDDEN.match(line.text)))
