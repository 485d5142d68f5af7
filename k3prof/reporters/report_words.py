"""A sweep in plain words: what was fastest, what P says here, and what it cannot say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from k3prof.core.device import DeviceKind
from k3prof.core.imported import is_imported
from k3prof.core.tracing_cost import serialized
from k3prof.core.trial import TrialRecord, TrialStatus
from k3prof.reporters import formats, ranking


def lead(found: Sequence[ranking.Section], trials: Sequence[TrialRecord]) -> str:
    """Return the sweep's answer in one sentence."""
    if not found and any(is_imported(trial.spec) for trial in trials):
        return "Recorded by another program, which does not say what was asked of the server."
    if not found:
        return "Nothing was measured."
    section = found[0]
    best = ranking.best(section)
    compared = sum(row.place is not None for row in section.rows)
    if best is None or best.found is None or best.found.rate is None:
        return f"None of {formats.count(len(section.rows), 'placement')} gave a rate for {section.workload.name}."
    rate, parallelism = best.found.rate, best.found.parallelism
    extent = ", ".join(filter(None, [formats.rate_range(rate), formats.repetitions(rate)]))
    degree = f"{formats.degree(parallelism)} {formats.interval(parallelism)}".rstrip()
    among = f"Fastest of {formats.count(compared, 'placement')}" if compared > 1 else "The only placement to compare"
    return (
        f"{among} in {section.workload.name}: {best.summary.placement}, {formats.rate(rate.median)} tok/s ({extent}), "
        f"P\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}{degree}."
    )


def meaning(found: Sequence[ranking.Section], trials: Sequence[TrialRecord]) -> Iterator[str]:
    """Return paragraphs on P: what it is, what it was here, what it proves and what it does not."""
    yield (
        "P, the parallelism degree, is the sum of the devices' mean busy shares: how many devices were busy at a time, "
        "on average. It does not depend on the window that a counter averages over. The host's processor is shown but "
        "not counted."
    )
    for section in found:
        text = _degrees(section, trials)
        if text:
            yield text
    yield (
        "P above 1 proves overlap: some of the time at least two devices worked at once. P of 1 or less does not prove "
        "that they took turns, for two devices that are busy half of the time, and the same half, give 1 as well. "
        "Where a counter is finer than a device's part of a token, the timeline shows the turns themselves. "
        "Busy is not efficient: a device that waits for its own memory counts as busy."
    )
    if any(device.kind is DeviceKind.STAND_IN for trial in trials for device in trial.devices):
        yield (
            "The devices are stand-in devices: processes on this machine's processor that play the part of GPUs. How "
            "work passes between them carries over to GPUs; tokens per second do not."
        )


def _degrees(section: ranking.Section, trials: Sequence[TrialRecord]) -> str:
    observed = [
        (row.found.parallelism, row.summary.placement)
        for row in section.rows
        if row.summary.outcome.status is TrialStatus.OK and row.found is not None and row.found.parallelism is not None
    ]
    if not observed and any(serialized(trial.spec, section.workload) for trial in trials):
        return (
            f"In {section.workload.name} P is unknown: the exact split tracer waited for each split, so that devices "
            "could not overlap as they would without it."
        )
    if not observed:
        return f"In {section.workload.name} P is unknown: no placement was observed on every device."
    observed.sort(key=lambda pair: pair[0].degree)
    (least, least_name), (most, most_name) = observed[0], observed[-1]
    if len(observed) == 1:
        text = f"In {section.workload.name} P was {formats.degree(least)} ({least_name})."
    else:
        text = (
            f"In {section.workload.name} P went from {formats.degree(least)} ({least_name}) "
            f"to {formats.degree(most)} ({most_name})."
        )
    overlapping = sum(parallelism.proves_overlap for parallelism, _ in observed)
    if overlapping:
        return f"{text} Devices provably overlapped in {overlapping} of {formats.count(len(observed), 'placement')}."
    return f"{text} No placement's interval lies above 1, so none is shown to overlap."
