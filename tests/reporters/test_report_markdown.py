from __future__ import annotations

import html
import re

from markdown_it import MarkdownIt

from k3prof.reporters.report_markdown import as_markdown
from tests.doubles.reports import command, report_input

GFM = MarkdownIt("commonmark", {"html": True}).enable("table")


def test_the_report_has_the_same_parts_as_the_page():
    page = GFM.render(as_markdown(report_input()))
    assert re.findall("<h[12]>(.*?)</h[12]>", page) == [
        *("placements", "Ranking", "What P says here", "Placements", "Failed, void or interrupted"),
        *("What was run", "How it was measured"),
    ]
    assert re.findall("<h3>(.*?)</h3>", page) == [
        *("tg128", "pp512", "experts-8", "uneven", "even", "all-on-one", "autofit"),
    ]


def test_commands_and_log_lines_stand_word_for_word():
    blocks = [
        html.unescape(one)
        for one in re.findall("<code[^>]*>(.*?)\n</code>", GFM.render(as_markdown(report_input())), re.DOTALL)
    ]
    assert f"GGML_OP_OFFLOAD_MIN_BATCH=64 {' '.join(command('even'))}" in blocks
    assert "ggml_backend_rpc_buffer_type_alloc_buffer: failed to allocate 41231.00 MiB on RPC1" in blocks


def test_hostile_names_and_log_lines_are_shown_and_do_nothing():
    evil = "```\n</code><script>alert(1)</script>|![x](http://evil)\x1b[31m"
    page = GFM.render(as_markdown(report_input(name=evil, title=evil, evidence=evil)))
    assert "<script" not in page
    assert "<img" not in page
    assert "\x1b" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
