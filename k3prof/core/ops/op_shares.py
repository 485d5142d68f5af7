"""An op profile's shares under names that a metric can have: `part.moe`, `role.routed-experts`, `op.mul_mat_id`."""

from __future__ import annotations

import re
from collections.abc import Iterable

from k3prof.core.ops.op_graph import Part
from k3prof.core.ops.op_profile import WITHOUT_WEIGHTS, OpProfile, Share
from k3prof.core.weights.roles import Role

_NOT_IN_A_NAME = re.compile(r"[^a-z0-9_]+")


def op_shares(profile: OpProfile) -> dict[str, float]:
    """Return what share of a pass each part, role and op takes, by name.

    The shares of parts sum to 1, and so do those of roles and those of ops, where nodes were timed; where they were
    not, there are none of roles and ops.
    """
    lists: tuple[tuple[str, Iterable[Share]], ...] = (
        ("part", profile.by_part),
        ("role", profile.by_role or ()),
        ("op", profile.by_op or ()),
    )
    return {share_name(family, share.name): share.frac for family, shares in lists for share in shares}


def share_name(family: str, name: str) -> str:
    """Return the name of a share: `attention (KDA)` of the family `part` is `part.attention-kda`."""
    return f"{family}.{_NOT_IN_A_NAME.sub('-', name.lower()).strip('-')}"


PARTS = {share_name("part", part): str(part) for part in Part}
"""The names of all parts' shares, and how tables call the parts."""

ROLES = {share_name("role", role): str(role) for role in (*Role, WITHOUT_WEIGHTS)}
"""Likewise for what weights are for."""
