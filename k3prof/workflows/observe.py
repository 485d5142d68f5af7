"""Watch the devices while a server works: the sampler's readings, carried to where they are kept."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

import numpy as np

from k3prof.collectors.sampler import MACHINE, Sampler, SamplerPlan, start_sampler
from k3prof.core.device import DeviceKind
from k3prof.core.events import DeviceEvent, Watch, event_caveats
from k3prof.core.timeline import Counter, Series
from k3prof.core.trial import Caveat
from k3prof.errors import K3profError
from k3prof.llama.devices import DevicePlan

_CARRY_INTERVAL_S = 0.25
_TAIL_S = 0.02
_READY_PATIENCE_S = 10.0
_LATE_NS = 5_000_000
_LATENESS_QUANTILE = 0.99


def gpus_of(devices: DevicePlan) -> SamplerPlan:
    """Return the plan to watch the GPUs among devices, which can begin before any process uses them."""
    gpus = tuple(
        (device.name, device.uuid)
        for device in devices.devices
        if device.kind is DeviceKind.CUDA and device.uuid is not None
    )
    return SamplerPlan((), gpus, host=False)


def processes_of(pids: Mapping[str, int]) -> SamplerPlan:
    """Return the plan to watch the machine and the processes behind devices: stand-ins, llama-server as `CPU`."""
    return SamplerPlan(tuple(pids.items()))


class Observer:
    """Samples from entering its context to leaving it; entering waits until GPUs are being watched.

    Args:
        plan: What is watched.
        keep: Gets the samples, a few times a second, from a thread of the observer's own.
        drain: Called as often, from the same thread, to carry what others have recorded meanwhile.

    Attributes:
        own_pids: The trial's own processes; others that compute on its GPUs are foreign.
    """

    def __init__(
        self, plan: SamplerPlan, keep: Callable[[list[Series]], None], drain: Callable[[], None] = lambda: None
    ) -> None:
        self.own_pids: set[int] = set()
        self._plan = plan
        self._keep = keep
        self._drain = drain
        self._lateness_ns: list[float] = []
        self._failure: K3profError | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._carry, name="samples")
        self._sampler: Sampler | None = None
        self._begun_ns = self._ready_ns = 0

    def __enter__(self) -> Self:
        self._begun_ns = time.monotonic_ns()
        self._sampler = start_sampler(self._plan)
        if self._plan.gpus:
            self._sampler.wait_until_ready(_READY_PATIENCE_S)
        self._ready_ns = time.monotonic_ns()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # One more reading than was needed: a share is known only between readings.
        time.sleep(_TAIL_S)
        self._stop.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    @property
    def events(self) -> Sequence[DeviceEvent]:
        """What happened to the devices, and what was found out once of them; complete once the context is left."""
        return self._sampler.events if self._sampler is not None else ()

    @property
    def caveats(self) -> list[Caveat]:
        """What makes the samples doubtful; complete once the context is left."""
        found = [
            Caveat("sampler-failed", failure, "the figures of the server itself are not affected")
            for failure in (self._sampler.failures if self._sampler is not None else ())
        ]
        if self._sampler is not None:
            found += event_caveats(self.events, Watch(self._begun_ns, self._ready_ns, self.own_pids))
        if self._lateness_ns:
            late_ns = float(np.quantile(self._lateness_ns, _LATENESS_QUANTILE))
            if late_ns > _LATE_NS:
                found.append(
                    Caveat(
                        "sampler-late",
                        f"one sample in a hundred was taken more than {late_ns / 1e6:.0f} ms late",
                        "other load keeps the processor busy: see `k3prof doctor`",
                    )
                )
        return found

    def _carry(self) -> None:
        assert self._sampler is not None  # noqa: S101 - the thread starts after the sampler
        try:
            while not self._stop.wait(_CARRY_INTERVAL_S):
                self._pass_on(self._sampler.poll())
        except K3profError as error:
            self._failure = error
        finally:
            rest = self._sampler.stop()
            if self._failure is None:
                try:
                    self._pass_on(rest)
                except K3profError as error:
                    self._failure = error

    def _pass_on(self, series: list[Series]) -> None:
        for one in series:
            if one.device == MACHINE and one.counter is Counter.LATENESS_NS:
                self._lateness_ns += one.value.tolist()
        if series:
            self._keep(series)
        self._drain()
