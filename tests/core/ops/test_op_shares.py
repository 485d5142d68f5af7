from __future__ import annotations

import pytest

from k3prof.core.ops.op_graph import Part
from k3prof.core.ops.op_record import Timing
from k3prof.core.ops.op_shares import PARTS, ROLES, op_shares, share_name
from k3prof.core.weights.roles import Role
from tests.doubles.op_reports import op_report


def test_shares_have_the_names_that_a_hypothesis_can_write() -> None:
    """Per layer 10 µs of attention and 30 µs of MoE, of which two tiny ops take 0.1 µs each."""
    (profile,) = op_report(layers=2).profiles
    assert op_shares(profile) == pytest.approx(
        {
            "part.attention-gqa": 0.25,
            "part.moe": 0.75,
            "role.attention-gqa": 0.25,
            "role.routed-experts": 29.8 / 40,
            "role.no-weights": 0.2 / 40,
            "op.mul_mat": 0.25,
            "op.mul_mat_id": 29.8 / 40,
            "op.clamp": 0.1 / 40,
            "op.div": 0.1 / 40,
        }
    )


def test_stretches_alone_tell_of_parts_and_of_nothing_else() -> None:
    (profile,) = op_report(timing=Timing.LAYER).profiles
    assert op_shares(profile) == pytest.approx({"part.attention-gqa": 0.25, "part.moe": 0.75})


def test_no_two_parts_and_no_two_roles_share_a_name() -> None:
    assert len(PARTS) == len(Part)
    assert len(ROLES) == len(Role) + 1
    assert PARTS["part.attention-kda"] == Part.KDA
    assert share_name("role", Role.LATENT) == "role.latent-projections"
