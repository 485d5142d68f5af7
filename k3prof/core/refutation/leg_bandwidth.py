"""What share of the devices' memory bandwidth a leg's decode achieved."""

from __future__ import annotations

from k3prof.core.device import HOST, Device, DeviceKind
from k3prof.core.evidence.check import NO
from k3prof.core.layout.flag_reader import FlagReader, known_names
from k3prof.core.layout.placed import Placed, lay_out
from k3prof.core.layout.prediction import decode_step
from k3prof.core.layout.rig import Rig, RigDevice, RigHost
from k3prof.core.layout.roofline import Achieved, achieved, roofline
from k3prof.core.layout.traps import split_mode_trap
from k3prof.core.refutation.evidence import Figure
from k3prof.core.refutation.leg import MeasuredLeg
from k3prof.core.refutation.leg_figures import rate, undisturbed
from k3prof.core.trial import Workload
from k3prof.errors import ConfigError


def bandwidth_frac(leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return the bytes that decode needed over what the device whose turn it was could have read; see `Achieved`."""
    found = _achieved(leg, workload)
    return None if found is None else Figure(found.of_one_device_frac)


def bandwidth_gb_s(leg: MeasuredLeg, workload: Workload) -> Figure | None:
    """Return the bytes that decode needed per second of wall time, in 10⁹ bytes."""
    found = _achieved(leg, workload)
    return None if found is None else Figure(found.gb_per_s)


def _achieved(leg: MeasuredLeg, workload: Workload) -> Achieved | None:
    if workload.kind != "tg" or _drafts(leg, workload):
        return None
    placed, tokens_per_s = _lay_out(leg), rate(leg, workload)
    if placed is None or tokens_per_s is None:
        return None
    ceilings = roofline(placed.model, placed.layout, placed.rig, decode_step(workload, placed.layout))
    return achieved(ceilings, tokens_per_s)


def _drafts(leg: MeasuredLeg, workload: Workload) -> bool:
    """Return whether tokens were drafted: how many passes were made for them is then not known."""
    return any(one.timings.draft_n for one in undisturbed(leg.trial, workload).requests)


def _lay_out(leg: MeasuredLeg) -> Placed | None:
    """Return where the model lay; None where that does not follow from the flags."""
    if leg.model is None:
        return None
    flags = known_names(leg.trial.spec.flags)
    reader = FlagReader(flags, "flags.{}".format)
    if reader.text("fit", "off") not in NO or split_mode_trap(leg.model, reader):
        return None
    try:
        return lay_out(leg.model, flags, _rig(leg), reader.where)
    except ConfigError:
        # The server understood what this rule of placement does not.
        return None


def _rig(leg: MeasuredLeg) -> Rig:
    devices = tuple(_rig_device(one, leg) for one in leg.trial.devices if one.kind is not DeviceKind.CPU)
    return Rig("the trial's machine", devices, RigHost(bandwidth=leg.bandwidths.get(HOST.name)))


def _rig_device(device: Device, leg: MeasuredLeg) -> RigDevice:
    bandwidth = leg.bandwidths.get(device.name)
    return RigDevice(device.name, device.kind, memory_bytes=device.memory_bytes, bandwidth=bandwidth)
