"""One llama-server: started, waited for while it makes progress, proven to be ours, stopped."""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from k3prof.core.trial import Failure, Outcome, TrialStatus
from k3prof.llama.child import spawn, terminate
from k3prof.llama.failures import classify

_POLL_S = 0.1
_SHUTDOWN_PATIENCE_S = 60.0


class ServerFailedError(Exception):
    """A server did not start, or died. This is a result, not an end of the sweep."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.message)
        self.outcome = outcome


@dataclass(frozen=True)
class Loading:
    """How far a server has come.

    Attributes:
        elapsed_s: Seconds since its start.
        read_bytes: What it has read so far, from files and sockets; None where the kernel does not say.
        silent_s: Seconds without any sign of progress.
    """

    elapsed_s: float
    read_bytes: int | None
    silent_s: float


class Server:
    """A started llama-server. Made by `running_server`."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, alias: str, log: Path) -> None:
        self.pid = process.pid
        self.url = f"http://127.0.0.1:{port}"
        self._process = process
        self._alias = alias
        self._log = log
        self._stalled = False

    def wait_until_ready(self, stall_s: float, on_progress: Callable[[Loading], None]) -> None:
        """Return when the model is loaded; patience lasts as long as the server writes its log or reads data.

        Args:
            stall_s: Seconds without a sign of progress after which the server counts as stalled.
            on_progress: Called a few times a second.

        Raises:
            ServerFailedError: It died, stalled, or another server answers in its place.
        """
        started = last_progress = time.monotonic()
        seen: tuple[int, int | None] = (0, None)
        with httpx.Client(base_url=self.url, trust_env=False, timeout=5.0) as http:
            while True:
                if self._process.poll() is not None:
                    raise ServerFailedError(self.failure())
                if self._answers(http):
                    self._check_identity(http)
                    return
                now = time.monotonic()
                progress = (self._log.stat().st_size, self._read_bytes())
                if progress != seen:
                    seen, last_progress = progress, now
                on_progress(Loading(now - started, progress[1], now - last_progress))
                if now - last_progress > stall_s:
                    self._stalled = True
                    raise ServerFailedError(self.failure())
                time.sleep(_POLL_S)

    def raise_if_dead(self, patience_s: float) -> None:
        """Give a server that broke off a connection a moment to die, and say why it did.

        Raises:
            ServerFailedError: It has died.
        """
        try:
            self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            return
        raise ServerFailedError(self.failure())

    def failure(self) -> Outcome:
        """Return why it failed, as its log and exit tell."""
        return classify(self.log_text(), self._process.poll(), stalled=self._stalled)

    def log_text(self) -> str:
        """Return everything it has printed so far, undecodable bytes replaced."""
        return self._log.read_text(errors="replace")

    def _answers(self, http: httpx.Client) -> bool:
        try:
            return http.get("/health").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def _check_identity(self, http: httpx.Client) -> None:
        try:
            models = http.get("/v1/models").json()["data"]
            names = [model.get("id") for model in models]
        except (httpx.HTTPError, ValueError, KeyError, AttributeError, TypeError):
            names = []
        if self._alias not in names:
            message = f"{self.url} answers, but it is not the server that was started for this trial"
            raise ServerFailedError(Outcome(TrialStatus.FAILED, Failure.PORT_TAKEN, message))

    def _read_bytes(self) -> int | None:
        try:
            counters = psutil.Process(self.pid).io_counters()
        except (psutil.Error, OSError):
            return None
        return int(counters.read_chars) + int(counters.read_bytes)


@contextlib.contextmanager
def running_server(argv: Sequence[str], env: Mapping[str, str], port: int, alias: str, log: Path) -> Iterator[Server]:
    """Start a llama-server and stop it at the end, however the body ends.

    Args:
        argv: The whole command.
        env: Its whole environment.
        port: Where the command makes it listen on loopback.
        alias: The alias that the command gives it.
        log: The file that gets all it prints.
    """
    with log.open("wb") as output:
        process = spawn(argv, env=env, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield Server(process, port, alias, log)
    finally:
        terminate(process, _SHUTDOWN_PATIENCE_S)
