"""One `[[hypothesis]]` of `hypotheses.toml`, checked against the experiment that it is about."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from k3prof.core.experiment import Experiment, Placement, build_of, effective_flags, flag_text
from k3prof.core.flags import nearest
from k3prof.core.refutation.hypothesis import (
    Again,
    Arm,
    Band,
    Comparison,
    Hypothesis,
    Rules,
    Threshold,
    contradiction,
)
from k3prof.core.refutation.leg_metrics import LegMetric, Need, find_metric, metric_names
from k3prof.core.trial import Workload
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.store.hypothesis_tables import HYPOTHESIS, HYPOTHESIS_KEYS, is_id
from k3prof.store.toml_file import check_each_key, shown

_FORMS = {
    "baseline": ("baseline", "candidate", "candidate_workload", "varies", "predict", "smallest"),
    "of": ("of", "at_least", "at_most"),
    "again": ("again", "smallest"),
}
"""The key that tells each form of a test, and all the keys that belong to it alone."""
_NEEDED = {
    "id": "a short name, of letters, digits, - and _",
    "claim": "say in one sentence what is claimed",
    "because": "say why the prediction follows from the claim",
    "metric": 'what is measured: metric = "tg"',
    "baseline": "the placement that is compared with",
    "candidate": "the placement that is claimed to differ from the baseline",
    "predict": "the ratio candidate / baseline, if the claim holds: predict = [1.6, 2.0]",
    "smallest": "the ratio below which a difference does not matter: smallest = 1.05",
    "of": "the placement that the threshold is about",
}
_MOST_NAMES_SHOWN = 12
_ANY_WORKLOAD = Workload("tg", 2)
_ANY_BAND = Band(2, 2)
_ANY_SMALLEST = math.nextafter(1, 2)
"""They stand for what is missing or wrong, so that the rest of a test is checked all the same."""


def read_hypothesis(document: object, where: str, experiment: Experiment, rules: Rules) -> Hypothesis:
    """Return the hypothesis that a table describes.

    Args:
        document: As read from TOML.
        where: Where it stands: `placements/hypotheses.toml: hypothesis[2]`.
        experiment: What it is about.
        rules: How it will be judged.

    Raises:
        ConfigErrors: Everything that is wrong with it.
    """
    return _Reader(document, where, experiment).read(rules)


class _Reader:
    """Reads one `[[hypothesis]]`, and gathers at most one problem for each of its keys."""

    def __init__(self, document: object, where: str, experiment: Experiment) -> None:
        self._where = where
        self._experiment = experiment
        self._placements = {placement.name: placement for placement in experiment.placements}
        self._problems: list[ConfigError] = []
        self._of_id = _shown_id(document)
        self._table, self._told = check_each_key(HYPOTHESIS, document, self._place, HYPOTHESIS_KEYS, self._problems)
        self._given: frozenset[str] = frozenset(document if isinstance(document, dict) else ())

    def read(self, rules: Rules) -> Hypothesis:
        """Return the hypothesis.

        Raises:
            ConfigErrors: Everything that is wrong with it.
        """
        self._need("id", "claim", "because", "metric")
        metric = self._metric()
        test = self._test(metric)
        if self._problems or test is None:
            raise ConfigErrors(self._problems)
        return Hypothesis(
            id=self._table.id or "",
            claim=self._table.claim or "",
            because=self._table.because or "",
            metric=self._table.metric or "",
            test=test,
            rules=rules,
            if_refuted=self._table.if_refuted,
            if_supported=self._table.if_supported,
            where=self._where,
        )

    def _place(self, key: str) -> str:
        return f"{self._where}{'.' * bool(key)}{key}{self._of_id}"

    def _refuse(self, key: str, message: str, hint: str) -> None:
        if key not in self._told:
            self._told.add(key)
            self._problems.append(ConfigError(f"{self._place(key)}: {message}", hint))

    def _need(self, *keys: str) -> None:
        for key in keys:
            if key not in self._given:
                self._refuse(key, "missing", _NEEDED[key])

    def _metric(self) -> LegMetric | None:
        name = self._table.metric
        if name is None:
            return None
        metric = find_metric(name)
        if metric is None:
            self._refuse("metric", f"no metric is named {shown(name)}", _metrics_like(name))
        elif Need.PRICE in metric.needs and self._experiment.settings.price_per_hour is None:
            self._refuse("metric", "the machine's price is not known", "price_per_hour = 2.20 in sweep.toml, in USD")
        return metric

    def _test(self, metric: LegMetric | None) -> Comparison | Threshold | Again | None:
        form = self._form()
        if form is None:
            self._refuse(
                "",
                "tests nothing",
                "write baseline, candidate and predict; or of, and at_least or at_most; or again",
            )
            return None
        for other in dict.fromkeys(key for keys in _FORMS.values() for key in keys):
            if other in self._given and other not in _FORMS[form]:
                self._refuse(
                    other, f"does not go with {form}", f"beside {form} may stand: {', '.join(_FORMS[form][1:])}"
                )
        self._need(form)
        workload = self._workload(metric)
        match form:
            case "baseline":
                return self._comparison(metric, workload)
            case "of":
                return self._threshold(metric, workload)
            case _:
                return self._again(workload)

    def _form(self) -> str | None:
        """Return the key that tells the form: one that is given, or else the one that the other keys belong to."""
        told = [form for form in _FORMS if form in self._given]
        hinted = [form for form, keys in _FORMS.items() if self._given.intersection(keys)]
        return next(iter(told + hinted), None)

    def _comparison(self, metric: LegMetric | None, workload: Workload | None) -> Comparison:
        table = self._table
        self._need("predict", "smallest")
        if "candidate_workload" not in self._given:
            self._need("candidate")
        baseline = self._arm("baseline", table.baseline, workload)
        candidate = self._arm(
            "candidate",
            table.candidate if "candidate" in self._given else table.baseline,
            table.candidate_workload or workload,
        )
        if table.candidate_workload is not None:
            self._check_kind("candidate_workload", table.candidate_workload, metric)
            if baseline.placement and candidate.placement not in ("", baseline.placement):
                self._refuse(
                    "candidate_workload",
                    "the placements differ too, so that nobody could tell which of both made a difference",
                    "leave candidate or candidate_workload out",
                )
        if self._are_alike(baseline, candidate):
            by_name = "" if candidate.placement == baseline.placement else " but for its name"
            self._refuse(
                "candidate" if table.candidate_workload is None else "candidate_workload",
                f"the same as the baseline{by_name}",
                f'to run a placement against itself, write again = "{baseline.placement}"',
            )
        test = Comparison(baseline, candidate, table.predict or _ANY_BAND, self._smallest(), table.varies)
        self._check_decidable(test)
        return test

    def _threshold(self, metric: LegMetric | None, workload: Workload | None) -> Threshold:
        at_least, at_most = self._table.at_least, self._table.at_most
        if not self._given & {"at_least", "at_most"}:
            self._refuse("at_least", "missing, and so is at_most", "write one of them: at_least = 0.6")
        if self._given >= {"at_least", "at_most"}:
            self._refuse("at_most", "does not go with at_least", "write two hypotheses: each gets its own verdict")
        if metric is not None and at_least is not None:
            self._check_reach("at_least", at_least, metric, always=at_least <= metric.low, never=at_least > metric.high)
        if metric is not None and at_most is not None:
            self._check_reach("at_most", at_most, metric, always=at_most >= metric.high, never=at_most < metric.low)
        band = Band(-math.inf if at_least is None else at_least, math.inf if at_most is None else at_most)
        return Threshold(self._arm("of", self._table.of, workload), band)

    def _again(self, workload: Workload | None) -> Again:
        self._need("smallest")
        test = Again(self._arm("again", self._table.again, workload), self._smallest())
        self._check_decidable(test)
        return test

    def _smallest(self) -> float:
        return _ANY_SMALLEST if self._table.smallest is None else self._table.smallest

    def _arm(self, key: str, name: str | None, workload: Workload | None) -> Arm:
        if name is not None and name not in self._placements:
            self._refuse(key, f"no placement is named {shown(name)}", _names_like(name, self._placements))
        return Arm(name or "", workload or _ANY_WORKLOAD)

    def _workload(self, metric: LegMetric | None) -> Workload | None:
        """Return the workload that is given, or else the experiment's only one that yields the metric."""
        given = self._table.workload
        if given is not None:
            self._check_kind("workload", given, metric)
            return given
        if metric is None:
            return None
        fitting = [one for one in self._experiment.settings.workloads if metric.workload_kind in (None, one.kind)]
        if not fitting:
            self._refuse(
                "workload",
                f"missing, and the experiment has none that yields {metric.name}",
                f'workload = "{metric.workload_kind}128"',
            )
        if len(fitting) > 1:
            self._refuse(
                "workload", f"missing, and the experiment has {len(fitting)} that yield {metric.name}", _one_of(fitting)
            )
        return fitting[0] if len(fitting) == 1 else None

    def _check_kind(self, key: str, workload: Workload, metric: LegMetric | None) -> None:
        if metric is not None and metric.workload_kind not in (None, workload.kind):
            self._refuse(
                key, f"{workload.name} yields no {metric.name}", f'{key} = "{metric.workload_kind}128", for instance'
            )

    def _check_reach(self, key: str, end: float, metric: LegMetric, *, always: bool, never: bool) -> None:
        domain = _domain(metric)
        if always:
            self._refuse(
                key, f"no {metric.name} could lie outside: it is {domain}", "predict what could turn out false"
            )
        if never:
            self._refuse(key, f"no {metric.name} is ever {end:g}: it is {domain}", "predict what could turn out true")

    def _check_decidable(self, test: Comparison | Again) -> None:
        found = contradiction(test)
        if found is not None and found.key != "candidate":  # arms that are alike were told before
            self._refuse(found.key, found.message, found.remedy)

    def _are_alike(self, baseline: Arm, candidate: Arm) -> bool:
        first, second = self._placements.get(baseline.placement), self._placements.get(candidate.placement)
        if first is None or second is None or baseline.workload != candidate.workload:
            return False
        return self._asked(first) == self._asked(second)

    def _asked(self, placement: Placement) -> tuple[str, Mapping[str, str], Mapping[str, str]]:
        settings = self._experiment.settings
        flags = {name: flag_text(value) for name, value in effective_flags(settings, placement).items()}
        return build_of(settings, placement), flags, placement.env


def _shown_id(document: object) -> str:
    """Return what tells a hypothesis from others in messages; empty where it has no proper id."""
    given = document.get("id") if isinstance(document, dict) else None
    return f" ({given})" if isinstance(given, str) and is_id(given) else ""


def _metrics_like(name: str) -> str:
    if find_metric(name.lower()) is not None:
        return f"did you mean {name.lower()}?"
    near = nearest(name, metric_names())
    return f"did you mean {near}?" if near else f"there are {', '.join(metric_names())}"


def _names_like(name: str, placements: Mapping[str, Placement]) -> str:
    of_matrix = [one for one in placements if one.startswith(f"{name}[")]
    near = nearest(name, placements)
    if near and not of_matrix:
        return f"did you mean {near}?"
    names = of_matrix or list(placements)
    more = f", and {len(names) - _MOST_NAMES_SHOWN} more" if len(names) > _MOST_NAMES_SHOWN else ""
    return f"there {'are' if len(names) > 1 else 'is'} {', '.join(names[:_MOST_NAMES_SHOWN])}{more}"


def _one_of(workloads: Sequence[Workload]) -> str:
    return "write " + " or ".join(f'workload = "{one.name}"' for one in workloads)


def _domain(metric: LegMetric) -> str:
    if math.isinf(metric.high):
        return f"at least {metric.low:g}"
    return f"between {metric.low:g} and {metric.high:g}"
