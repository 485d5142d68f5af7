from __future__ import annotations

from rich.console import Console

from k3prof.core.python_profile import Frame, PythonProfile, ThreadSamples
from k3prof.reporters.python_functions import as_json, as_markdown, as_table

# Three seconds in work, called by main; one second in main itself.
PROFILE = PythonProfile(
    (Frame("main", "a.py", 1), Frame("work|[red]\x1b[2J", "b.py", 2)),
    (ThreadSamples("t", ((0, 1), (0, 1), (0, 1), (0,)), (1.0, 1.0, 1.0, 1.0)),),
)


def test_functions_come_by_their_own_share_and_names_are_inert() -> None:
    console = Console(width=100, no_color=True)
    with console.capture() as captured:
        console.print(as_table(PROFILE))
    rows = [line for line in captured.get().splitlines() if "%" in line]
    assert [row.split()[:2] for row in rows] == [["75.0%", "75.0%"], ["25.0%", "100.0%"]]
    assert "\x1b" not in captured.get()
    assert "[red]" in captured.get()


def test_markdown_has_one_row_a_function_and_no_stray_columns() -> None:
    rows = as_markdown(PROFILE).splitlines()
    assert len(rows) == 4
    assert all(row.replace("\\|", "").count("|") == 5 for row in rows)


def test_json_holds_every_function() -> None:
    data = as_json(PROFILE)
    assert (data["samples"], data["busy_s"]) == (4, 4.0)
    assert [one["own_frac"] for one in data["functions"]].count(0.75) == 1
