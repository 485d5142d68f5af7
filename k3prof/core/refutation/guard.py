"""One variable at a time: whether two arms differ in what was declared to differ, and in nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from statistics import median

from k3prof.core.experiment import flag_text
from k3prof.core.refutation.effective import HOST, METADATA, Effective
from k3prof.core.trial import FlagValue, TrialSpec, Workload

ABSENT = "-"
_CLOCK_TOLERANCE = 0.03
"""Clocks move by a step or two of some 15 MHz with temperature; beyond this an arm ran on another machine in effect."""

_WORKLOAD, _BUILD = "workload", "build"
_TRACED_ELSEWHERE = frozenset({_WORKLOAD, _BUILD, "model", "splits"})
"""What the log need not show: the requests, the build's own identity and the model's fingerprint prove it."""

_PER_SEQUENCE = frozenset({"context of a sequence", "context of a slot", "KV cells"})
_BATCHES = frozenset({"batch", "ubatch"})
"""The context limits the batch, and the batch the ubatch."""
_CACHES = frozenset({"K cache", "V cache"})
_CACHE_TYPES = ("cache-type-k", "cache-type-v")

_MEANS: Mapping[str, frozenset[str]] = {
    "ctx-size": frozenset({"context"}) | _PER_SEQUENCE | _BATCHES,
    "parallel": frozenset({"sequences", "slots", "context", "unified KV cache"}) | _PER_SEQUENCE | _BATCHES,
    "kv-unified": frozenset({"unified KV cache"}) | _PER_SEQUENCE,
    "kv-unified-per-slot": frozenset({"context", "unified KV cache"}) | _PER_SEQUENCE,
    "batch-size": _BATCHES,
    "ubatch-size": _BATCHES,
    "flash-attn": frozenset({"flash attention"}),
    "cache-type-k": _CACHES,
    "cache-type-v": _CACHES,
    "build": frozenset({"build"}),
    "override-kv": frozenset({"experts used"}),
    "threads": frozenset({"threads", "threads for prompts"}),
    "threads-batch": frozenset({"threads for prompts"}),
    "load-mode": frozenset({"load mode"}),
    "mmap": frozenset({"load mode"}),
    "direct-io": frozenset({"load mode"}),
    "mlock": frozenset({"load mode"}),
    "spec-type": frozenset({"rollback states"}),
    "spec-draft-n-max": frozenset({"rollback states"}),
    "samplers": frozenset({"sampler chain"}),
    "sampler-seq": frozenset({"sampler chain"}),
}
"""Settings that change because a flag says just that."""


@dataclass(frozen=True)
class Difference:
    """One thing that two arms do not share.

    Attributes:
        name: As the user writes it: `n-cpu-moe`, `env.GGML_CUDA_P2P`, `workload`; or as a log's fact is called.
        baseline: Its value in the baseline; `-` where it is not set.
        candidate: Its value in the candidate.
    """

    name: str
    baseline: str
    candidate: str

    @property
    def text(self) -> str:
        """For people: `n-cpu-moe (- → 4)`."""
        return f"{self.name} ({self.baseline} → {self.candidate})"


def asked_differences(
    baseline: TrialSpec, candidate: TrialSpec, baseline_workload: Workload, candidate_workload: Workload
) -> tuple[Difference, ...]:
    """Return what two arms are asked to do differently; a value that is only written otherwise does not count."""
    return tuple(_differences(_asked(baseline, baseline_workload), _asked(candidate, candidate_workload)))


def asked_obstacle(asked: Sequence[Difference], varies: str | None) -> str:
    """Return why two arms cannot be compared, by what they are asked; empty when they can.

    Args:
        asked: What they are asked to do differently.
        varies: The one thing declared to differ; None for whatever one thing does.
    """
    if not asked:
        return "the change did not take: both arms ask for the same"
    names = {difference.name for difference in asked}
    if varies is not None and varies not in names:
        return f"the change did not take: both arms ask for the same {varies}"
    others = [difference for difference in _separate(asked, varies) if difference.name != varies]
    if varies is not None and others:
        return f"confounded by {_listed(others)}, although only {varies} was to differ"
    if varies is None and len(others) > 1:
        return f"confounded by {_listed(others)}: these differ at once"
    return ""


def guard(
    asked: Sequence[Difference], varies: str | None, baseline: Sequence[Effective], candidate: Sequence[Effective]
) -> str:
    """Return why two arms cannot be compared, by what their servers really ran with; empty when they can.

    Args:
        asked: What they are asked to do differently.
        varies: The one thing declared to differ; None for whatever one thing does.
        baseline: What each leg of the baseline ran with; those whose log is missing are left out.
        candidate: Likewise.
    """
    if obstacle := asked_obstacle(asked, varies):
        return obstacle
    for legs, arm in ((baseline, "baseline"), (candidate, "candidate")):
        if moved := _moved(legs):
            return f"confounded by {_listed(moved)}: the {arm} did not run alike in all of its legs"
    if not baseline or not candidate:
        return ""
    declared = next(one for one in asked if one.name == varies) if varies else asked[0]
    before, after = baseline[0], candidate[0]
    strange = [*_unasked(declared, before, after), *_clock_differences(baseline, candidate)]
    if strange:
        return f"confounded by {_listed(strange)}, although only {declared.name} was to differ"
    return _not_taken(declared, before, after)


def _unasked(declared: Difference, before: Effective, after: Effective) -> Iterator[Difference]:
    """Yield the settings that changed without the declared variable saying so."""
    means = _MEANS.get(declared.name, frozenset())
    for one in _changed(before.settings, after.settings):
        overridden = declared.name == "override-kv" and one.name.startswith(METADATA)
        if one.name not in means and not overridden:
            yield one


def _not_taken(declared: Difference, before: Effective, after: Effective) -> str:
    """Return that a change left no trace; empty when it did, or when the logs do not show where a trace would be."""
    if declared.name in _TRACED_ELSEWHERE or not before.consequences.keys() & after.consequences.keys():
        return ""
    if any(_changed(before.settings, after.settings)) or any(_changed(before.consequences, after.consequences)):
        return ""
    return f"the change did not take: nothing in the server's log shows {declared.text}{_usual_cause(declared, after)}"


def _separate(asked: Sequence[Difference], varies: str | None) -> list[Difference]:
    """Return what differs by itself: where K and V caches change alike, a model with one latent for both has no choice.

    Args:
        asked: What arms are asked to do differently.
        varies: The one thing declared to differ.
    """
    caches = [one for one in asked if one.name in _CACHE_TYPES]
    if len({(one.baseline, one.candidate) for one in caches}) != 1:
        return list(asked)
    kept = next((one for one in caches if one.name == varies), caches[0])
    return [one for one in asked if one.name not in _CACHE_TYPES or one is kept]


def _asked(spec: TrialSpec, workload: Workload) -> dict[str, str]:
    return {
        **{name: flag_text(_plain(value)) for name, value in spec.flags.items()},
        **{f"env.{name}": value for name, value in spec.env.items()},
        _WORKLOAD: workload.name,
        _BUILD: spec.build,
        "model": spec.model,
        "devices": ", ".join(spec.devices),
        "splits": str(spec.splits),
    }


def _plain(value: FlagValue) -> FlagValue:
    """Return a number without its spelling: 1.0 is 1."""
    if isinstance(value, tuple):
        return tuple(int(one) if isinstance(one, float) and one.is_integer() else one for one in value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _differences(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    for name in dict.fromkeys(chain(after, before)):
        pair = before.get(name, ABSENT), after.get(name, ABSENT)
        if pair[0] != pair[1]:
            yield Difference(name, *pair)


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[Difference]:
    """Yield what two servers did differently, of what is known of both."""
    for one in _differences(before, after):
        if ABSENT not in (one.baseline, one.candidate) or one.name.startswith(METADATA):
            yield one


def _moved(legs: Sequence[Effective]) -> list[Difference]:
    """Return what differs among the legs of one arm.

    Not the machine: a round that ran elsewhere, or after an upgrade, had both arms there and compares them soundly.
    """
    return list(
        dict.fromkeys(
            difference
            for leg, later in pairwise(legs)
            for difference in (
                *_changed(leg.settings, later.settings),
                *_changed(leg.consequences, later.consequences),
            )
            if difference.name not in HOST
        )
    )


def _clock_differences(baseline: Sequence[Effective], candidate: Sequence[Effective]) -> list[Difference]:
    found = []
    for name in dict.fromkeys(chain.from_iterable(leg.clocks_mhz for leg in baseline)):
        before, after = _middle(name, baseline), _middle(name, candidate)
        if before and after and abs(after / before - 1) > _CLOCK_TOLERANCE:
            found.append(Difference(name, f"{before:.0f} MHz", f"{after:.0f} MHz"))
    return found


def _middle(clock: str, legs: Iterable[Effective]) -> float | None:
    known = [leg.clocks_mhz[clock] for leg in legs if clock in leg.clocks_mhz]
    return median(known) if known else None


def _usual_cause(value: Difference, after: Effective) -> str:
    if value.name != "override-kv" or not after.architecture:
        return ""
    given = value.baseline if value.candidate == ABSENT else value.candidate
    prefixes = {part.partition("=")[0].partition(".")[0] for part in given.split(",")}
    wrong = sorted(prefixes - {after.architecture, "general", "tokenizer"})
    return f"; this model's keys begin with {after.architecture}, not with {' or '.join(wrong)}" if wrong else ""


def _listed(differences: Sequence[Difference]) -> str:
    *most, last = [difference.text for difference in differences]
    return f"{', '.join(most)} and {last}" if most else last
