"""What P proves of each placement and what it leaves open: in words, and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from k3prof.core.idle import Answer, Claim, Parallelism, Question
from k3prof.core.trial import TrialStatus
from k3prof.reporters import formats, ranking

_QUESTIONS = {
    Question.OVERLAP: "two or more busy at once",
    Question.NONE_BUSY: "none busy",
    Question.TURNS: "turns taken, never two at once",
}
CLAIM_COLUMNS = ("workload", "placement", "P", "90 % interval", *_QUESTIONS.values())


def claim_rows(sections: Sequence[ranking.Section]) -> tuple[tuple[str, ...], ...]:
    """Return one row of `CLAIM_COLUMNS` for each workload of each placement that ran well and whose P is known."""
    return tuple(
        (section.workload.name, placement, formats.degree(found), formats.interval(found), *_answers(found))
        for section in sections
        for placement, found in _known(section)
    )


def legend(sections: Sequence[ranking.Section]) -> str:
    """Return what the answers rest on, and what would decide those that are open."""
    claims = [claim for section in sections for _, found in _known(section) for claim in found.claims]
    decided_by = dict.fromkeys(claim.decided_by for claim in claims if claim.answer is Answer.OPEN)
    text = (
        "Shares are of the time, as the interval of P bounds them: of n devices, two or more are busy at once for at "
        "least (P − 1) / (n − 1) and at most P / 2, none for at least 1 − P and at most 1 − P / n."
    )
    return " ".join([text, *(f"What would decide an open question: {other}." for other in decided_by if other)])


def as_json(parallelism: Parallelism) -> list[dict[str, Any]]:
    """Return what `json.dumps` takes: each claim with its answer and the share of the time that it can hold for."""
    return [
        {
            "claim": claim.question.value,
            "answer": claim.answer.value,
            "at_least_frac": claim.at_least_frac,
            "at_most_frac": claim.at_most_frac,
            "decided_by": claim.decided_by or None,
        }
        for claim in parallelism.claims
    ]


def _known(section: ranking.Section) -> list[tuple[str, Parallelism]]:
    ran = (row for row in section.rows if row.summary.outcome.status is TrialStatus.OK and row.found is not None)
    return [
        (row.summary.placement, row.found.parallelism)
        for row in ran
        if row.found is not None and row.found.parallelism is not None
    ]


def _answers(parallelism: Parallelism) -> list[str]:
    claims = {claim.question: claim for claim in parallelism.claims}
    return [_words(claims[question]) for question in _QUESTIONS]


def _words(claim: Claim) -> str:
    low, high = round(claim.at_least_frac * 100), round(claim.at_most_frac * 100)
    if (low, high) in {(0, 0), (100, 100), (0, 100)}:
        return str(claim.answer)
    if low == 0:
        return f"{claim.answer}, at most {high} %"
    return f"{claim.answer}, at least {low} %" if high == 100 else f"{claim.answer}, {low} to {high} %"
