from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.layout.context_shape import ContextShape
from k3prof.core.layout.headroom import DeviceMemory
from k3prof.core.layout.level_fit import Room, fitting_levels
from k3prof.core.trial import Workload

MIB = 2**20


def server(ctx_size, *, parallel=None, unified=False, trained=None, state_mib=0, usable_mib=None):
    """Return what tells the room of a server that divides its context among as many slots as there are streams."""

    def room(streams):
        slots = parallel or streams
        cells = ctx_size if unified else ctx_size // slots
        shape = ContextShape(slots, unified, cells, min(cells, trained or cells), 1, "f16", "f16", True)
        usable = None if usable_mib is None else usable_mib * MIB
        memory = DeviceMemory("CUDA0", 0, 0, 0, slots * state_mib * MIB, 0, usable)
        return Room(shape, trained, (memory,), (("CUDA0", 6144),))

    return room


def fit(room, *entries):
    parsed = [Workload.parse_all(entry) for entry in entries]
    levels = {one for entry in parsed if len(entry) > 1 for one in entry}
    found = fitting_levels([one for entry in parsed for one in entry], levels, room)
    return [one.name for one in found.kept], [f"{one.message} | {one.remedy}" for one in found.skipped]


def test_a_depth_that_fits_no_slot_is_skipped_by_name_and_the_others_stay():
    kept, skipped = fit(server(4096), "pp512", "tg128@d0,1k,16k")
    assert kept == ["pp512", "tg128", "tg128@d1024"]
    assert skipped == [
        "tg128@d16384: needs 16513 tokens of context, a slot has 4096 | set ctx-size to at least 16640; "
        "but by the prediction there is room on CUDA0 for 6144 at most"
    ]


def test_what_all_fits_is_kept_in_the_order_in_which_it_was_written():
    assert fit(server(65536), "tg8 x4,1", "tg8@d2k,1k") == (["tg8 x4", "tg8", "tg8@d2048", "tg8@d1024"], [])


def test_streams_are_given_up_before_a_workload_that_was_written_alone():
    kept, skipped = fit(server(8192), "tg8@d4k", "tg8 x1,2,4")
    assert kept == ["tg8@d4096", "tg8"]
    assert skipped[0].startswith("tg8 x2: with 2 slots each has 4096 tokens of context, of which tg8@d4096 needs 4105")
    assert "set ctx-size to at least 8704" in skipped[0]
    assert len(skipped) == 2


def test_more_streams_than_the_slots_that_were_set_are_skipped():
    kept, skipped = fit(server(8192, parallel=2), "tg8 x1,2,4")
    assert kept == ["tg8", "tg8 x2"]
    assert skipped == ["tg8 x4: needs 4 slots, the server has 2 | set parallel to at least 4, or leave it out"]


def test_no_server_has_more_slots_than_llama_cpp_allows():
    kept, skipped = fit(server(1 << 20), "tg8 x1,512")
    assert kept == ["tg8"]
    assert skipped == ["tg8 x512: needs 512 slots, llama-server has at most 256 | use fewer streams"]


def test_slots_over_one_cache_share_its_tokens():
    kept, skipped = fit(server(1024, parallel=4, unified=True), "tg100@d200 x1,2,4")
    assert kept == ["tg100@d200", "tg100@d200 x2"]
    assert skipped[0].startswith("tg100@d200 x4: needs 1204 tokens of context, all slots together have 1024")
    assert "ctx-size to at least 1280" in skipped[0]


def test_no_context_size_helps_beyond_what_the_model_was_trained_for():
    _, skipped = fit(server(1 << 20, trained=8192), "tg8@d0,16k")
    assert "a slot has 8192" in skipped[0]
    assert "nothing: the model was trained for 8192 tokens" in skipped[0]


def test_streams_whose_recurrent_state_overflows_a_device_are_skipped_with_the_figures():
    kept, skipped = fit(server(65536, state_mib=100, usable_mib=450), "tg8 x1,2,4,8")
    assert kept == ["tg8", "tg8 x2", "tg8 x4"]
    assert skipped[0].startswith("tg8 x8: with 8 slots CUDA0 would need 800 MiB of its 450 MiB (predicted) | use fewer")


def test_a_placement_that_lacks_memory_anyway_is_left_to_be_measured():
    kept, skipped = fit(server(65536, state_mib=100, usable_mib=50), "tg8 x1,2")
    assert (kept, skipped) == (["tg8", "tg8 x2"], [])


def test_unknown_memory_is_held_against_no_level():
    assert fit(server(65536, state_mib=100), "tg8 x1,64")[1] == []


@given(
    ctx_size=st.integers(16, 1 << 14),
    depths=st.lists(st.integers(0, 1 << 13), min_size=2, max_size=5, unique=True),
    streams=st.lists(st.integers(1, 40), min_size=1, max_size=4, unique=True),
)
def test_whatever_is_kept_fits_together_and_nothing_is_lost(ctx_size, depths, streams):
    levels = Workload.parse_all(f"tg8@d{','.join(map(str, depths))} x{','.join(map(str, streams))}")
    found = fitting_levels(levels, set(levels), server(ctx_size))
    assert len(found.kept) + len(found.skipped) == len(levels)
    if found.kept:
        slots = max(one.streams for one in found.kept)
        assert max(one.context_tokens for one in found.kept) * slots <= ctx_size
    elif min(one.context_tokens * one.streams for one in levels) <= ctx_size:
        pytest.fail("the least demanding level would have fitted")
