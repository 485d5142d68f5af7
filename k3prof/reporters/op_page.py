"""An op profile as sentences and headed tables of text, from which the terminal's and the Markdown page are drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath

from k3prof.core.ops.op_profile import Distortion, OpProfile, OpReport, Share
from k3prof.reporters.formats import UNKNOWN, count

SHARE_COLUMNS = ("", "share", "90 % interval", "if free")
LAYER_COLUMNS = ("layer", "", "share", "if free")

_TRUSTED = (0.9, 1.1)
"""What a stretch takes beside itself is little; where it is not, shares of its sum are not shares of a token."""
_EVEN = (0.8, 1.25)
_SMALL_FRAC = 0.005
"""Below that, rows of a long table are summed up in one."""


@dataclass(frozen=True)
class Row:
    """A line of a table.

    Attributes:
        cells: Its text, one per column.
        frac: Its share, for a bar.
    """

    cells: tuple[str, ...]
    frac: float


@dataclass(frozen=True)
class Section:
    """One headed table, whose shares sum to 1.

    Attributes:
        heading: What it shows.
        columns: Heads.
        rows: Lines.
        note: What a reader should take from it; empty for nothing.
    """

    heading: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str = ""


@dataclass(frozen=True)
class Chapter:
    """What is shown of passes of one kind.

    Attributes:
        heading: What was computed.
        facts: How it was measured, a sentence each.
        warnings: Reasons to doubt it.
        parts: Shares by part, the table to look at first.
        roles: Shares by role; None when nodes were not timed.
        ops: Shares by op; likewise.
        layers: Shares by layer.
    """

    heading: str
    facts: tuple[str, ...]
    warnings: tuple[str, ...]
    parts: Section
    roles: Section | None
    ops: Section | None
    layers: Section

    @property
    def sections(self) -> tuple[Section, ...]:
        """The tables, in the order in which they are shown."""
        return tuple(filter(None, (self.layers, self.ops, self.roles, self.parts)))


def title(report: OpReport) -> str:
    """Return what was profiled."""
    model = report.model
    name = model.name or PurePath(model.shards[0].path).name
    changed = "".join(f", {key} = {value}" for key, value in report.request.overrides)
    return f"{name} ({model.architecture}){changed}; build {report.build.name}: {report.build.version}"


def chapters(report: OpReport) -> Iterator[Chapter]:
    """Yield what is shown of each kind of pass."""
    for profile in report.profiles:
        yield Chapter(
            heading=_heading(profile, report.request.threads),
            facts=tuple(_facts(profile)),
            warnings=tuple(_warnings(profile.distortion)),
            parts=Section("by part", SHARE_COLUMNS, _rows(profile.by_part), _bound(profile)),
            roles=_optional("by role of the weights", profile.by_role),
            ops=_optional("by op", profile.by_op),
            layers=Section("by layer", LAYER_COLUMNS, tuple(map(_layer_row, profile.by_layer))),
        )


def pass_name(profile: OpProfile) -> str:
    """Return what one pass computes."""
    return "token" if profile.record.kind == "tg" else "prompt"


def _heading(profile: OpProfile, threads: int) -> str:
    record, passes = profile.record, len(profile.record.by_stretch.whole_ns)
    where = f"on {', '.join(profile.devices)} with {count(threads, 'thread')}"
    if record.kind == "tg":
        return f"decode: {count(passes, 'token')} one by one, {record.depth:,} in the context before, {where}"
    return f"prefill: {count(record.tokens, 'token')} at once, {count(passes, 'time')}, {where}"


def _facts(profile: OpProfile) -> Iterator[str]:
    found, one = profile.distortion, pass_name(profile)
    by_node = "" if found.by_node is None else f", timing all {found.working_nodes:,} nodes {found.by_node:.2f}×"
    yield (
        f"A {one} takes {_duration(found.plain_ns)}. Timing {found.stretches:,} stretches of the graph makes that "
        f"{found.by_stretch:.2f}×{by_node}: shares are what counts here, times are distorted."
    )
    closed = f"The stretches add up to {_percent(found.stretches_frac, 0)} of an untimed {one}"
    if found.nodes_frac is not None:
        closed += f", the nodes to {_percent(found.nodes_frac, 0)}: they only say how a stretch's time divides"
    wait = "" if found.wait_ns is None else f" {found.wait_ns / 1e3:.2f} µs of waiting are taken off each."
    yield f"{closed}.{wait}"


def _warnings(found: Distortion) -> Iterator[str]:
    if not _TRUSTED[0] <= found.stretches_frac <= _TRUSTED[1]:
        yield (
            "The stretches do not add up to what is computed untimed, and the bounds hold for their sum alone. If the "
            "machine was busy with something else, repeat this with more tokens."
        )
    if found.nodes_frac is not None and not _EVEN[0] <= found.nodes_frac / found.stretches_frac <= _EVEN[1]:
        yield (
            f"Single nodes add up to {_percent(found.nodes_frac / found.stretches_frac, 0)} of the stretches that they "
            "form: by op and by role, what consists of many small ops looks larger than it is."
        )


def _bound(profile: OpProfile) -> str:
    first = profile.by_part[0]
    what = "tokens would come" if profile.record.kind == "tg" else "the prompt would be read"
    if first.most_gain is None:
        return ""
    return f"If {first.name} were free, {what} at most {first.most_gain:.2f} times as fast."


def _optional(heading: str, shares: Sequence[Share] | None) -> Section | None:
    if shares is None:
        return None
    large = [one for one in shares if one.frac >= _SMALL_FRAC]
    small = [one for one in shares if one.frac < _SMALL_FRAC]
    if len(small) < 2:
        return Section(heading, SHARE_COLUMNS, _rows(shares))
    rest = Share(f"{len(small)} others", sum(one.frac for one in small), None, None)
    return Section(
        heading, SHARE_COLUMNS, (*_rows(large), Row((rest.name, _percent(rest.frac), "", _gain(rest)), rest.frac))
    )


def _rows(shares: Sequence[Share]) -> tuple[Row, ...]:
    return tuple(Row((one.name, _percent(one.frac), _interval(one), _gain(one)), one.frac) for one in shares)


def _layer_row(share: Share) -> Row:
    return Row((share.name, share.about, _percent(share.frac), _gain(share)), share.frac)


def _percent(frac: float, digits: int = 1) -> str:
    return f"{100 * frac:.{digits}f} %"


def _interval(share: Share) -> str:
    if share.low is None or share.high is None:
        return UNKNOWN
    return f"{100 * share.low:.1f}–{100 * share.high:.1f}"


def _gain(share: Share) -> str:
    return "" if share.most_gain is None else f"≤ {share.most_gain:.2f}×"


def _duration(ns: float) -> str:
    return f"{ns / 1e6:.1f} ms" if ns >= 1e7 else f"{ns / 1e6:.2f} ms"
