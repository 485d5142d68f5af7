from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k3prof.core.layout.std_regex import compile_pattern

NAMES = [
    "token_embd.weight",
    "output.weight",
    "blk.0.attn_q.weight",
    "blk.1.ffn_gate_exps.weight",
    "blk.11.ffn_down_exps.weight",
    "blk.11.ffn_gate_up_chexps.weight",
    "blk.3.ffn_up_shexp.weight",
    "blk.3.exp_probs_b.bias",
    "A-z_{2}[]",
]

# What people write, and where the two languages part.
PATTERNS = [
    r"\.ffn_(up|down|gate|gate_up)_(ch|)exps",
    r"blk\.1\.",
    r"blk\.(1[0-9]|2)\.ffn_.*_exps\.",
    r"exps",
    r"^blk\..*weight$",
    r"blk\.[02468]+\.",
    r"ffn_(?!gate)",
    r"ffn_(?=gate).*exps",
    r"(?:blk|output)\b",
    r"blk\.1{2}",
    r"blk\.1{2}?\.",
    r"\A",
    r"\Z",
    r"\_\-",
    r"A\-z",
    r"[[:digit:]][[:digit:]]",
    r"[[:punct:]]\d[[:punct:]]",
    r"[\w-]z",
    r"[^\d\w._]",
    r"a**b",
    r"a+*",
    r"]",
    r"}",
    r"[]",
    r"[^]",
    r"[]a]",
    r"\x41",
    r"[\x41-\x43]-",
    "",
    "|",
    "()",
    "a||b",
    # and what std::regex refuses
    r"blk.{1",
    r"{",
    r"a{x}",
    r"*a",
    r"a|*",
    r"^*",
    r"\b+",
    r"(?=a)*",
    r"(?i)BLK",
    r"(?P<a>b)",
    r"(?<=a)b",
    r"(?>a)b",
    r"(a",
    r"a)",
    r"[a",
    r"[z-a]",
    r"[\d-z]x",
    r"[a-\d]",
    r"[a-z-9]",
    r"[\B]",
    r"[[:nonsense:]]",
    r"\xZZ",
    "\\",
]

Oracle = Callable[[str, str], bool | None]


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """std::regex_search itself: whether it finds the pattern, None when it refuses the pattern."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no g++ here, whose library defines what a pattern means")
    folder = tmp_path_factory.mktemp("oracle")
    source = folder / "oracle.cpp"
    source.write_text(
        """
        #include <cstdio>
        #include <iostream>
        #include <regex>
        #include <string>
        int main() {
            std::string pattern, text;
            while (std::getline(std::cin, pattern) && std::getline(std::cin, text)) {
                try {
                    std::cout << std::regex_search(text, std::regex(pattern)) << std::endl;
                } catch (const std::regex_error &) {
                    std::cout << "refused" << std::endl;
                }
            }
        }
        """
    )
    subprocess.run([compiler, "-O1", "-o", folder / "oracle", source], check=True)
    process = subprocess.Popen([folder / "oracle"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(pattern: str, text: str) -> bool | None:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(f"{pattern}\n{text}\n")
        process.stdin.flush()
        return {"1": True, "0": False, "refused": None}[process.stdout.readline().strip()]

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(10)


def ours(pattern: str, text: str) -> bool | None:
    try:
        return compile_pattern(pattern).search(text) is not None
    except ValueError:
        return None


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_finds_what_std_regex_finds(pattern: str, oracle: Oracle) -> None:
    assert [ours(pattern, name) for name in NAMES] == [oracle(pattern, name) for name in NAMES]


PIECES = st.sampled_from(
    [
        *(
            "blk",
            "ffn",
            "exps",
            "1",
            "0",
            "a",
            "z",
            "_",
            "-",
            ".",
            r"\.",
            "*",
            "+",
            "?",
            "|",
            "^",
            "$",
            "(",
            ")",
            "]",
            "}",
        ),
        *(
            "(?:",
            "(?=",
            "(?!",
            "{2}",
            "[",
            "[^",
            r"\d",
            r"\w",
            r"\s",
            r"\b",
            r"\B",
            r"\A",
            "[0-9]",
            "[a-z_]",
            "[^.]",
            "[-a]",
            "[a-]",
        ),
        *("[[:alpha:]]", "[[:digit:]_]", r"[\d.]"),
    ]
)


@settings(max_examples=600, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=9).map("".join), st.sampled_from(NAMES))
def test_any_pattern_means_what_std_regex_says(oracle: Oracle, pattern: str, name: str) -> None:
    said = ours(pattern, name)
    # A pattern that this module does not follow is refused in words; it never gets another meaning.
    assert said is None or said == oracle(pattern, name)


@pytest.mark.parametrize("pattern", [r"(a)\1", r"[\1]", r"\cA"])
def test_what_is_not_followed_is_refused_in_words(pattern: str) -> None:
    with pytest.raises(ValueError, match=r"does not follow|has no meaning"):
        compile_pattern(pattern)


@pytest.mark.parametrize("pattern", ["(" * 5000 + ")" * 5000, "(?=" * 5000])
def test_patterns_without_measure_are_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="nested or repeated too often"):
        compile_pattern(pattern)


def test_a_pattern_is_not_anchored() -> None:
    assert compile_pattern("exps").search("blk.1.ffn_gate_exps.weight")
