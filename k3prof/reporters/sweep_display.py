"""Shows a running sweep: redrawn in place on a terminal, a line at a time anywhere else."""

from __future__ import annotations

from types import TracebackType

from rich.console import Console
from rich.live import Live

from k3prof.reporters.live import SweepProgress, new_lines, render


class SweepDisplay:
    """What stands on stderr while a sweep runs. Use it in a `with` statement.

    It draws only when it is told to: a thread that redraws by itself would take time from what is measured. The
    table is gone at the end, when the ranking takes its place.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: SweepProgress | None = None
        self._live: Live | None = None

    def __enter__(self) -> SweepDisplay:
        if self._console.is_terminal:
            self._live = Live(console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: SweepProgress) -> None:
        """Draw how far the sweep is."""
        if self._live is not None:
            self._live.update(render(progress), refresh=True)
        else:
            for line in new_lines(self._shown, progress):
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)
        self._shown = progress
