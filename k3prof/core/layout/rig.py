"""A machine as far as a prediction needs it: its devices' memory and speed, the host's, and what joins them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from k3prof.core.device import HOST, DeviceKind
from k3prof.core.flags import nearest
from k3prof.core.layout.hardware import DATASHEETS, Bandwidth
from k3prof.errors import ConfigError

MOST_DEVICES = 15
"""llama.cpp's scheduler takes 16 backends, the host among them."""

RESERVED_BYTES = 1024 * 2**20
"""Assumed to be taken before llama-server allocates anything: an idle A40 lists 578 MiB as used, and a CUDA context
takes some hundred more. A rig file can say better: `free_mib`."""

_MIB = 2**20


@dataclass(frozen=True)
class RigDevice:
    """One device that layers can live on.

    Attributes:
        name: As llama-server names it: `CUDA0`, `RPC0`.
        kind: What it is.
        model: What it is called by its maker; empty when not known.
        memory_bytes: All its memory; None when not known, or shared with others.
        free_bytes: What llama-server finds free; None when nobody has looked.
        bandwidth: How fast its memory can be read; None when not known.
        buffer_type: llama.cpp's name for its memory: `CUDA0`, `RPC0[127.0.0.1:50052]`.
    """

    name: str
    kind: DeviceKind
    model: str = ""
    memory_bytes: int | None = None
    free_bytes: int | None = None
    bandwidth: Bandwidth | None = None
    buffer_type: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "buffer_type", self.buffer_type or self.name)

    @property
    def usable_bytes(self) -> int | None:
        """What a model can take: what was found free, else all memory less `RESERVED_BYTES`; None when not known."""
        if self.free_bytes is not None or self.memory_bytes is None:
            return self.free_bytes
        return max(self.memory_bytes - RESERVED_BYTES, 0)


@dataclass(frozen=True)
class RigHost:
    """The side of the processor.

    Attributes:
        memory_bytes: Its memory; None when not known.
        bandwidth: How fast it can be read; None when not known.
        instruction_sets: The processor's extensions by the kernel's names; they decide which weights are repacked.
    """

    memory_bytes: int | None = None
    bandwidth: Bandwidth | None = None
    instruction_sets: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Link:
    """What joins the devices to the host and so to each other.

    Attributes:
        bandwidth: How fast data crosses it.
        latency_us: What a crossing costs however small it is; None when not known.
    """

    bandwidth: Bandwidth
    latency_us: float | None = None


@dataclass(frozen=True)
class Rig:
    """A machine.

    Attributes:
        name: What it is called in tables.
        devices: Its devices in llama-server's order, the host left out.
        host: The side of the processor.
        link: What joins them; None when not known.
    """

    name: str
    devices: tuple[RigDevice, ...]
    host: RigHost = field(default_factory=RigHost)
    link: Link | None = None

    def find(self, name: str) -> RigDevice | None:
        """Return the device of this name, or None."""
        return next((device for device in self.devices if device.name == name), None)

    def bandwidth(self, name: str) -> Bandwidth | None:
        """Return how fast a device's memory, or the host's, can be read; None when not known."""
        if name == HOST.name:
            return self.host.bandwidth
        device = self.find(name)
        return None if device is None else device.bandwidth


@dataclass(frozen=True)
class Gpu:
    """A GPU that one can name.

    Attributes:
        name: As in `hardware.DATASHEETS`.
        memory_mib: Its memory as `nvidia-smi` lists it, with ECC on where it has that.
        pcie_generation: Of its sixteen lanes to the host.
        product: What the driver calls it, where that is not `NVIDIA` (`GeForce`) and the name.
    """

    name: str
    memory_mib: int
    pcie_generation: int
    product: str = ""


GPUS = (
    Gpu("A40", 46_068, 4),
    Gpu("RTX 3090", 24_576, 4),
    Gpu("RTX 4090", 24_564, 4),
    Gpu("L40S", 46_068, 4),
    Gpu("A100 80 SXM", 81_920, 4, "NVIDIA A100-SXM4-80GB"),
    Gpu("H100 SXM", 81_559, 5, "NVIDIA H100 80GB HBM3"),
    Gpu("H200", 143_771, 5),
)

_PCIE_X16_GB_PER_S = {4: 31.5, 5: 63.0}
"""16 lanes × 16 (32) GT/s × 128/130, in one direction."""

_PART = re.compile(r"(?:(?P<count>[0-9]{1,3})\s*[x×*]\s*)?(?P<gpu>\S.*)")


def parse_rig(text: str) -> Rig:
    """Read a rig of GPUs in the table: `5xA40`, or `2xA40+1xL40S`.

    Raises:
        ConfigError: It names no such GPU, or more devices than llama.cpp takes.
    """
    gpus: list[Gpu] = []
    for part in text.split("+"):
        match = _PART.fullmatch(part.strip())
        count = int(match["count"] or 1) if match else 0
        if match is None or count == 0:
            raise ConfigError(
                f"--rig {text!r}: {part!r} is no number of GPUs", "write 5xA40, or the path of a rig.toml"
            )
        gpu = find_gpu(match["gpu"])
        if gpu is None:
            raise ConfigError(f"--rig {text!r}: no GPU in the table is called {match['gpu']!r}", _known(match["gpu"]))
        gpus += [gpu] * count
    if len(gpus) > MOST_DEVICES:
        raise ConfigError(f"--rig {text!r}: llama.cpp splits over at most {MOST_DEVICES} devices, not {len(gpus)}")
    devices = tuple(
        RigDevice(f"CUDA{index}", DeviceKind.CUDA, gpu.name, gpu.memory_mib * _MIB, bandwidth=bandwidth_of(gpu))
        for index, gpu in enumerate(gpus)
    )
    return Rig(text, devices, link=link_of(gpus))


def find_gpu(name: str) -> Gpu | None:
    """Return the GPU in the table that a name, or a product name such as `NVIDIA A40`, means; None for no such."""
    plain = _plain(name)
    short = plain.removeprefix("nvidia").removeprefix("geforce")
    return next((gpu for gpu in GPUS if short == _plain(gpu.name) or (plain and plain == _plain(gpu.product))), None)


def bandwidth_of(gpu: Gpu) -> Bandwidth:
    """Return a GPU's memory bandwidth by its datasheet."""
    return next(sheet for sheet in DATASHEETS if sheet.name == gpu.name)


def link_of(gpus: list[Gpu]) -> Link:
    """Return the link of the slowest of some GPUs, by the standard that it follows."""
    generation = min(gpu.pcie_generation for gpu in gpus)
    return Link(Bandwidth(f"PCIe {generation} x16", _PCIE_X16_GB_PER_S[generation], "datasheet"))


def _known(name: str) -> str:
    names = {_plain(gpu.name): gpu.name for gpu in GPUS}
    guess = nearest(_plain(name), names)
    if guess:
        return f"did you mean {names[guess]}?"
    return f"known are {', '.join(names.values())}; describe others in a rig.toml"


def _plain(name: str) -> str:
    return "".join(name.lower().split())
