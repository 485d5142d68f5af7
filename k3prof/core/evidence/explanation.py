"""All that one log tells: what was loaded, what failed, and how it agrees with a model's header."""

from __future__ import annotations

from dataclasses import dataclass

from k3prof.core.evidence.check import Agreement, Check
from k3prof.core.evidence.loaded import LoadedServer
from k3prof.core.trial import Outcome
from k3prof.core.weights.model import Model


@dataclass(frozen=True)
class Explanation:
    """What a log tells.

    Attributes:
        source: Where it came from: a file's name, or `stdin`.
        done: What it proves about the server.
        failure: The failure that it names; None when it names none.
        header: How it agrees with the header of a model; empty when it was held against none.
    """

    source: str
    done: LoadedServer
    failure: Outcome | None
    header: tuple[Check, ...] = ()


def hold_against_header(done: LoadedServer, model: Model) -> tuple[Check, ...]:
    """Compare what a log says of its model with the header of one: the same file, or another?

    What the server was told to override is left out.
    """
    facts, geometry = done.model, model.geometry
    overridden = any(key.endswith(".expert_used_count") for key in facts.overrides)
    pairs = (
        ("architecture", model.architecture, facts.architecture),
        ("layers", len(geometry.layers) or None, facts.layers),
        ("context trained for", geometry.context_length, facts.context_trained),
        ("experts", geometry.experts, facts.experts),
        ("experts used", None if overridden else geometry.experts_used, facts.experts_used),
    )
    return tuple(_compare(name, header, logged) for name, header, logged in pairs if header is not None)


def _compare(name: str, header: object, logged: object) -> Check:
    if logged is None:
        return Check(name, str(header), None, Agreement.UNKNOWN)
    return Check(name, str(header), str(logged), Agreement.SAME if header == logged else Agreement.DIFFERS)
