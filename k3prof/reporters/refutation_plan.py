"""What a test of hypotheses is about to run: its rounds, how long they take, what they cost, each server's command."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from k3prof.core.refutation.judge import planned_blocks
from k3prof.core.refutation.leg import LegPlace
from k3prof.core.refutation.schedule import PlannedRound, most_rounds_left
from k3prof.core.refutation.verdict import Verdict
from k3prof.core.trial import Command
from k3prof.reporters import formats, refutation_words
from k3prof.reporters.shell import shell_command
from k3prof.reporters.untrusted import one_line


@dataclass(frozen=True)
class RefutationPlan:
    """What a test of hypotheses would do.

    Attributes:
        verdicts: What the trace says so far, in the order of the hypotheses.
        round: The round that would come next; None when every verdict is final.
        seconds_per_round: How long that would take, by legs that were run; None while none was.
        price_per_hour: What the machine costs, in USD; None when not given.
        commands: What starts the server of each placement of the round; what is chosen at the start stands in capitals.
        trace: Where the results would go.
    """

    verdicts: Sequence[Verdict]
    round: PlannedRound | None
    seconds_per_round: float | None
    price_per_hour: float | None
    commands: Mapping[str, Command]
    trace: str

    @property
    def most_rounds(self) -> int:
        """How many rounds there will be at most, if none is void."""
        return most_rounds_left(self.verdicts)


def leg_name(leg: LegPlace, legs: Sequence[LegPlace]) -> str:
    """Return a leg's name among those of its round: `even (2)`, `even again (1)`."""
    same = [one.position for one in legs if (one.placement, one.twin) == (leg.placement, leg.twin)]
    return f"{leg.placement}{' again' if leg.twin else ''} ({same.index(leg.position) + 1})"


def round_line(planned: PlannedRound, verdicts: Sequence[Verdict]) -> str:
    """Return one line on a round that begins."""
    undecided = sum(not verdict.is_final for verdict in verdicts)
    order = " ".join(one_line(leg.placement) + ("'" if leg.twin else "") for leg in planned.legs)
    what = "one placement against itself" if planned.is_again else formats.count(len(planned.placements), "placement")
    return (
        f"round {planned.legs[0].round + 1}: {what}: {order} · "
        f"{undecided} of {formats.count(len(verdicts), 'claim')} undecided · "
        f"at most {formats.count(most_rounds_left(verdicts), 'round')} to go"
    )


def as_text(plan: RefutationPlan) -> str:
    """Return the plan for a terminal."""
    return "\n".join(_lines(plan)) + "\n"


def as_json(plan: RefutationPlan) -> dict[str, object]:
    """Return the plan as `json.dumps` takes it."""
    planned = plan.round
    return {
        "trace": plan.trace,
        "hypotheses": [
            {
                "id": one.hypothesis.id,
                "ruling": one.ruling,
                "is_final": one.is_final,
                "blocks": len(one.evidence.blocks),
                "reasons": list(one.reasons),
            }
            for one in plan.verdicts
        ],
        "round": None
        if planned is None
        else {
            "legs": [leg_name(leg, planned.legs) for leg in planned.legs],
            "workloads": {name: [one.name for one in asked] for name, asked in planned.workloads.items()},
        },
        "most_rounds": plan.most_rounds,
        "seconds_per_round": plan.seconds_per_round,
        "commands": {name: {"argv": one.argv, "env": dict(one.env)} for name, one in plan.commands.items()},
    }


def _lines(plan: RefutationPlan) -> Iterator[str]:
    yield f"# results go to {one_line(plan.trace)}"
    yield ""
    undecided = sum(not verdict.is_final for verdict in plan.verdicts)
    for verdict in plan.verdicts:
        state = refutation_words.verdict(verdict) if verdict.is_final else f"to be tested{_planned(verdict, undecided)}"
        yield f"# {one_line(verdict.hypothesis.id)}: {state}"
        if verdict.is_final and verdict.reasons:
            yield f"#   {one_line('; '.join(verdict.reasons))}"
    yield ""
    if plan.round is None:
        yield "# every verdict is final: nothing to run"
        return
    yield f"# next, {round_line(plan.round, plan.verdicts)}"
    yield f"# {effort(plan.seconds_per_round, plan.verdicts, plan.price_per_hour)}; rounds get shorter as verdicts fall"
    for name, command in plan.commands.items():
        yield ""
        yield f"# {one_line(name)}: {', '.join(one.name for one in plan.round.workloads[name])}"
        yield shell_command(command)


def _planned(verdict: Verdict, undecided: int) -> str:
    """Return in how many blocks a comparison will probably be decided, by the noise of this machine."""
    blocks = planned_blocks(verdict.hypothesis, verdict.evidence.again, undecided)
    return "" if blocks is None else f", by the noise of this rig in about {formats.count(blocks, 'block')}"


def effort(round_s: float | None, verdicts: Sequence[Verdict], price_per_hour: float | None) -> str:
    """Return how long rounds take and what they cost, as far as legs that were run tell."""
    if round_s is None:
        return "how long a round takes is known when the first server has run"
    most_s = round_s * most_rounds_left(verdicts)
    cost = "" if price_per_hour is None else f", {formats.usd(most_s / 3600 * price_per_hour)}"
    return f"about {formats.seconds(round_s)} a round, at most {formats.seconds(most_s)} in all{cost}"
