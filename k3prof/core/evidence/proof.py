"""What a trial proves about itself: asked against done, and memory predicted against memory allocated, term by term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.device import Device, DeviceKind
from k3prof.core.evidence.certificate import Certificate, certify
from k3prof.core.evidence.loaded import BufferKind, LoadedServer
from k3prof.core.layout.planned_buffers import PlannedBuffer
from k3prof.core.trial import Caveat, FlagValue

_MIB = 2**20
_AGREEMENT_MIB = 0.015
"""The log's last digit is 0.01 MiB, and a device's sum may be of two rounded lines."""
_PREDICTED_KINDS = (BufferKind.MODEL, BufferKind.KV, BufferKind.STATE)


@dataclass(frozen=True)
class MemoryTerm:
    """One kind of memory on one device.

    Attributes:
        device: The device's name.
        kind: What it holds.
        predicted_mib: What was predicted before the server started; None when nothing was.
        actual_mib: What the server's log says it allocated; None when it does not say.
    """

    device: str
    kind: BufferKind
    predicted_mib: float | None
    actual_mib: float | None

    @property
    def agrees(self) -> bool | None:
        """Whether both are equal to the log's last digit, 0.01 MiB; None when one is not known."""
        if self.predicted_mib is None or self.actual_mib is None:
            return None
        return abs(self.predicted_mib - self.actual_mib) < _AGREEMENT_MIB


@dataclass(frozen=True)
class Proof:
    """What a trial's log proves.

    Attributes:
        certificate: Whether it did what was asked.
        memory: One term per device and kind. A total that agrees while its terms do not proves nothing, so there is
            none.
    """

    certificate: Certificate
    memory: tuple[MemoryTerm, ...]

    @property
    def caveats(self) -> tuple[Caveat, ...]:
        """Reasons to doubt the trial's figures: the certificate's, and memory that is not where it was predicted."""
        different = [term for term in self.memory if term.agrees is False]
        if not different:
            return self.certificate.caveats
        shown = ", ".join(
            f"{term.kind} on {term.device} {term.actual_mib:.2f} MiB instead of {term.predicted_mib:.2f}"
            for term in different
        )
        caveat = Caveat(
            "memory-differs", f"not as predicted: {shown}", "`k3prof predict` shows what was expected, and why"
        )
        return (*self.certificate.caveats, caveat)


def prove(
    flags: Mapping[str, FlagValue],
    devices: Sequence[Device],
    predicted: Sequence[PlannedBuffer] | None,
    done: LoadedServer,
) -> Proof:
    """Hold what was asked of a server, and what was predicted of it, against what its log says was done.

    Args:
        flags: What it was asked, as it got it.
        devices: What it could use, the host among them.
        predicted: The buffers that were predicted before it started; None when nothing was.
        done: What its log says.
    """
    names = [device.name for device in devices if device.kind is not DeviceKind.CPU]
    certificate = certify(flags, done, names)
    return Proof(certificate, _terms([device.name for device in devices], predicted, done))


def _terms(
    devices: Sequence[str], predicted: Sequence[PlannedBuffer] | None, done: LoadedServer
) -> tuple[MemoryTerm, ...]:
    terms = [
        MemoryTerm(device, kind, _predicted_mib(device, kind, predicted), _actual_mib(device, kind, done))
        for kind in BufferKind
        for device in devices
    ]
    return tuple(term for term in terms if term.predicted_mib or term.actual_mib)


def _predicted_mib(device: str, kind: BufferKind, predicted: Sequence[PlannedBuffer] | None) -> float | None:
    if predicted is None or kind not in _PREDICTED_KINDS:
        return None
    sizes = [buffer.n_bytes for buffer in predicted if (buffer.device, buffer.kind) == (device, kind)]
    return sum(sizes) / _MIB


def _actual_mib(device: str, kind: BufferKind, done: LoadedServer) -> float | None:
    by_device = done.mib_by_device(kind)
    return None if by_device is None else by_device.get(device, 0.0)
