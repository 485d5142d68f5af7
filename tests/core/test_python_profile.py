from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.python_profile import Frame, FunctionShare, PythonProfile, ThreadSamples

MAIN, LOOP, LOOP_LATER, DECODE = (
    Frame("<module>", "run.py", 9),
    Frame("loop", "run.py", 4),
    Frame("loop", "run.py", 5),
    Frame("decode", "llama.py", 70),
)
FRAMES = (MAIN, LOOP, LOOP_LATER, DECODE)


def profile(*threads: ThreadSamples) -> PythonProfile:
    return PythonProfile(FRAMES, threads)


def test_a_function_runs_while_it_is_on_a_stack_and_owns_the_time_when_it_is_innermost():
    found = profile(ThreadSamples("main", ((0, 1, 3), (0, 2), (0,)), (0.5, 0.25, 0.25)))
    assert (found.samples, found.busy_s) == (3, 1.0)
    assert found.functions() == [
        FunctionShare("<module>", "run.py", 1.0, 0.25),
        FunctionShare("loop", "run.py", 0.75, 0.25),
        FunctionShare("decode", "llama.py", 0.5, 0.5),
    ]


def test_one_that_calls_itself_runs_once():
    (module, loop) = profile(ThreadSamples("main", ((0, 1, 2, 1),), (0.01,))).functions()
    assert (module.frac, module.own_frac) == (1.0, 0.0)
    assert (loop.frac, loop.own_frac) == (1.0, 1.0)


def test_threads_add_up():
    found = profile(ThreadSamples("a", ((0,),), (0.3,)), ThreadSamples("b", ((3,),), (0.1,)))
    assert [(one.name, one.frac) for one in found.functions()] == [
        ("<module>", pytest.approx(0.75)),
        ("decode", pytest.approx(0.25)),
    ]


def test_an_idle_program_has_no_functions():
    assert profile().functions() == []
    assert profile().busy_s == 0


@given(st.lists(st.tuples(st.lists(st.integers(0, 3), max_size=5), st.floats(0.001, 1)), min_size=1, max_size=20))
def test_own_shares_sum_to_at_most_one_and_never_exceed_the_whole(samples):
    stacks, weights = zip(*samples, strict=True)
    found = profile(ThreadSamples("main", tuple(map(tuple, stacks)), weights)).functions()
    assert sum(one.own_frac for one in found) <= 1 + 1e-9
    assert all(one.own_frac <= one.frac + 1e-9 <= 1 + 2e-9 for one in found)
