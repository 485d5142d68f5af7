"""The legs that a trace holds, read back with all that their figures are computed from."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from pydantic import TypeAdapter

from k3prof.core.layout.hardware import Bandwidth
from k3prof.core.refutation.effective import effective
from k3prof.core.refutation.gather import Leg
from k3prof.core.refutation.leg import LegPlace, MeasuredLeg
from k3prof.core.trial import TrialRecord, TrialStatus
from k3prof.core.trial_ledgers import trial_ledgers
from k3prof.llama.logs import read_log
from k3prof.store.trace import Trace

BANDWIDTHS = "bandwidths"
"""Under which the settings of a sweep or a session hold how fast its devices' memory can be read, as far as known."""

_BANDWIDTHS = TypeAdapter(dict[str, Bandwidth])


class LegReader:
    """Reads the legs of a trace that grows; each one once.

    Args:
        trace: The trace.
        forget_failed: Leave out legs that have failed by now; those that fail from now on are read.
    """

    def __init__(self, trace: Trace, *, forget_failed: bool = False) -> None:
        self._trace = trace
        self._forgotten = {
            trial.id
            for trial in (trace.trials() if forget_failed else ())
            if trial.outcome.status in (TrialStatus.FAILED, TrialStatus.VOID)
        }
        self._read: dict[int, Leg] = {}

    def legs(self) -> list[Leg]:
        """Return all legs so far, by rounds and in the order of running."""
        places = {trial: place for trial, place in self._trace.legs() if trial not in self._forgotten}
        if new := places.keys() - self._read.keys():
            hosts, settings = self._trace.hosts(), self._trace.settings()
            for trial in self._trace.trials():
                if trial.id in new:
                    leg = self._leg(trial, places[trial.id], hosts[trial.id], settings[trial.id])
                    self._read[trial.id] = leg
        return [self._read[trial] for trial in places]

    def _leg(self, trial: TrialRecord, place: LegPlace, host: Mapping[str, Any], settings: Mapping[str, Any]) -> Leg:
        series = tuple(self._trace.series(trial.id))
        measured = MeasuredLeg(
            trial=trial,
            series=series,
            ledgers=trial_ledgers(trial, partial(self._trace.spans, trial.id)),
            model=self._trace.model(trial.spec.model),
            bandwidths=_BANDWIDTHS.validate_python(settings.get(BANDWIDTHS, {})),
            price_per_hour=settings.get("price_per_hour"),
            op_shares=self._trace.op_shares(trial.id),
        )
        log = self._trace.log(trial.id)
        return Leg(place, measured, None if log is None else effective(trial, read_log(log), host, series))
