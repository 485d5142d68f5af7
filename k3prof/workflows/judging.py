"""What a trace says of its hypotheses: each one's evidence gathered, and all of them judged as a set."""

from __future__ import annotations

from collections.abc import Sequence

from k3prof.core.refutation.gather import gather
from k3prof.core.refutation.judge import judge
from k3prof.core.refutation.verdict import Verdict
from k3prof.core.spans import SplitMode
from k3prof.core.trial import TrialSpec
from k3prof.errors import TraceError
from k3prof.store.refutation import RegisteredHypothesis
from k3prof.store.trace import Trace
from k3prof.workflows.hypotheses import Asked, question
from k3prof.workflows.legs import LegReader

HYPOTHESES = "hypotheses"
"""Under which a session's settings hold the digests of the hypotheses that it tests, in their order."""


def judged(trace: Trace, reader: LegReader, asked: Asked) -> list[Verdict]:
    """Return the verdicts on the hypotheses of a trace's latest session, in their order.

    Args:
        trace: The trace.
        reader: Reads its legs.
        asked: What is asked of each placement. A hypothesis about others keeps the verdict that the trace holds.
    """
    legs = reader.legs()
    kept = {verdict.hypothesis.digest: verdict for _, verdict in trace.verdicts()}
    cases, verdicts = [], {}
    for registered in asked_hypotheses(trace):
        hypothesis = registered.hypothesis
        posed = question(hypothesis, asked, registered.trials_before)
        if posed is not None:
            cases.append((hypothesis, gather(posed, legs)))
        elif hypothesis.digest in kept:
            verdicts[hypothesis.digest] = kept[hypothesis.digest]
    verdicts |= {verdict.hypothesis.digest: verdict for verdict in judge(cases)}
    order = [registered.hypothesis.digest for registered in asked_hypotheses(trace)]
    return [verdicts[digest] for digest in order if digest in verdicts]


def asked_hypotheses(trace: Trace) -> list[RegisteredHypothesis]:
    """Return the hypotheses that the latest session tests.

    Raises:
        TraceError: It tests none.
    """
    digests = trace.last_sweep().settings.get(HYPOTHESES)
    if not isinstance(digests, Sequence):
        raise TraceError(f"{trace.path}: holds no hypotheses", "`k3prof refute` tests some")
    registered = {one.hypothesis.digest: one for one in trace.registered()}
    return [registered[digest] for digest in digests if digest in registered]


def asked_of(trace: Trace) -> Asked:
    """Return what the latest session asked of each placement that has run."""
    asked = set(trace.last_sweep().asked)
    found: dict[SplitMode, dict[str, TrialSpec]] = {}
    for trial in trace.trials():
        spec = trial.spec
        if (spec.placement, spec.configuration) in asked:
            found.setdefault(spec.splits, {})[spec.placement] = spec
    return Asked(found)
