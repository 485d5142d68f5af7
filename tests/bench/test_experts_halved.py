from __future__ import annotations

from k3prof.core.ops.op_graph import Part
from tests.bench.experts_halved import measure


def test_the_gain_of_half_the_experts_is_measured_beside_its_bound(build):
    found = measure(build, "demo:k3-tiny", blocks=2, tokens=3)
    assert (found.gain.blocks, found.experts_used) == (2, 16)
    assert 0 < found.gain.low <= found.gain.value <= found.gain.high
    moe = found.profile.part(Part.MOE)
    assert moe is not None
    assert 0 < moe.frac < 1
    assert found.moe_gain == moe.most_gain
    (row,) = found.figures()
    assert row.name == "8 / 16 experts, tok/s"
    assert row.aim.startswith("≤ ")
