"""A real run's splits, seen once as they are and once through NVML's counter: the same P.

The run is that of the real llama-server on three stand-ins. Its measured decode lasts a few seconds, too short for
blocks of three; so its repetitions are laid one after another, again and again, for half a minute.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from k3prof.core.idle import parallelism
from k3prof.core.spans import computing
from k3prof.core.summary import phases
from k3prof.core.timeline import Counter, PhaseKind, Series
from k3prof.store.trace import Trace
from tests.collectors.test_nvml_utilisation import S, Session
from tests.doubles.clocks import UNIX_S, StandingClock
from tests.doubles.nvml import FakeNvml, installed
from tests.doubles.nvml_gpu import FakeGpu, Record, replayed
from tests.workflows.test_sweep import Sweeper
from tests.workflows.traced_sweep import DEVICES, PLACEMENTS, TG

pytestmark = pytest.mark.server

BEGIN_NS, LENGTH_NS = 100 * S, 30 * S
Turns = Mapping[str, NDArray[np.int64]]
"""When each device computed: begins and ends, shape (spans, 2), in order."""


def decode_turns(traced: Sweeper, placement: str) -> Turns:
    """Return the turns of a placement's measured decode, tiled from `BEGIN_NS` on."""
    with Trace.readable(traced.trace) as trace:
        trial = next(one for one in trace.trials() if one.spec.placement == placement)
        decode = [one for one in phases(trial) if (one.kind, one.workload) == (PhaseKind.DECODE, TG.name)]
        spans = trace.spans(trial.id)
    tiles: dict[str, list[NDArray[np.int64]]] = {device: [] for device in DEVICES}
    at_ns = BEGIN_NS
    while at_ns < BEGIN_NS + LENGTH_NS:
        for phase in decode:
            for device, own in tiles.items():
                found = computing(spans, device, phase.begin_ns, phase.end_ns)
                assert found is not None
                own.append(np.stack(found, axis=1) - phase.begin_ns + at_ns)
            at_ns += phase.end_ns - phase.begin_ns
    return {device: np.concatenate(own) for device, own in tiles.items()}


def recorded(device: str, turns: NDArray[np.int64]) -> Series:
    """Return the busy time that a device's turns add up to, known at each begin and end."""
    busy_ns = np.repeat(np.cumsum(turns[:, 1] - turns[:, 0]), 2)
    busy_ns[::2] -= turns[:, 1] - turns[:, 0]
    time_ns, places = np.unique(turns.ravel(), return_index=True)
    return Series(device, Counter.BUSY_TIME_NS, 1, time_ns, busy_ns[places].astype(np.float64))


def counted(turns: Turns, window_s: float) -> list[Series]:
    """Return what the collector reads of GPUs that work in these turns, whose driver averages over a window."""
    gpus = [
        FakeGpu(f"GPU-{device}", place + 1, busy=replayed(own / 1e9), window_s=window_s, record=Record(epoch_s=UNIX_S))
        for place, (device, own) in enumerate(turns.items())
    ]
    clock = StandingClock(BEGIN_NS / S)
    with installed(FakeNvml(gpus, clock=clock)) as library:
        session = Session(library.gpus, clock)
        session.run(LENGTH_NS / S)
        return session.finish()


@pytest.mark.parametrize("window_s", [1 / 6, 1.0])
@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_real_run_has_the_same_p_through_the_counter_as_from_its_splits(
    traced: Sweeper, placement: str, window_s: float
) -> None:
    turns = decode_turns(traced, placement)
    measured = [(BEGIN_NS + S, BEGIN_NS + LENGTH_NS - S)]
    exact = parallelism([recorded(device, own) for device, own in turns.items()], measured)
    seen = parallelism(counted(turns, window_s), measured)
    assert exact is not None
    assert seen is not None
    assert seen.resolution_ns == pytest.approx(window_s * S, rel=1e-3)
    assert seen.blocks >= 8
    assert seen.low is not None
    assert seen.high is not None
    assert seen.low <= exact.degree <= seen.high
    # The interval is narrow enough to tell something: a hundredth per device for whole percents, and the blocks' noise.
    assert seen.high - seen.low < 0.25
    assert 0 < exact.degree < 1
    assert not seen.proves_overlap
