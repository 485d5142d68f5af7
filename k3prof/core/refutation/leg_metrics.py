"""The metrics that hypotheses can be about: what each says of a leg, and why it may be unknown."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from typing import Literal

from k3prof.core.device import HOST
from k3prof.core.flags import nearest
from k3prof.core.ledger import LineKind
from k3prof.core.metrics import METRICS
from k3prof.core.ops.op_shares import PARTS, ROLES
from k3prof.core.refutation import leg_figures
from k3prof.core.refutation.evidence import Figure
from k3prof.core.refutation.leg import MeasuredLeg
from k3prof.core.refutation.leg_bandwidth import bandwidth_frac, bandwidth_gb_s
from k3prof.core.trial import Workload


class Need(StrEnum):
    """What must be observed or known of a leg, beyond its requests and the counters that are always on."""

    SPLITS = "an exact split trace"
    OPS = "an op profile"
    BANDWIDTH = "the devices' memory bandwidths"
    PRICE = "the machine's price per hour"
    ENERGY = "the GPUs' energy counters"


@dataclass(frozen=True)
class LegMetric:
    """One figure that a leg yields for a workload.

    Attributes:
        name: As hypotheses name it.
        unit: Unit of the value; empty for a share.
        better: Which way is better; None where neither is.
        about: What it is, in a few words with its formula.
        low: The least that it can be.
        high: The most that it can be; inf where nothing limits it.
        workload_kind: The kind of workload that it is about; None for either.
        needs: What must be observed or known for it.
        compute: Its value; None where it is not known.
        unknown: Why it can be unknown although the leg's requests ended well, as a sentence.
    """

    name: str
    unit: str
    better: Literal["higher", "lower"] | None
    about: str
    low: float
    high: float
    workload_kind: Literal["pp", "tg"] | None
    needs: frozenset[Need]
    compute: Callable[[MeasuredLeg, Workload], Figure | None]
    unknown: str


_NOTHING: frozenset[Need] = frozenset()
_KINDS: Mapping[str, Literal["pp", "tg"]] = {"pp": "pp", "tg": "tg", "itl": "tg"}
_NO_REPETITION = "no repetition ended well, or the server did not tell its times"
_NOT_TRACED = "splits were not traced in the exact mode, or some of their ends were lost"
_NOT_PROFILED = "its ops were not profiled, or no such {} was found in the model's graph"

_LEDGER_LINES = {
    "devices": (LineKind.DEVICE, "in which one device computes and nothing else does"),
    "at_once": (LineKind.AT_ONCE, "in which several devices compute at once, which the exact trace itself prevents"),
    "host_compute": (LineKind.HOST_COMPUTE, "in which only the host computes part of the graph"),
    "copies": (LineKind.COPIES, "in which a tensor is on its way and nothing computes"),
    "scheduler": (LineKind.SCHEDULER, "in which splits are handed out and devices waited for"),
    "between": (LineKind.BETWEEN, "between two passes: sampling and HTTP"),
    "unexplained": (LineKind.UNEXPLAINED, "that no record explains"),
}

_DEVICE_NAME = re.compile(r"[A-Z][A-Za-z]*[0-9]+")
_OP_NAME = re.compile(r"[a-z][a-z0-9_]*")
_EXAMPLES = (f"busy.{HOST.name}", "busy.CUDA0", "busy.RPC0", "op.mul_mat", "op.mul_mat_id")


def _of_requests() -> Iterable[LegMetric]:
    for one in METRICS.values():
        yield LegMetric(
            name=one.name,
            unit=one.unit,
            better=one.better,
            about=f"{one.about}; median over repetitions",
            low=0.0,
            high=math.inf,
            workload_kind=_KINDS.get(one.name),
            needs=_NOTHING,
            compute=partial(leg_figures.of_requests, one.name),
            unknown=_NO_REPETITION,
        )


def _of_counters() -> Iterable[LegMetric]:
    yield LegMetric(
        name="parallelism",
        unit="devices",
        better="higher",
        about="devices busy at a time: the sum of their mean busy shares in prefill (pp) or decode (tg)",
        low=0.0,
        high=math.inf,
        workload_kind=None,
        needs=_NOTHING,
        compute=leg_figures.parallelism,
        unknown="a device has no busy counter, or the phase was too short for it",
    )
    yield LegMetric(
        name="energy_per_token",
        unit="J",
        better="lower",
        about="energy of all GPUs together in prefill (pp) or decode (tg), per token; the host's is not in it",
        low=0.0,
        high=math.inf,
        workload_kind=None,
        needs=frozenset({Need.ENERGY}),
        compute=leg_figures.energy_per_token,
        unknown="the driver offers no energy counter of one of the devices, or the phase was too short for it",
    )


def _of_bandwidth() -> Iterable[LegMetric]:
    for name, unit, high, compute, against in (
        ("bandwidth_frac", "", 1.0, bandwidth_frac, "over what the device whose turn it is could read meanwhile"),
        ("bandwidth_gb_s", "GB/s", math.inf, bandwidth_gb_s, "per second"),
    ):
        yield LegMetric(
            name=name,
            unit=unit,
            better="higher",
            about=f"bytes that decode needs, by the model's tensors and caches, {against}",
            low=0.0,
            high=high,
            workload_kind="tg",
            needs=frozenset({Need.BANDWIDTH}),
            compute=compute,
            unknown="the bandwidth of a device that reads, the model's caches, or where its tensors lie is not known",
        )


def _of_ledger() -> Iterable[LegMetric]:
    for name, (kind, which) in _LEDGER_LINES.items():
        for family, unit, high, compute, what in (
            ("ledger", "", 1.0, leg_figures.ledger_share, "share of a token's time"),
            ("ledger_ms", "ms", math.inf, leg_figures.ledger_ms, "milliseconds of a token"),
        ):
            yield LegMetric(
                name=f"{family}.{name}",
                unit=unit,
                better=None if name in ("devices", "at_once") else "lower",
                about=f"{what} {which}",
                low=0.0,
                high=high,
                workload_kind=None,
                needs=frozenset({Need.SPLITS}),
                compute=partial(compute, kind),
                unknown=_NOT_TRACED,
            )


def _of_money_and_time() -> Iterable[LegMetric]:
    yield LegMetric(
        name="usd_per_million",
        unit="USD",
        better="lower",
        about="price of a million tokens at the workload's rate: price per hour / 3600 / (tok/s) × 10⁶",
        low=0.0,
        high=math.inf,
        workload_kind=None,
        needs=frozenset({Need.PRICE}),
        compute=leg_figures.usd_per_million,
        unknown="the machine's price per hour is not given",
    )
    yield LegMetric(
        name="load_s",
        unit="s",
        better="lower",
        about="seconds from the server's start until it answered",
        low=0.0,
        high=math.inf,
        workload_kind=None,
        needs=_NOTHING,
        compute=leg_figures.load_time,
        unknown="the server never answered",
    )


def _of_ops() -> Iterable[LegMetric]:
    for name, part in PARTS.items():
        yield _op_share(name, f"share of a decode pass's computing, by part of the model: {part}", "part")
    for name, role in ROLES.items():
        yield _op_share(name, f"share of a decode pass's computing, by the weights that an op uses: {role}", "role")


def _op_share(name: str, about: str, family: str) -> LegMetric:
    return LegMetric(
        name=name,
        unit="",
        better=None,
        about=about,
        low=0.0,
        high=1.0,
        workload_kind="tg",
        needs=frozenset({Need.OPS}),
        compute=partial(leg_figures.op_share, name),
        unknown=_NOT_PROFILED.format(family),
    )


def _busy(device: str) -> LegMetric:
    # llama-server has more than one thread, a device one counter that ends at 1.
    high = math.inf if device == HOST.name else 1.0
    return LegMetric(
        name=f"busy.{device}",
        unit="",
        better=None,
        about=f"mean busy share of {device} in prefill (pp) or decode (tg)",
        low=0.0,
        high=high,
        workload_kind=None,
        needs=_NOTHING,
        compute=partial(leg_figures.busy, device),
        unknown=f"there is no device {device}, it has no busy counter, or the phase was too short for it",
    )


LEG_METRICS: Mapping[str, LegMetric] = {
    metric.name: metric
    for metrics in (_of_requests, _of_counters, _of_bandwidth, _of_ledger, _of_money_and_time, _of_ops)
    for metric in metrics()
}
"""All metrics but the two families whose names a machine and a model decide: `busy.RPC0`, `op.mul_mat_id`."""


def find_metric(name: str) -> LegMetric | None:
    """Return the metric of this name, those of `busy.<DEVICE>` and `op.<OP>` among them; None when there is none."""
    family, _, member = name.partition(".")
    if family == "busy" and (member == HOST.name or _DEVICE_NAME.fullmatch(member)):
        return _busy(member)
    if family == "op" and _OP_NAME.fullmatch(member):
        return _op_share(name, f"share of a decode pass's computing in ops of the kind {member.upper()}", "op")
    return LEG_METRICS.get(name)


def metric_names() -> list[str]:
    """Return all names, for lists and suggestions; of the two open families `busy` and `op` some members."""
    return [*LEG_METRICS, *_EXAMPLES]


def nearest_metric(name: str) -> str | None:
    """Return the metric's name most like an unknown one, `op.mul_mat` for `op.MUL_MAT`; None when nothing is alike."""
    lower = name.lower()
    if find_metric(lower):
        return lower
    written = {known.lower(): known for known in metric_names()}
    near = nearest(lower, written)
    return written[near] if near else None
