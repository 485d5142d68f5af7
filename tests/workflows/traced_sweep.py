"""A sweep of the real llama-server on three stand-ins with the exact split tracer: its files, and who runs it."""

from __future__ import annotations

from pathlib import Path

from k3prof.core.build import Build
from k3prof.core.trial import Workload
from tests.workflows.test_sweep import Sweeper

TG = Workload("tg", 32)
SWEEP = """
model = "demo:k3"
devices = "rpc:3"
workloads = ["tg32", "pp128"]
repeat = 4
[flags]
ctx-size = 512
"""
PLACEMENTS = {
    "even": "",
    "uneven": "[flags]\ntensor-split = [3, 2, 1]\n",
    "experts-on-host": "[flags]\nn-cpu-moe = 4\n",
}
DEVICES = ("RPC0", "RPC1", "RPC2")


def run_traced_sweep(folder: Path, build: Build) -> Sweeper:
    """Run it in a folder; its trace tells the rest."""
    experiment = folder / "mine"
    experiment.mkdir()
    (experiment / "sweep.toml").write_text(SWEEP)
    for name, text in PLACEMENTS.items():
        (experiment / f"{name}.toml").write_text(text)
    sweeper = Sweeper(folder, experiment, build)
    done = sweeper.run("--splits", "exact")
    assert done.returncode == 0, done.stderr
    return sweeper
