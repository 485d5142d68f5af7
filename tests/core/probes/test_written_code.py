from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.probes.written_code import recursive

FACTORIAL = recursive({0: 1, 1: 1, 5: math.factorial(5)})
FIB = recursive({0: 0, 1: 1, 10: 55})


@pytest.mark.parametrize(
    "text",
    [
        "def f(n):\n    if n == 0:\n        return 1\n    return n * f(n - 1)",
        "Sure!\n```python\ndef f(n: int):\n    '''Why.'''\n    return 1 if n <= 1 else f(n-1) * n\n```\nThere.",
        "def f(n):\n    if n in (0, 1):\n        return 1\n    else:\n        return n * f(n - 1)\n\nprint(f(5))\nSo!",
        "def f(n):\n    if not n or n == 1:\n        return 1\n    elif n > 1:\n        return n * f(n - 1)",
    ],
)
def test_a_right_function_counts_however_it_is_written(text):
    assert FACTORIAL(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "n * f(n - 1)",
        "def f(n):\n    return n * f(n - 1)",
        "def f(n):\n    if n == 0:\n        return 0\n    return n * f(n - 1)",
        "import math\ndef f(n):\n    return math.factorial(n)",
        "def f(n):\n    while True:\n        pass\n    return f(n)",
        "def f(n):\n    return __import__('os').system('true') or f(n - 1)",
        "def f(n):\n    if n == 0:\n        return 1\n    return f(n) ** f(n) ** 999",
        "def f(n):\n    if n == 0:\n        return 1 // 0\n    return n * f(n - 1)",
        "def f(n):\n    if n == 0:\n        return 1\n    f(n - 1)",
    ],
)
def test_a_wrong_endless_or_unreadable_function_does_not(text):
    assert not FACTORIAL(text)


def test_two_calls_of_itself_are_followed():
    assert FIB("def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)")
    assert not FIB("def fib(n):\n    if n < 2:\n        return 1\n    return fib(n - 1) + fib(n - 2)")


@given(st.text("def f(n):\n return+-*1ifelse ()`", max_size=120))
def test_no_text_makes_the_reader_raise(text):
    assert FACTORIAL(text) in (True, False)
