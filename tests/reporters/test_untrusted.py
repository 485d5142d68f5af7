from __future__ import annotations

import html
import re
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from k3prof.reporters.untrusted import lines, markdown, markdown_code, one_line

ANY_TEXT = st.text(st.characters(codec=None, categories=None), max_size=60)
GFM = MarkdownIt("gfm-like", {"html": True, "linkify": False}).disable("linkify")


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("\x1b[31mred\x1b[0m alert", "red alert"),
        ("\x1b]0;window title\x07text", "text"),
        ("\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("one\ntwo\r\nthree\tfour", "one two three four"),
        ("a\x00b\x08c\x7f", "abc"),
        ("safe\u202egnp.exe", "safegnp.exe"),
        ("zero\u200bwidth\ufeff", "zerowidth"),
        ("bad\udcffbyte", "bad�byte"),
        ("Kimi-K3 größer 模型", "Kimi-K3 größer 模型"),
    ],
)
def test_what_cannot_be_seen_is_taken_out(dirty, clean):
    assert one_line(dirty) == clean


@settings(deadline=None)
@given(ANY_TEXT)
def test_one_line_is_one_printable_line_that_can_be_written_as_utf8(text):
    shown = one_line(text)
    shown.encode()
    assert "\n" not in shown
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs"} for character in shown)


@settings(deadline=None)
@given(ANY_TEXT)
def test_cleaning_twice_changes_nothing_more(text):
    assert one_line(one_line(text)) == one_line(text)


def test_lines_keep_their_breaks_and_indentation():
    assert lines("a\r\n\tb\x1b[1m\n  c") == "a\n    b\n  c"


@settings(deadline=None)
@given(ANY_TEXT)
@example("<script>alert(1)</script>")
@example("![x](http://evil/a.png) [a](b) <http://evil> `code` **b** $x$ ~~s~~ &lt; #")
@example("\\| \\` |")
def test_markdown_shows_the_text_as_it_is_in_a_heading(text):
    page = GFM.render(f"## {markdown(text)}.").strip()
    heading = re.fullmatch("<h2>(.*)</h2>", page, re.DOTALL)
    assert heading is not None
    assert "<" not in heading[1]
    assert html.unescape(heading[1]) == f"{one_line(text)}.".strip()


@settings(deadline=None)
@given(ANY_TEXT)
def test_markdown_never_leaves_its_table_cell(text):
    page = GFM.render(f"| a | b |\n| --- | --- |\n| x{markdown(text)} | last |\n")
    cells = re.findall("<td>(.*?)</td>", page, re.DOTALL)
    assert [html.unescape(cell) for cell in cells] == [f"x{one_line(text)}", "last"]


@settings(deadline=None)
@given(ANY_TEXT | st.text("`\n ", max_size=12))
def test_a_code_block_holds_any_text(text):
    page = GFM.render(markdown_code(text) + "\n\nafter\n")
    block = re.fullmatch('<pre><code class="language-text">(.*)\n</code></pre>\n<p>after</p>\n', page, re.DOTALL)
    assert block is not None
    assert html.unescape(block[1]) == lines(text)
