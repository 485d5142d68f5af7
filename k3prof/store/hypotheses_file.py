"""An experiment's hypotheses, read from TOML and checked before anything is started.

[rules]                      # optional
alpha = 0.05                 # rate of error that is allowed for the whole set, each way
looks = [3, 5, 8, 12]        # after how many blocks the evidence is looked at

[[hypothesis]]               # a comparison of two placements, or of two workloads of one
id = "cpu-experts-dominate"
claim = "computing experts on the CPU dominates decode"
because = "then halving the experts used should nearly double decode"
metric = "tg"
baseline = "experts-16"
candidate = "experts-8"
predict = [1.6, 2.0]         # candidate / baseline, if the claim holds
smallest = 1.05              # below this an effect does not matter

Instead of baseline, candidate and predict: of = "even" with at_least = 0.6 or at_most = 1.1, a threshold of one
placement; or again = "even", which runs a placement against itself.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from k3prof.core.experiment import Experiment
from k3prof.core.refutation.hypothesis import Hypothesis, Rules
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.hypothesis_reader import read_hypothesis
from k3prof.store.hypothesis_tables import HYPOTHESES, HYPOTHESES_KEYS
from k3prof.store.toml_file import check_each_key, collecting, read_toml, shown, shown_path


def load_hypotheses(file: Path, experiment: Experiment) -> tuple[Hypothesis, ...]:
    """Read the hypotheses about an experiment, in the order of the file.

    Args:
        file: The experiment's `hypotheses.toml`.
        experiment: With all of its placements.

    Raises:
        ConfigErrors: Everything that is wrong with them.
    """
    problems: list[ConfigError] = []
    with collecting(problems):
        return _load(file, experiment)
    raise ConfigErrors(problems)


def _load(file: Path, experiment: Experiment) -> tuple[Hypothesis, ...]:
    name = shown_path(file)
    if not os.path.lexists(file):
        raise ConfigError(f"{name}: no such file", "write hypotheses there, one [[hypothesis]] for each claim")
    problems: list[ConfigError] = []
    table, _ = check_each_key(HYPOTHESES, read_toml(file), lambda key: f"{name}: {key}", HYPOTHESES_KEYS, problems)
    if not table.hypothesis and not problems:
        problems.append(
            ConfigError(
                f"{name}: hypothesis: missing",
                "write [[hypothesis]], and below it id, claim, because, metric, and what to compare",
            )
        )
    rules = Rules(table.rules.alpha, table.rules.looks)
    hypotheses: list[Hypothesis] = []
    for index, document in enumerate(table.hypothesis or ()):
        with collecting(problems):
            hypotheses.append(read_hypothesis(document, f"{name}: hypothesis[{index}]", experiment, rules))
    problems += _taken_ids(table.hypothesis or (), name) + _same_tests(hypotheses)
    if problems:
        raise ConfigErrors(problems)
    return tuple(hypotheses)


def _taken_ids(documents: Sequence[object], name: str) -> list[ConfigError]:
    problems: list[ConfigError] = []
    holders: dict[str, int] = {}
    for index, document in enumerate(documents):
        one = document.get("id") if isinstance(document, dict) else None
        if isinstance(one, str) and holders.setdefault(one, index) != index:
            problems.append(
                ConfigError(
                    f"{name}: hypothesis[{index}].id: hypothesis[{holders[one]}] is named {shown(one)} too",
                    "give each its own id",
                )
            )
    return problems


def _same_tests(hypotheses: Sequence[Hypothesis]) -> list[ConfigError]:
    problems: list[ConfigError] = []
    holders: dict[str, Hypothesis] = {}
    for one in hypotheses:
        earlier = holders.setdefault(one.digest, one)
        if earlier is not one:
            problems.append(
                ConfigError(
                    f"{one.where} ({one.id}): the same test as {earlier.id}",
                    "one test has one verdict: keep one of them, or let them predict different things",
                )
            )
    return problems
