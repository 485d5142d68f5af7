"""Sizes of compute buffers, asked of a build: on the devices themselves, or on stand-ins in their place."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.experiment import MIN_STAND_INS, flag_text
from k3prof.core.layout.headroom import ComputeBuffers, ComputeOrigin
from k3prof.core.layout.overrides import OVERRIDE_TENSOR, with_buffer_types
from k3prof.core.layout.placed import Placed
from k3prof.core.layout.placement import used_devices
from k3prof.core.layout.rig import Rig
from k3prof.core.trial import FlagValue
from k3prof.llama.devices import DevicePlan, plan_devices, running_devices, stand_in_buffer_types
from k3prof.llama.fit_params import ask_memory

_MIB = 2**20


@dataclass(frozen=True)
class ComputeOracle:
    """Can be asked for compute buffers as long as its devices run.

    Attributes:
        build: Whose llama-fit-params to ask.
        model: The model's file.
        endpoints: `host:port` of each stand-in.
        env: What makes the program see just the devices meant.
        names: The devices that it asks about, to those of the rig.
        origin: What the answers are worth.
    """

    build: Build
    model: Path
    endpoints: tuple[str, ...]
    env: Mapping[str, str]
    names: Mapping[str, str]
    origin: ComputeOrigin

    def ask(self, placed: Placed) -> ComputeBuffers:
        """Return what a placement's compute buffers take.

        Raises:
            MachineError: llama-fit-params fails.
        """
        flags = _for_devices(placed, {theirs: ours for ours, theirs in self.names.items()}, self.endpoints)
        asked = ask_memory(self.build, flags, model=self.model, endpoints=self.endpoints, env=self.env)
        sizes = {self.names.get(name, name): memory.compute_mib * _MIB for name, memory in asked.items()}
        return ComputeBuffers(self.origin, sizes)


@contextmanager
def compute_oracle(build: Build, model: Path, rig: Rig, plan: DevicePlan | None) -> Iterator[ComputeOracle]:
    """Make ready to ask for compute buffers, and stop what that took in the end.

    Args:
        build: Whose programs to run.
        model: The model's file.
        rig: The machine that the prediction is for.
        plan: This machine's devices; None when the rig is another, whose part stand-ins then play.

    Raises:
        MachineError: A stand-in does not start.
    """
    played = plan is None
    count = max(len(rig.devices), MIN_STAND_INS)
    plan = plan or plan_devices(f"rpc:{count}", build, ())
    names = [device.name for device in (plan.stand_ins if played else plan.devices)]
    with tempfile.TemporaryDirectory(prefix="k3prof-") as folder, running_devices(plan, build, Path(folder)) as running:
        yield ComputeOracle(
            build=build,
            model=model,
            endpoints=running.endpoints[: len(rig.devices)],
            env=plan.env,
            names=dict(zip(names, (device.name for device in rig.devices), strict=False)),
            origin=ComputeOrigin.PLAYED if played else ComputeOrigin.ASKED,
        )


def _for_devices(placed: Placed, names: Mapping[str, str], endpoints: tuple[str, ...]) -> dict[str, FlagValue]:
    """Return a placement's flags with the devices that are asked in place of the rig's own."""
    flags, rig = dict(placed.reader.flags), placed.rig
    if "device" in flags:
        flags["device"] = ",".join(names.get(name, name) for name in flag_text(flags["device"]).split(","))
    if endpoints and OVERRIDE_TENSOR in flags:
        buffer_types = stand_in_buffer_types([device.name for device in rig.devices], endpoints)
        flags[OVERRIDE_TENSOR] = with_buffer_types(flags[OVERRIDE_TENSOR], buffer_types)
    usable = [device.usable_bytes for device in used_devices(placed.reader, rig)]
    if endpoints and usable and all(usable):
        # Stand-ins have equal memory, by which llama.cpp would split.
        flags.setdefault("tensor-split", tuple(size for size in usable if size))
    return flags
