"""Models of several architectures, small enough to be written in an instant and true enough for llama-server to load.

Weights are zeros: only what the server allocates is of interest.
"""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np

WIDTH, HEADS, KV_HEADS, HEAD, FFN, EXPERT_FFN, EXPERTS = 64, 4, 2, 32, 96, 32, 8
LATENT, ROPE = 64, 32
TOKENS = 300

Shapes = dict[str, tuple[int, ...]]

_BASE = {
    "context_length": 4096,
    "embedding_length": WIDTH,
    "feed_forward_length": FFN,
    "attention.head_count": HEADS,
    "attention.layer_norm_rms_epsilon": 1e-5,
}
_MOE = {
    "expert_count": EXPERTS,
    "expert_used_count": 2,
    "expert_feed_forward_length": EXPERT_FFN,
    "expert_shared_count": 1,
    "leading_dense_block_count": 1,
    "expert_weights_scale": 1.0,
    "expert_gating_func": 2,
}
_GQA_KEYS = {"attention.head_count_kv": KV_HEADS, "attention.key_length": HEAD, "attention.value_length": HEAD}
_MLA_KEYS = {
    "attention.kv_lora_rank": LATENT,
    "attention.key_length": LATENT + ROPE,
    "attention.value_length": LATENT,
    "attention.key_length_mla": HEAD + ROPE,
    "attention.value_length_mla": HEAD,
    "rope.dimension_count": ROPE,
}
_NORMS: Shapes = {"attn_norm.weight": (WIDTH,), "ffn_norm.weight": (WIDTH,)}
_GQA: Shapes = {
    "attn_q.weight": (WIDTH, HEADS * HEAD),
    "attn_k.weight": (WIDTH, KV_HEADS * HEAD),
    "attn_v.weight": (WIDTH, KV_HEADS * HEAD),
    "attn_output.weight": (HEADS * HEAD, WIDTH),
}
_MLA: Shapes = {
    "attn_kv_a_mqa.weight": (WIDTH, LATENT + ROPE),
    "attn_kv_a_norm.weight": (LATENT,),
    "attn_k_b.weight": (HEAD, LATENT, HEADS),
    "attn_v_b.weight": (LATENT, HEAD, HEADS),
    "attn_output.weight": (HEADS * HEAD, WIDTH),
}
_Q_LORA: Shapes = {
    "attn_q_a.weight": (WIDTH, LATENT),
    "attn_q_a_norm.weight": (LATENT,),
    "attn_q_b.weight": (LATENT, HEADS * (HEAD + ROPE)),
}
_KDA: Shapes = {
    **{f"ssm_conv1d_{part}.weight": (4, 1, HEADS * HEAD) for part in "qkv"},
    **{f"attn_{part}.weight": (WIDTH, HEADS * HEAD) for part in "qkv"},
    "ssm_f_a.weight": (WIDTH, HEAD),
    "ssm_f_b.weight": (HEAD, HEADS * HEAD),
    "ssm_beta.weight": (WIDTH, HEADS),
    "ssm_a": (1, HEADS),
    "ssm_dt.bias": (HEADS * HEAD,),
    "ssm_g_a.weight": (WIDTH, HEAD),
    "ssm_g_b.weight": (HEAD, HEADS * HEAD),
    "ssm_norm.weight": (HEAD,),
    "attn_output.weight": (HEADS * HEAD, WIDTH),
}
_MTP: Shapes = {
    "nextn.eh_proj.weight": (2 * WIDTH, WIDTH),
    "nextn.enorm.weight": (WIDTH,),
    "nextn.hnorm.weight": (WIDTH,),
}


def qwen3(layers: int = 4):
    """Dense, grouped-query attention."""
    layer = _NORMS | _GQA | _dense() | {"attn_q_norm.weight": (HEAD,), "attn_k_norm.weight": (HEAD,)}
    return "qwen3", _BASE | _GQA_KEYS, [layer] * layers


def glm4moe(layers: int = 5):
    """Grouped-query attention, experts, and a last layer that only drafts."""
    norms: Shapes = {"attn_norm.weight": (WIDTH,), "post_attention_norm.weight": (WIDTH,)}
    blocks = [norms | _GQA | _experts(layer) for layer in range(layers)]
    blocks[-1] |= _MTP
    keys = _BASE | _MOE | _GQA_KEYS | {"nextn_predict_layers": 1, "rope.dimension_count": HEAD // 2}
    return "glm4moe", keys, blocks


def deepseek2(layers: int = 5, mtp: bool = False):
    """MLA with a latent cache."""
    blocks = [_NORMS | _Q_LORA | _MLA | _experts(layer, bias=False) for layer in range(layers)]
    keys = _BASE | _MOE | _MLA_KEYS | {"attention.head_count_kv": 1, "attention.q_lora_rank": LATENT}
    if mtp:
        blocks[-1] |= _MTP
        keys["nextn_predict_layers"] = 1
    return "deepseek2", keys, blocks


def deepseek2_before_the_latent_cache(layers: int = 5):
    """MLA as files had it until 2025: keys and values are cached in full."""
    architecture, keys, blocks = deepseek2(layers)
    keys = {key: value for key, value in keys.items() if not key.endswith("_mla")}
    keys |= {
        "attention.head_count_kv": HEADS,
        "attention.key_length": HEAD + ROPE,
        "attention.value_length": HEAD,
    }
    for block in blocks:
        del block["attn_k_b.weight"], block["attn_v_b.weight"]
        block["attn_kv_b.weight"] = (LATENT, HEADS * 2 * HEAD)
    return architecture, keys, blocks


def kimi_linear(layers: int = 8):
    """Every fourth layer MLA, the others KDA."""
    mla = [layer % 4 == 3 for layer in range(layers)]
    q: Shapes = {"attn_q.weight": (WIDTH, HEADS * (HEAD + ROPE))}
    blocks = [_NORMS | (q | _MLA if mla[layer] else _KDA) | _experts(layer) for layer in range(layers)]
    keys = _BASE | _MOE | _MLA_KEYS
    keys |= {"attention.head_count_kv": [int(is_mla) for is_mla in mla], "ssm.conv_kernel": 4, "kda.head_dim": HEAD}
    return "kimi-linear", keys, blocks


def write_loadable(path: Path, architecture: str, keys: dict[str, object], blocks: list[Shapes]) -> Path:
    """Write a model that llama-server loads."""
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in (keys | {"block_count": len(blocks)}).items():
        full = f"{architecture}.{key}"
        add = {float: writer.add_float32, list: writer.add_array}.get(type(value), writer.add_uint32)
        add(full, value)
    writer.add_tokenizer_model("none")
    writer.add_vocab_size(TOKENS)
    tensors: Shapes = {
        "token_embd.weight": (WIDTH, TOKENS),
        "output_norm.weight": (WIDTH,),
        "output.weight": (WIDTH, TOKENS),
    }
    tensors |= {f"blk.{n}.{name}": shape for n, block in enumerate(blocks) for name, shape in block.items()}
    for name, shape in tensors.items():
        single = len(shape) == 1 or any(part in name for part in ("conv1d", "gate_inp", "ssm_a"))
        writer.add_tensor(name, np.zeros(shape[::-1], np.float32 if single else np.float16))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _dense() -> Shapes:
    return {
        "ffn_gate.weight": (WIDTH, FFN),
        "ffn_up.weight": (WIDTH, FFN),
        "ffn_down.weight": (FFN, WIDTH),
    }


def _experts(layer: int, bias: bool = True) -> Shapes:
    if layer == 0:
        return _dense()
    shapes: Shapes = {
        "ffn_gate_inp.weight": (WIDTH, EXPERTS),
        "ffn_gate_exps.weight": (WIDTH, EXPERT_FFN, EXPERTS),
        "ffn_up_exps.weight": (WIDTH, EXPERT_FFN, EXPERTS),
        "ffn_down_exps.weight": (EXPERT_FFN, WIDTH, EXPERTS),
        "ffn_gate_shexp.weight": (WIDTH, EXPERT_FFN),
        "ffn_up_shexp.weight": (WIDTH, EXPERT_FFN),
        "ffn_down_shexp.weight": (EXPERT_FFN, WIDTH),
    }
    return shapes | ({"exp_probs_b.bias": (EXPERTS,)} if bias else {})
