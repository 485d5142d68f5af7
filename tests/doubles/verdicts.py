"""Eight hypotheses about where the time of a token goes, judged: figures chosen by hand, intervals by Student's t."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from scipy import stats

from k3prof.core.refutation.evidence import Block, Evidence, Figure, Grade, Voided
from k3prof.core.refutation.hypothesis import Again, Arm, Band, Comparison, Hypothesis, Rules, Threshold
from k3prof.core.refutation.verdict import Effect, Magnitude, Ruling, Verdict
from k3prof.core.trial import Caveat, Command, Workload
from k3prof.reporters.refutation_input import Effort, Judged, Noise, Past, RefutationReport

TG128, DEEP = Workload("tg", 128), Workload("tg", 128, depth=4096)
START_UNIX_NS = 1_790_000_000_000_000_000
HOUR_NS = 3_600_000_000_000
ABOUT = {
    "tg": ("tok/s", "generated tokens per second, all streams together"),
    "bandwidth_frac": ("", "bytes that a token must read, over what the devices' memory could deliver in its time"),
    "parallelism": ("", "how many devices were busy at a time, on average"),
}
DRIFT = Caveat(
    "no-plateau",
    "tg128@d4096 was still getting faster when the warm-up ended: 27.1, 29.8, 31.0 tok/s",
    "raise warmup in sweep.toml",
)


def ratio_blocks(level: float, ratios: Sequence[float], first_round: int = 0) -> tuple[Block, ...]:
    """Return blocks of two arms with these ratios exactly, on a machine that gets 1 % slower in each."""
    return tuple(
        Block(
            first_round + number,
            (Figure(level), Figure(level * 0.99)),
            (Figure(level * ratio), Figure(level * 0.99 * ratio)),
        )
        for number, ratio in enumerate(ratios)
    )


def level_blocks(levels: Sequence[float], bias: float = 0.0) -> tuple[Block, ...]:
    """Return blocks of one arm with these levels exactly."""
    return tuple(
        Block(number, (Figure(level * 0.99, bias, bias), Figure(level * 1.01, bias, bias)))
        for number, level in enumerate(levels)
    )


def effect_of(blocks: Sequence[Block]) -> Effect:
    """Return the geometric mean of ratios, or the mean of levels, with its 90 % t interval, widened by the biases."""
    ratios = blocks[0].candidate is not None
    values = np.array([block.log_ratio if ratios else block.level.value for block in blocks])
    middle, half = values.mean(), math.nan
    if values.size > 1:
        half = stats.t.ppf(0.95, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size)
    below, above = (0.0, 0.0) if ratios else (blocks[0].level.bias_low, blocks[0].level.bias_high)
    low, high = (None, None) if math.isnan(half) else (middle - half - below, middle + half + above)
    scale = math.exp if ratios else float
    return Effect(
        scale(middle), None if low is None else scale(low), None if high is None else scale(high), len(blocks)
    )


def verdict(hypothesis: Hypothesis, ruling: Ruling, rule: str, blocks: Sequence[Block] = (), **more: Any) -> Verdict:
    evidence = replace(more.pop("evidence", Evidence()), blocks=tuple(blocks))
    standard = {"effect": effect_of(blocks), "grade": Grade.REPLICATED} if blocks else {}
    return Verdict(hypothesis, ruling, rule, evidence=evidence, **{**standard, **more})


def comparison(
    name: str,
    claim: str,
    because: str,
    arms: tuple[str, str],
    predict: tuple[float, float],
    *,
    workloads: tuple[Workload, Workload] = (TG128, TG128),
    smallest: float = 1.05,
    **more: Any,
) -> Hypothesis:
    baseline, candidate = (Arm(*pair) for pair in zip(arms, workloads, strict=True))
    test = Comparison(baseline, candidate, Band(*predict), smallest)
    return Hypothesis(name, claim, because, "tg", test, where=f"placements/hypotheses.toml: {name}", **more)


def threshold(
    name: str, claim: str, because: str, metric: str, predict: tuple[float, float], **more: Any
) -> Hypothesis:
    return Hypothesis(name, claim, because, metric, Threshold(Arm("even", TG128), Band(*predict)), **more)


def judged(found: Verdict, history: tuple[Past, ...] = (), note: str = "") -> Judged:
    return Judged(found, *ABOUT[found.hypothesis.metric], history, note)


AGAIN_BLOCKS = ratio_blocks(33.3, (1.004, 0.996, 1.001))
AGAIN = Evidence(again=AGAIN_BLOCKS)


def noise_of_the_rig() -> Judged:
    claim = Hypothesis(
        "noise",
        "two runs of one placement differ",
        "then no comparison on this machine could be trusted",
        "tg",
        Again(Arm("even", TG128), 1.05),
    )
    rule = "refuted: the 90 % interval lies within 0.952 to 1.05, so that two runs differ by less than what matters"
    return judged(verdict(claim, Ruling.REFUTED, rule, AGAIN_BLOCKS, magnitude=Magnitude.NO_EFFECT, is_final=True))


def cpu_experts() -> Judged:
    claim = comparison(
        "cpu-experts-dominate",
        "computing experts on the CPU dominates decode",
        "then halving the experts used should nearly double decode",
        ("experts-16", "experts-8"),
        (1.6, 2.0),
        if_refuted="moving experts to the GPUs gains at most what halving them does: look elsewhere first",
        if_supported="buy memory for experts, or a faster host",
    )
    rule = (
        "refuted: the interval's upper end 1.29 is below 1.6 (p = 0.0002, needed 0.0021 at look 1 of 4 in a set of 6)"
    )
    blocks = ratio_blocks(24.1, (1.283, 1.274, 1.286))
    return judged(
        verdict(claim, Ruling.REFUTED, rule, blocks, magnitude=Magnitude.SMALLER, is_final=True, evidence=AGAIN)
    )


def crossings() -> Judged:
    form = ("crossings-dominate", "crossings between CPU and GPU dominate decode", "then 172 crossings instead of 2")
    claim = comparison(
        form[0], form[1], f"{form[2]} must cost at least a third", ("autofit", "n-cpu-moe-86"), (0.3, 0.7)
    )
    earlier = comparison(form[0], form[1], f"{form[2]} must cost something", ("autofit", "n-cpu-moe-86"), (0.9, 0.995),
                         smallest=1.004)  # fmt: skip
    blocks = ratio_blocks(29.8, (1.006, 0.991, 1.002, 0.998, 1.007))
    was = verdict(
        earlier,
        Ruling.INCONCLUSIVE,
        "inconclusive: the interval reaches over 0.995 on both sides after 3 blocks",
        blocks[:3],
        reasons=("the interval is too wide to tell",),
        blocks_needed=19,
        evidence=AGAIN,
    )
    past = Past(START_UNIX_NS - 20 * HOUR_NS, was, "prediction changed after data was seen: was [0.9, 0.995]")
    rule = (
        "refuted: the interval's lower end 0.995 is above 0.7 (p < 0.0001, needed 0.0025 at look 2 of 4 in a set of 6)"
    )
    found = verdict(claim, Ruling.REFUTED, rule, blocks, magnitude=Magnitude.NO_EFFECT, is_final=True, evidence=AGAIN)
    return judged(found, (past,), "The first two rounds were measured before the prediction took this form.")


def bandwidth() -> Judged:
    claim = threshold(
        "bandwidth-bound",
        "decode is bound by memory bandwidth",
        "then it should use most of what the devices' memory can deliver",
        "bandwidth_frac",
        (0.6, math.inf),
        if_refuted="smaller weights will not make a token faster in proportion",
    )
    rule = (
        "refuted: the interval's upper end 0.0738 is below 0.6 (p < 0.0001, needed 0.0021 at look 1 of 4 in a set of 6)"
    )
    return judged(
        verdict(claim, Ruling.REFUTED, rule, level_blocks((0.0712, 0.0695, 0.0704), bias=0.002), is_final=True)
    )


def turns() -> Judged:
    claim = threshold(
        "devices-take-turns",
        "the devices take turns: in decode only one works at a time",
        "then the busy shares of all devices add up to about 1",
        "parallelism",
        (-math.inf, 1.1),
        if_supported="more devices hold more, but make no single stream faster",
    )
    rule = "supported: the upper end 0.77 is at most 1.1 (p = 0.0004, needed 0.0025 at look 1 of 4 in a set of 6)"
    return judged(verdict(claim, Ruling.SUPPORTED, rule, level_blocks((0.742, 0.738, 0.761)), is_final=True))


def kernel() -> Judged:
    claim = comparison(
        "moe-kernel",
        "the MoE kernel is the bottleneck",
        "then a kernel that fuses its activation should show in decode",
        ("plain-kernel", "fused-kernel"),
        (1.15, math.inf),
        if_refuted="tuning this kernel further gains nothing",
    )
    rule = "refuted: 1.01 is below 1.15 by more than a scatter of 3 % between runs, which is assumed"
    return judged(
        verdict(
            claim,
            Ruling.REFUTED,
            rule,
            effect=Effect(1.012, 0.97, 1.056, 1),
            grade=Grade.UNREPLICATED,
            is_final=False,
        )
    )


def threads() -> Judged:
    claim = comparison(
        "threads-help",
        "the host's threads limit decode",
        "then 41 threads instead of 16 should gain at least a third",
        ("threads-16", "threads-41"),
        (1.33, 2.6),
    )
    obstacle = "confounded by n-cpu-moe: threads-16 has 48, threads-41 has 0"
    return judged(
        verdict(
            claim,
            Ruling.INCONCLUSIVE,
            "inconclusive: the placements differ in more than the one thing",
            reasons=(obstacle,),
            is_final=True,
            evidence=Evidence(obstacle=obstacle),
        )
    )


def depth() -> Judged:
    claim = comparison(
        "depth-is-free",
        "4,096 tokens of context cost decode nothing",
        "most layers keep a state of fixed size, whatever the context",
        ("even", "even"),
        (0.95, 1.05),
        workloads=(TG128, DEEP),
        rules=Rules(looks=(3, 5, 8)),
        if_refuted="measure at the depth that you use",
        if_supported="one depth stands for all",
    )
    blocks = ratio_blocks(33.3, (0.968, 0.941, 0.987, 0.979, 0.952))
    evidence = Evidence(
        again=AGAIN_BLOCKS,
        voided=(Voided(5, "even, leg 3: the server's process was throttled for 212 ms by the CPU quota"),),
        caveats=(DRIFT,),
    )
    return judged(
        verdict(
            claim,
            Ruling.INCONCLUSIVE,
            "inconclusive: the interval [0.947, 0.983] reaches over the band's lower end 0.95 after 5 blocks",
            blocks,
            magnitude=None,
            reasons=("the effect is near the edge of the band, and the interval is too wide to tell on which side",),
            blocks_needed=3,
            evidence=evidence,
        )
    )


def eight() -> tuple[Judged, ...]:
    return (
        noise_of_the_rig(),
        cpu_experts(),
        crossings(),
        bandwidth(),
        turns(),
        kernel(),
        threads(),
        depth(),
    )


def refutation_report(rows: tuple[Judged, ...] | None = None, **more: Any) -> RefutationReport:
    rows = eight() if rows is None else rows
    placements = dict.fromkeys(arm.placement for row in rows for arm in row.verdict.hypothesis.arms)
    unmeasured = ("plain-kernel", "fused-kernel")
    standard: dict[str, Any] = {
        "title": "what is the ceiling?",
        "rows": rows,
        "effort": Effort(9, 58, 61, 1.37, 3.01, "--max-time 90m is spent", "none of 90 min"),
        "noise": (
            Noise("tg", TG128, effect_of(AGAIN_BLOCKS)),
            Noise("tg", DEEP, effect_of(ratio_blocks(32.0, (1.013, 0.991, 0.994)))),
        ),
        "stand_ins": True,
        "rig": {
            "devices": "RPC0, RPC1, RPC2: stand-in devices",
            "model": "kimi-k3-demo.gguf (8c1f0a52e6d94b37)",
            "build default": "0.5.0-dev (build 1, commit 0c1e570), GNU 14.2.0, -DGGML_RPC=ON",
            "processor": "AMD EPYC, 2 cores",
            "memory": "24.0 GiB",
        },
        "settings": 'model = "demo:k3"\ndevices = "rpc:3"\nworkloads = ["tg128", "tg128@d4096"]\nrepeat = 3\n',
        "commands": {name: None if name in unmeasured else command(name) for name in placements},
        "unix_ns": START_UNIX_NS,
    }
    return RefutationReport(**{**standard, **more})


def command(placement: str) -> Command:
    argv = (
        "/home/someone/.cache/k3prof/builds/default/bin/llama-server",
        *("--model", "/home/someone/.cache/k3prof/models/kimi-k3-demo.gguf", "--alias", placement),
        *("--rpc", "127.0.0.1:40001,127.0.0.1:40002,127.0.0.1:40003", "--tensor-split", "1,1,1", "--ctx-size", "8192"),
    )
    return Command(argv, {"GGML_OP_OFFLOAD_MIN_BATCH": "64"})


def everywhere(value: Any, text: str) -> Any:
    """Return a record with a text behind every string that somebody else may have written."""
    match value:
        case Enum() | Workload():
            return value
        case str():
            return f"{value} {text}" if value else value
        case tuple():
            return tuple(everywhere(one, text) for one in value)
        case dict():
            return {everywhere(key, text): everywhere(one, text) for key, one in value.items()}
        case _ if is_dataclass(value):
            return replace(value, **{one.name: everywhere(getattr(value, one.name), text) for one in fields(value)})
        case _:
            return value
