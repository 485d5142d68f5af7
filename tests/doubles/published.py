"""Published evidence with one of every outcome, judged."""

from __future__ import annotations

from k3prof.core.refutation.formula import parse_formula
from k3prof.core.refutation.hypothesis import Band
from k3prof.core.refutation.published import (
    Check,
    Published,
    PublishedHypothesis,
    PublishedReport,
    Reading,
    Scatter,
    Tolerance,
)
from k3prof.core.refutation.published_verdicts import judge_evidence

INF = float("inf")
SCATTER = Scatter(0.05, "six runs")


def published_report(title: str = "Two rigs", note: str = "GiB and GB mixed up") -> PublishedReport:
    checks = (
        _check("price", (1.814, 0.592), "0.44 / tg / 3600 * 1e6", Tolerance.of_digits(3), rounded=("tg",)),
        _check("KV cache", (29.0,), "24 * 1152 * 1048576 / 2 ** 30", Tolerance.of_digits(0), unit="GiB", note=note),
        _check("about", (85.0,), "83.7", Tolerance(2.5), unit="USD"),
        _check("gain", (28.0,), None, Tolerance.of_digits(0), unit="%", missing="the two rates"),
    )
    hypotheses = (
        _claim("slower", "tg is lower", value="0.5", predict=(0, 0.9), if_supported="switch it off"),
        _claim("nothing", "it helps", value="on / off", predict=(1.1, 2)),
        _claim("three", "three runs tell", arms=("[7.0, 7.1, 7.2]", "[7.05, 7.15, 7.1]"), predict=(1.1, INF)),
        _claim("silent", "it speculates", predict=(1.1, 2), obstacle="no drafts were reported"),
        _claim(
            "bound",
            "memory binds",
            value="0.07",
            predict=(0.6, INF),
            smallest=None,
            unit="of the ceiling",
            rests_on=("KV cache",),
            corrected=(("Q4_K", "0.40"), ("Q8_0", "0.69")),
            if_refuted="look elsewhere",
        ),
    )
    data = {"tg": [67.4, 206.6], "off": 2.6, "on": 3.0}
    published = Published(title, "somebody's page", SCATTER, data, checks, hypotheses)
    return judge_evidence(published)


def _check(name, stated, formula, tolerance, *, unit="", rounded=(), **more) -> Check:
    return Check(
        name=name,
        stated=stated,
        unit=unit,
        because=f"how {name} follows",
        formula=formula and parse_formula(formula),
        tolerance=tolerance,
        rounded=tuple(map(parse_formula, rounded)),
        **more,
    )


def _claim(name, claim, *, predict, value=None, arms=None, smallest=1.05, corrected=(), **more) -> PublishedHypothesis:
    return PublishedHypothesis(
        id=name,
        claim=claim,
        because=f"why {name}",
        predict=Band(*predict),
        smallest=smallest,
        scatter=SCATTER,
        value=value and parse_formula(value),
        arms=arms and (parse_formula(arms[0]), parse_formula(arms[1])),
        corrected=tuple(Reading(reading, parse_formula(formula)) for reading, formula in corrected),
        **more,
    )
