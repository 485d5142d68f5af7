"""What using half the experts really gains, beside what the op profile says that no experts at all could gain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.ops.op_graph import Part
from k3prof.core.ops.op_profile import OpProfile, profile
from k3prof.core.ops.op_record import OpRequest, Timing
from k3prof.llama.ops import record_ops
from k3prof.llama.programs import clean_environment
from k3prof.workflows.model_file import find_model
from tests.bench.figure import Figure
from tests.bench.ratio import Ratio, from_logs

_REPOSITORY = Path(__file__).resolve().parents[2]
_TOKENS_PER_BLOCK = 8
_THREADS = 1


@dataclass(frozen=True)
class ExpertsHalved:
    """A measured gain and the bounds that it must keep.

    Attributes:
        gain: Tokens per second with half the experts over those with all that the model uses.
        profile: Where the time goes with all of them.
        experts_used: How many that is.
    """

    gain: Ratio
    profile: OpProfile
    experts_used: int

    @property
    def moe_gain(self) -> float:
        """What the profile says that no MoE at all would gain."""
        moe = self.profile.part(Part.MOE)
        return 1.0 if moe is None or moe.most_gain is None else moe.most_gain

    @property
    def about(self) -> str:
        """Say how it was measured."""
        return (
            f"Experts: two copies of the model in one process decode in turn, {_TOKENS_PER_BLOCK} tokens each; "
            f"{self.gain.blocks} blocks; the op profile is taken on its own."
        )

    def figures(self) -> list[Figure]:
        """Return the rows of the table."""
        half = self.experts_used // 2
        within = None if self.gain.low <= self.moe_gain <= self.gain.high else self.gain.high < self.moe_gain
        return [
            Figure(f"{half} / {self.experts_used} experts, tok/s", str(self.gain), f"≤ {self.moe_gain:.3f} ×", within)
        ]


def measure(build: Build, model: str, blocks: int, tokens: int) -> ExpertsHalved:
    """Measure the gain, and take the profile.

    Args:
        build: The build whose libllama computes.
        model: A model with routed experts.
        blocks: Turns of both copies.
        tokens: Tokens of the profile.
    """
    file = find_model(model)
    used = file.header.geometry.experts_used
    key = f"{file.header.architecture}.expert_used_count"
    (record,) = record_ops(build, file.path, OpRequest(Timing.LAYER, tokens, 0, _THREADS))
    argv = [sys.executable, "-m", "tests.bench.experts_halved", str(file.path), key, str(used // 2), str(blocks)]
    env = {**clean_environment(), "LLAMA_CPP_LIB_PATH": build.bin_dir, "PYTHONPATH": str(_REPOSITORY)}
    ran = subprocess.run(argv, env=env, cwd=_REPOSITORY, capture_output=True, text=True, check=True)
    return ExpertsHalved(from_logs(json.loads(ran.stdout)), profile(record, file.header), used)


def _log_gains(path: Path, key: str, half: int, blocks: int) -> Iterator[float]:
    import numpy as np

    from k3prof.llama.libllama import Context, LoadedModel, start

    start(Path(os.environ["LLAMA_CPP_LIB_PATH"]))
    models = LoadedModel(path), LoadedModel(path, [(key, half)])
    contexts = [Context(model, 4096, 512, _THREADS) for model in models]
    following = [model.text(1) for model in models]

    def decode(arm: int) -> float:
        took_ns = []
        for _ in range(_TOKENS_PER_BLOCK):
            took_ns.append(contexts[arm].forward(following[arm]))
            following[arm] = [contexts[arm].likeliest()]
        return float(np.median(took_ns))

    for block in range(-1, blocks):
        outer = block % 2
        first, second, third, fourth = decode(outer), decode(1 - outer), decode(1 - outer), decode(outer)
        gain = (np.log([first, fourth]).mean() - np.log([second, third]).mean()) * (-1 if outer else 1)
        # The first warms up.
        if block >= 0:
            yield float(gain)


if __name__ == "__main__":
    path, key, half, blocks = sys.argv[1:]
    print(json.dumps(list(_log_gains(Path(path), key, int(half), int(blocks)))))
