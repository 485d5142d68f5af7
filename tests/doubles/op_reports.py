"""Op profiles of a small model whose shares are known."""

from __future__ import annotations

from k3prof.core.build import Build
from k3prof.core.ops.op_graph import OpNode
from k3prof.core.ops.op_profile import OpReport, profile
from k3prof.core.ops.op_record import OpRecord, OpRequest, TimedPasses, Timing
from k3prof.core.weights.model import Model, Shard, TensorHeader, describe

BUILD = Build("default", "/builds", "1.2.3 (commit abc)", "abc", "", (), "registered", "0" * 64, True)


def op_model(layers: int, name: str = "Small") -> Model:
    """Return a model of layers with experts and grouped-query attention."""
    stems = ("attn_q", "ffn_up_exps")
    names = [f"blk.{layer}.{stem}.weight" for layer in range(layers) for stem in stems]
    headers = [TensorHeader(name, (32, 32, 4), "F16", 8192, 0, 0) for name in ("token_embd.weight", *names)]
    keys = {
        "general.name": name,
        "qwen3moe.block_count": layers,
        "qwen3moe.expert_count": 4,
        "qwen3moe.expert_used_count": 2,
    }
    return describe("qwen3moe", keys, headers, [Shard("/models/small.gguf", 1000)])


def op_report(
    layers: int = 2, *, name: str = "Small", timing: Timing = Timing.NODE, plain_us: float = 100, passes: int = 6
) -> OpReport:
    """Return a report in which a layer's attention takes 10 µs, its MoE 30 µs, and two tiny ops 0.1 µs of that each.

    Args:
        layers: Layers of the model.
        name: The model's name.
        timing: How closely it was timed.
        plain_us: How long an untimed pass takes.
        passes: How many passes there were.
    """
    nodes, stretches_ns, nodes_ns = [], [], []
    for layer in range(layers):
        nodes += [
            OpNode("q", "MUL_MAT", 64, "CUDA0", (f"blk.{layer}.attn_q.weight", "x")),
            OpNode("up", "MUL_MAT_ID", 64, "CUDA0", (f"blk.{layer}.ffn_up_exps.weight", "x")),
            *(OpNode(f"{op}-{layer}", op, 64, "CUDA0", (len(nodes) + 1,)) for op in ("CLAMP", "DIV")),
        ]
        stretches_ns += [10_000, 30_000]
        nodes_ns += [12_000, 35_760, 120, 120]
    plain_ns = (round(plain_us * 1000),) * passes
    whole_ns = tuple(2 * one for one in plain_ns)
    by_node = TimedPasses(plain_ns, whole_ns, (tuple(nodes_ns),) * passes) if timing is Timing.NODE else None
    by_stretch = TimedPasses(plain_ns, tuple(one * 11 // 10 for one in plain_ns), (tuple(stretches_ns),) * passes)
    record = OpRecord("tg", 1, 4, tuple(nodes), (), by_stretch, by_node)
    model = op_model(layers, name)
    request = OpRequest(timing, passes, 0, 2, (("qwen3moe.expert_used_count", 2),))
    return OpReport(model, BUILD, request, (profile(record, model),))
