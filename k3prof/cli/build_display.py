"""How far a build is, on stderr: a bar on a terminal, a line now and then in a log."""

from __future__ import annotations

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

from k3prof.core.build import BuildProgress, BuildStage

_LOG_STEP_PERCENT = 10


class BuildDisplay:
    """Shows the progress that it is called with, while it is entered."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        self._console = console
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[detail]}", markup=False),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", start=False, total=None, detail="")
        self._stage: BuildStage | None = None
        self._logged_percent = 0

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def __call__(self, progress: BuildProgress) -> None:
        """Show it."""
        if self._console.is_terminal:
            self._draw(progress)
        else:
            self._log(progress)
        self._stage = progress.stage

    def _draw(self, progress: BuildProgress) -> None:
        if progress.stage is not self._stage:
            self._bar.reset(self._task, description=progress.stage.value, total=progress.total)
        # A compiler's step ends with the file; the folders before it say little.
        detail = progress.detail.rpartition("/")[2].removesuffix(".o")
        self._bar.update(self._task, completed=progress.done, total=progress.total, detail=detail)

    def _log(self, progress: BuildProgress) -> None:
        if progress.stage is not self._stage:
            detail = f": {progress.detail}" if progress.detail else ""
            self._logged_percent = 0
            self._console.print(f"{progress.stage.value}{detail}", markup=False, highlight=False, soft_wrap=True)
        if progress.total:
            percent = 100 * progress.done // progress.total
            if percent >= self._logged_percent + _LOG_STEP_PERCENT:
                self._logged_percent = percent - percent % _LOG_STEP_PERCENT
                self._console.print(f"{progress.stage.value}: {percent} %", markup=False, highlight=False)
