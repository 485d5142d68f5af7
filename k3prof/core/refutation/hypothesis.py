"""A hypothesis: a claim, what it predicts, and the rules by which it will be judged; fixed before the first trial."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from dataclasses import dataclass

from k3prof.core.trial import Workload


@dataclass(frozen=True)
class Band:
    """What is predicted: an interval of values, both ends included.

    Attributes:
        low: Its lower end; -inf where there is none.
        high: Its upper end; inf where there is none.
    """

    low: float
    high: float

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Arm:
    """One side of a comparison, or the thing that a threshold is about.

    Attributes:
        placement: The placement's name.
        workload: What is asked of it.
    """

    placement: str
    workload: Workload

    @property
    def name(self) -> str:
        """For people: `even, tg128`."""
        return f"{self.placement}, {self.workload.name}"


@dataclass(frozen=True)
class Comparison:
    """Two arms that differ in one thing.

    Attributes:
        baseline: What is compared with.
        candidate: What is claimed to differ.
        predict: The ratio candidate / baseline, if the claim holds. A band around 1 claims that there is no difference.
        smallest: The ratio, above 1, below which a difference does not matter, either way.
        varies: The one thing declared to differ; None for whatever one thing does.
    """

    baseline: Arm
    candidate: Arm
    predict: Band
    smallest: float
    varies: str | None = None

    @property
    def claims_no_effect(self) -> bool:
        """Whether the claim is that the arms do not differ."""
        return 1.0 in self.predict

    @property
    def nearest_effect(self) -> float:
        """The predicted ratio that is nearest to no effect: what an effect must reach to support the claim."""
        return self.predict.low if self.predict.low > 1 else self.predict.high


@dataclass(frozen=True)
class Threshold:
    """One arm and where its metric lies, if the claim holds.

    Attributes:
        of: The arm.
        predict: In the metric's unit; one of its ends is infinite.
    """

    of: Arm
    predict: Band


@dataclass(frozen=True)
class Again:
    """The same arm twice: whether this machine finds a difference where there is none (A/A).

    Attributes:
        of: The arm.
        smallest: The ratio, above 1, below which a difference does not matter.
    """

    of: Arm
    smallest: float


@dataclass(frozen=True)
class Rules:
    """How hypotheses are judged.

    Attributes:
        alpha: Rate of error that is allowed for a whole set of hypotheses, each way.
        looks: After how many blocks the evidence is looked at, ascending; the last is the most that are measured.
    """

    alpha: float = 0.05
    looks: tuple[int, ...] = (3, 5, 8, 12)


@dataclass(frozen=True)
class Hypothesis:
    """One claim and the test of it.

    Attributes:
        id: A short name.
        claim: What is claimed, in one sentence.
        because: Why the prediction follows from the claim.
        metric: Name of the metric.
        test: What is measured, and the prediction.
        rules: How it will be judged.
        if_refuted: What follows for the user when it is refuted; empty for nothing in particular.
        if_supported: Likewise.
        where: Where it stands, for messages: `placements/hypotheses.toml: hypothesis[2]`.
    """

    id: str
    claim: str
    because: str
    metric: str
    test: Comparison | Threshold | Again
    rules: Rules = Rules()
    if_refuted: str = ""
    if_supported: str = ""
    where: str = ""

    @property
    def arms(self) -> tuple[Arm, ...]:
        """The arms it needs, the baseline first."""
        if isinstance(self.test, Comparison):
            return (self.test.baseline, self.test.candidate)
        return (self.test.of,)

    @property
    def digest(self) -> str:
        """Hash of all that decides the verdict: metric, arms, prediction, smallest effect, rules; not of the words."""
        decisive = {
            "metric": self.metric,
            "kind": type(self.test).__name__,
            "test": dataclasses.asdict(self.test),
            "rules": dataclasses.asdict(self.rules),
        }
        # Every number as a float: [1.6, 2] and [1.6, 2.0] predict the same, and JSON does not keep them apart.
        numbers = json.loads(json.dumps(decisive), parse_int=float)
        text = json.dumps(numbers, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Contradiction:
    """Why no evidence could decide a test.

    Attributes:
        key: Which of the hypothesis' keys is wrong.
        message: What is wrong with it.
        remedy: What to write instead.
    """

    key: str
    message: str
    remedy: str


def contradiction(test: Comparison | Threshold | Again) -> Contradiction | None:
    """Return what is wrong with a test in itself, or None when nothing is."""
    match test:
        case Threshold():
            return None
        case Comparison():
            return _of_smallest(test.smallest) or _of_arms(test) or _of_band(test.predict) or _of_size(test)
        case Again():
            return _of_smallest(test.smallest)


def _of_smallest(smallest: float) -> Contradiction | None:
    if 1 < smallest < math.inf:
        return None
    return Contradiction(
        "smallest", f"{smallest:g} is no smallest effect", "a ratio above 1: 1.05 ignores less than 5 %"
    )


def _of_arms(test: Comparison) -> Contradiction | None:
    if test.baseline != test.candidate:
        return None
    return Contradiction(
        "candidate",
        f"the same as the baseline: {test.baseline.name}",
        f'to run a placement against itself, write again = "{test.baseline.placement}"',
    )


def _of_band(predict: Band) -> Contradiction | None:
    low, high = predict.low, predict.high
    if not low <= high:
        return Contradiction("predict", f"upside down: {low:g} is above {high:g}", f"write [{high:g}, {low:g}]")
    if low <= 0 and math.isinf(high):
        return Contradiction("predict", "no ratio could lie outside", "say how large the ratio is at least, or at most")
    if high <= 0:
        return Contradiction(
            "predict", f"no ratio is as low as {high:g}", "predict candidate / baseline, where 1 is no difference"
        )
    return None


def _of_size(test: Comparison) -> Contradiction | None:
    low, high, smallest = test.predict.low, test.predict.high, test.smallest
    if test.claims_no_effect:
        if low <= 1 / smallest and smallest <= high:
            return None
        return Contradiction(
            "predict",
            f"narrower than the smallest effect that matters, {smallest:g}",
            f"a claim of no effect allows at least [{1 / smallest:.3g}, {smallest:g}]",
        )
    if 1 / smallest < test.nearest_effect < smallest:
        return Contradiction(
            "predict",
            f"reaches to {test.nearest_effect:g}, an effect too small to matter by smallest = {smallest:g}",
            f"predict at least {smallest:g} or at most {1 / smallest:.3g}, or lower smallest",
        )
    return None
