"""Hypotheses made ready to be tested: read, checked, and the servers that they need prepared."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path

from k3prof.core.refutation.gather import Question, splits_for
from k3prof.core.refutation.hypothesis import Hypothesis
from k3prof.core.refutation.leg_metrics import LegMetric, Need, find_metric
from k3prof.core.spans import SplitMode
from k3prof.core.trial import TrialSpec
from k3prof.errors import ConfigError
from k3prof.store.config import HYPOTHESES_FILE, Overrides, load_experiment
from k3prof.store.hypotheses_file import load_hypotheses
from k3prof.workflows.rig import PreparedSweep, prepare


@dataclass(frozen=True)
class Asked:
    """What is asked of each placement.

    Attributes:
        specs: By the way of tracing, then by the placement's name.
        ineffective: What a placement asks for and llama-server would silently ignore, by its name.
    """

    specs: Mapping[SplitMode, Mapping[str, TrialSpec]]
    ineffective: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class PreparedRefutation:
    """Hypotheses whose every file, flag and device has been checked.

    Attributes:
        hypotheses: What is claimed, in the order of the file.
        sweeps: What their legs run, by the way of tracing that their metrics need.
    """

    hypotheses: tuple[Hypothesis, ...]
    sweeps: Mapping[SplitMode, PreparedSweep]

    @property
    def first(self) -> PreparedSweep:
        """One of the sweeps, for what they all share: build, devices, model, settings."""
        return next(iter(self.sweeps.values()))

    @property
    def asked(self) -> Asked:
        """What is asked of each placement."""
        specs = {mode: {spec.placement: spec for spec in one.specs} for mode, one in self.sweeps.items()}
        ignored = {
            name: f"{error.message}, which llama-server silently ignores; {error.hint}"
            for name, error in self.first.ineffective.items()
        }
        return Asked(specs, ignored)

    def placements_of(self, mode: SplitMode) -> set[str]:
        """Return the placements that hypotheses need to be traced in one way."""
        return {arm.placement for one in self.hypotheses if splits_for(metric_of(one)) is mode for arm in one.arms}

    def needs(self, need: Need) -> bool:
        """Whether a hypothesis needs something to be observed or known."""
        return any(need in metric_of(one).needs for one in self.hypotheses)


def prepare_refutation(
    folder: Path, overrides: Overrides, only: str | None = None, inherited_env: Mapping[str, str] = os.environ
) -> PreparedRefutation:
    """Check everything that testing the hypotheses of an experiment needs.

    Args:
        folder: The experiment's folder, with its `hypotheses.toml`.
        overrides: What the command line says.
        only: Hypotheses to test: an id, where `*` and `?` stand for anything; None for all.
        inherited_env: The environment that servers inherit.

    Raises:
        ConfigError: The files, the options or the model are wrong; every problem with the files at once.
        MachineError: The build or the devices cannot do it.
    """
    if folder.is_file():
        raise ConfigError(f"{folder}: is one file", "give the folder of placements that holds hypotheses.toml")
    experiment = load_experiment(folder, overrides)
    hypotheses = _select(load_hypotheses(folder / HYPOTHESES_FILE, experiment), only)
    # Every server gets the slots and the context that all workloads need, so that the arms differ in nothing else.
    workloads = sorted({arm.workload.name for one in hypotheses for arm in one.arms})
    modes = sorted({splits_for(metric_of(one)) for one in hypotheses})
    return PreparedRefutation(
        hypotheses,
        {
            mode: prepare(
                folder,
                replace(overrides, workloads=tuple(workloads), splits=mode),
                inherited_env,
                refuse_ineffective=False,
            )
            for mode in modes
        },
    )


def metric_of(hypothesis: Hypothesis) -> LegMetric:
    """Return the metric of a hypothesis that has been checked.

    Raises:
        ConfigError: This version does not know it; the hypothesis comes from another one.
    """
    metric = find_metric(hypothesis.metric)
    if metric is None:
        raise ConfigError(
            f"{hypothesis.id}: unknown metric {hypothesis.metric!r}", "it was written for another version of k3prof"
        )
    return metric


def question(hypothesis: Hypothesis, asked: Asked, since_trial: int) -> Question | None:
    """Return a hypothesis as it is to be tested; None where it is not known what was asked of its placements."""
    metric = metric_of(hypothesis)
    of_mode = asked.specs.get(splits_for(metric), {})
    if any(arm.placement not in of_mode for arm in hypothesis.arms):
        return None
    return Question(hypothesis, metric, of_mode, since_trial, asked.ineffective)


def _select(hypotheses: tuple[Hypothesis, ...], only: str | None) -> tuple[Hypothesis, ...]:
    if only is None:
        return hypotheses
    selected = tuple(one for one in hypotheses if fnmatchcase(one.id, only))
    if not selected:
        raise ConfigError(
            f"--only: no hypothesis is named {only!r}", f"there are: {', '.join(one.id for one in hypotheses)}"
        )
    return selected
