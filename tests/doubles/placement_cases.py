"""Placements for the demo models, over every flag that decides where a model's memory goes."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field

from k3prof.core.trial import FlagValue

MOST_STAND_INS = 5
MODELS = ("k3-tiny", "qwen3moe", "llama")
_GENERATED = 24
_PATTERNS = (
    "attn_q",
    r"blk\.[0-2]\.",
    "output",
    "token_embd",
    r"ffn_(up|down)",
    "norm",
    r"\.weight$",
    r"blk\.(1|3)\.ffn_.*",
)
_CACHE_TYPES = ("f16", "bf16", "q8_0", "q4_0", "f32", "q5_1")


@dataclass(frozen=True)
class Case:
    """One placement of one demo model.

    Attributes:
        model: Which.
        stand_ins: Over how many devices.
        flags: llama-server's flags; devices' memory by the names of the devices.
    """

    model: str
    stand_ins: int
    flags: dict[str, FlagValue] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What a test is called by."""
        flags = " ".join(f"{name}={value}" for name, value in self.flags.items())
        return f"{self.model} x{self.stand_ins} {flags}"


def all_cases() -> list[Case]:
    """Return cases that were thought of, and some that were not."""
    return [*_chosen(), *(case for model in MODELS for case in _generated(model))]


def _chosen() -> Iterator[Case]:
    # Shares at which float64 would send a layer elsewhere than float32, which llama.cpp computes in.
    for shares in ((0.2, 1), (0.1, 0.3, 2), (0.2, 0.3, 0.1)):
        yield Case("qwen3moe", len(shares), {"tensor-split": shares, "ctx-size": 512})
    for shares in ((0.1, 0.7), (0.1, 2, 0.3)):
        yield Case("k3-tiny", len(shares), {"tensor-split": shares, "ctx-size": 512})
    # Slots: four that share one cache where nothing is said, separate caches of a part each where a number is given.
    yield Case("k3-tiny", 2, {"ctx-size": 1000})
    yield Case("k3-tiny", 2, {"ctx-size": 1000, "parallel": 3})
    yield Case("k3-tiny", 2, {"ctx-size": 1000, "parallel": 3, "kv-unified": True})
    yield Case("qwen3moe", 2, {"parallel": 2, "kv-unified-per-slot": 700})
    # Rules for single tensors: the first match decides, in the order of the flags.
    yield Case("k3-tiny", 3, {"ctx-size": 512, "override-tensor": "ffn_up_exps=RPC1,exps=CPU", "n-cpu-moe": 3})
    yield Case("k3-tiny", 3, {"ctx-size": 512, "n-cpu-moe": 3, "override-tensor": "ffn_up_exps=RPC1,exps=RPC2"})
    yield Case("k3-tiny", 2, {"ctx-size": 512, "cpu-moe": True})
    yield Case("k3-tiny", 2, {"ctx-size": 512, "cpu-moe": True, "repack": False, "load-mode": "none"})
    yield Case("llama", 2, {"ctx-size": 512, "override-tensor": "token_embd=RPC1"})
    yield Case("llama", 3, {"ctx-size": 512, "n-cpu-ffn": 2, "load-mode": "none"})
    # Few layers offloaded: the first ones stay on the host.
    yield Case("k3-tiny", 3, {"ctx-size": 512, "n-gpu-layers": 3})
    yield Case("llama", 2, {"ctx-size": 512, "n-gpu-layers": 0})
    yield Case("qwen3moe", 2, {"ctx-size": 512, "device": "none"})


def _generated(model: str) -> Iterator[Case]:
    chance = random.Random(model)
    for _ in range(_GENERATED):
        yield _random_case(model, chance)


def _random_case(model: str, chance: random.Random) -> Case:
    count = chance.randint(2, MOST_STAND_INS)
    names = [f"RPC{index}" for index in range(count)]
    flags: dict[str, FlagValue] = {"ctx-size": chance.choice((256, 300, 1000, 1024, 2048, 5000))}
    used = names
    if chance.random() < 0.25:
        used = chance.sample(names, chance.randint(1, count))
        flags["device"] = ",".join(used)
    if chance.random() < 0.5:
        shares = [chance.choice((0, 1, 1, 2, 3, 0.5, 0.3)) for _ in range(chance.randint(1, len(used)))]
        flags["tensor-split"] = tuple(shares) if any(shares) else (1,)
    if chance.random() < 0.4:
        flags["n-gpu-layers"] = chance.choice((0, 1, 2, 3, 5, 6, 8, 99, "all", "auto"))
    if chance.random() < 0.15:
        index = chance.randrange(len(used))
        flags |= {"split-mode": "none", "main-gpu": index}
        used = used[index : index + 1]
    flags |= _random_rules(model, used, chance)
    flags |= _random_context(model, chance)
    if chance.random() < 0.4:
        flags["load-mode"] = chance.choice(("none", "mmap", "mlock", "dio", "mmap+mlock"))
    if chance.random() < 0.15:
        flags["repack"] = False
    if chance.random() < 0.1:
        flags["no-host"] = True
    return Case(model, count, flags)


def _random_rules(model: str, used: list[str], chance: random.Random) -> dict[str, FlagValue]:
    rules: list[tuple[str, FlagValue]] = []
    if chance.random() < 0.4:
        targets = [*used, "CPU", "CPU"]
        parts = [f"{chance.choice(_PATTERNS)}={chance.choice(targets)}" for _ in range(chance.randint(1, 3))]
        rules.append(("override-tensor", ",".join(parts)))
    if model != "llama":
        rules += [("cpu-moe", True)] if chance.random() < 0.15 else []
        rules += [("n-cpu-moe", chance.choice((0, 1, 2, 3, 5, 99)))] if chance.random() < 0.35 else []
    rules += [("n-cpu-ffn", chance.choice((1, 2, 4, 99)))] if chance.random() < 0.2 else []
    chance.shuffle(rules)
    return dict(rules)


def _random_context(model: str, chance: random.Random) -> dict[str, FlagValue]:
    flags: dict[str, FlagValue] = {}
    if chance.random() < 0.25:
        flags["kv-offload"] = False
    if chance.random() < 0.6:
        flags["parallel"] = chance.choice((1, 2, 3, 4, 5))
    if chance.random() < 0.3:
        flags["kv-unified"] = True
    if chance.random() < 0.4:
        keys = chance.choice(_CACHE_TYPES)
        flags |= {"cache-type-k": keys, "cache-type-v": keys if model == "k3-tiny" else chance.choice((keys, "q8_0"))}
    return flags
