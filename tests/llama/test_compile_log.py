"""What is picked from a failed build's output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.llama.compile_log import last_error, step

GCC = """\
[3/9] Building C object a.o
/src/a.h:1:2: warning: #warning nothing, error: free [-Wcpp]
[4/9] Building C object b.o
FAILED: [code=1] b.o
/usr/bin/cc -DMESSAGE="error: not this" -c /src/b.c
In file included from /src/b.c:1:
/src/b.c: In function ‘main’:
/src/b.c:3:5: error: unknown type name ‘flaot’; did you mean ‘float’?
    3 |     flaot x;
      |     ^~~~~
      |     float
[5/9] Building C object c.o
/src/c.c:9:9: error: of a step that still ran
ninja: build stopped: subcommand failed.
"""

CMAKE = """\
-- The C compiler identification is GNU 12.2.0
CMake Warning at CMakeLists.txt:2 (message):
  This is nothing.


CMake Error at ggml/CMakeLists.txt:178 (target_link_libraries):
  Target "ggml-cuda" links to:

    CUDA::cublas

  but the target was not found.


-- Configuring incomplete, errors occurred!
"""

PIP = """\
Looking in indexes: https://example.org/simple
WARNING: Retrying
ERROR: Could not find a version that satisfies the requirement llama-cpp-python==0.3.36
ERROR: No matching distribution found
"""

KILLED = """\
[7/9] Building CXX object server.o
FAILED: [code=1] server.o
/usr/bin/c++ -c server.cpp
c++: fatal error: Killed signal terminated program cc1plus
compilation terminated.
ninja: build stopped: subcommand failed.
"""


@pytest.mark.parametrize(
    ("output", "first", "among"),
    [
        (GCC, "/src/b.c:3:5: error: unknown type name ‘flaot’; did you mean ‘float’?", "    3 |     flaot x;"),
        (CMAKE, "CMake Error at ggml/CMakeLists.txt:178 (target_link_libraries):", "    CUDA::cublas"),
        (PIP, "ERROR: Could not find a version that satisfies the requirement llama-cpp-python==0.3.36", ""),
        (KILLED, "c++: fatal error: Killed signal terminated program cc1plus", "compilation terminated."),
    ],
)
def test_the_complaint_comes_first_and_its_context_follows(output: str, first: str, among: str) -> None:
    found = last_error(output.splitlines())
    assert found[0] == first
    assert not among or among in found


def test_a_step_that_failed_later_is_not_mixed_in() -> None:
    assert not any("still ran" in line for line in last_error(GCC.splitlines()))


def test_without_a_complaint_the_end_is_shown() -> None:
    lines = [f"line {number}" for number in range(100)]
    assert last_error(lines) == lines[-10:]


MARKS = st.sampled_from(["FAILED: a.o", "cc a.c", "a.c:1:1: error: b", "ninja: stopped", "CMake Error", "[1/2] a", " "])


@given(st.lists(MARKS | st.text(max_size=60), max_size=60))
def test_any_output_gives_a_few_of_its_own_lines(lines: list[str]) -> None:
    found = last_error(lines)
    assert len(found) <= 10
    assert set(found) <= {line.rstrip() for line in lines}
    assert bool(found) == any(line.strip() for line in lines)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.text(st.characters(exclude_categories=["C", "Z"]), max_size=40))
def test_a_status_line_of_ninja_is_read_back(done: int, total: int, what: str) -> None:
    assert step(f"[{done}/{total}] {what}") == (done, total, what)


@pytest.mark.parametrize("line", ["", "ninja: no work to do.", "[1/2]", "x [1/2] y", "[a/b] c"])
def test_other_lines_are_no_status(line: str) -> None:
    assert step(line) is None
