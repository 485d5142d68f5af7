"""Writes the demo models: real architectures with random weights, the same bytes everywhere, kept in the cache."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFWriter

from k3prof.core.flags import nearest
from k3prof.errors import ConfigError, MachineError
from k3prof.llama import cache
from k3prof.llama.demo_kimi_k3 import KimiK3
from k3prof.llama.demo_tensors import Architecture, Value
from k3prof.llama.demo_tokenizer import Vocabulary, demo_vocabulary
from k3prof.llama.demo_transformers import Llama, Qwen3Moe, Transformer
from k3prof.llama.demo_weights import encode, size_bytes

_PREFIX = "demo:"
_ELSEWHERE = "set XDG_CACHE_HOME to a folder with space that you may write to"

_SEED = 1
"""To be raised when the same recipe shall give other bytes, so that no older file is taken for it."""

_FAINT = 1 / 16
"""Strength of the scores of tokens that are no printable text, so that what is generated can always be shown."""


@dataclass(frozen=True)
class DemoModel:
    """A model that can be written anywhere.

    Attributes:
        about: What it is and what it is for, in one line.
        sizes: Its architecture and sizes.
    """

    about: str
    sizes: KimiK3 | Qwen3Moe | Llama


DEMO_MODELS: Mapping[str, DemoModel] = {
    "k3": DemoModel(
        "tiny Kimi-K3 with every part of the real one, large enough to be measured",
        KimiK3(
            layers=26,
            width=512,
            heads=6,
            head_size=128,
            shared_key_size=64,
            query_rank=128,
            cache_rank=512,
            dense_ff=2432,
            experts=192,
            experts_used=16,
            expert_ff=64,
            latent=256,
            residual_block=9,
            expert_storage="Q4_0",
            context=32768,
        ),
    ),
    "k3-tiny": DemoModel(
        "the same Kimi-K3 as small as it gets, for tests",
        KimiK3(
            layers=7,
            width=256,
            heads=2,
            head_size=64,
            shared_key_size=64,
            query_rank=64,
            cache_rank=512,
            dense_ff=512,
            experts=32,
            experts_used=16,
            expert_ff=32,
            latent=128,
            residual_block=3,
            expert_storage="Q4_0",
            context=32768,
        ),
    ),
    "qwen3moe": DemoModel(
        "tiny Qwen3-MoE: experts in every layer, ordinary attention, for tests",
        Qwen3Moe(Transformer(5, width=256, heads=4, kv_heads=2, head_size=64, context=32768), 16, 4, expert_ff=128),
    ),
    "llama": DemoModel(
        "tiny dense Llama whose output shares the embedding's weights, for tests",
        Llama(Transformer(5, width=256, heads=4, kv_heads=2, head_size=64, context=32768), ff=704),
    ),
}


def demo_model(name: str, cache_dir: Path | None = None) -> Path:
    """Return where a demo model lies, after writing it if it is not there yet, which takes seconds.

    Args:
        name: One of `DEMO_MODELS`, with or without the `demo:` that sets it off from a path.
        cache_dir: k3prof's cache; the user's own by default.

    Raises:
        ConfigError: There is no demo model of that name.
        MachineError: It cannot be written.
    """
    name = name.removeprefix(_PREFIX)
    model = DEMO_MODELS.get(name)
    if model is None:
        raise _unknown(name)
    vocabulary = demo_vocabulary()
    architecture = model.sizes.architecture(len(vocabulary.tokens))
    folder = (cache_dir or cache.cache_dir()) / "models"
    path = folder / f"{name}-{_recipe_hash(architecture, vocabulary)}.gguf"
    if not path.is_file():
        _write_whole(path, architecture, vocabulary)
    return path


def _unknown(name: str) -> ConfigError:
    guess = nearest(name, DEMO_MODELS)
    hint = f"did you mean {_PREFIX}{guess}?" if guess else ""
    known = ", ".join(_PREFIX + known for known in DEMO_MODELS)
    return ConfigError(f"model: {_PREFIX + name!r}: there is no such demo model", hint or f"there are {known}")


def _recipe_hash(architecture: Architecture, vocabulary: Vocabulary) -> str:
    """Return a short hash of everything that decides a file's bytes."""
    recipe = [_SEED, _FAINT, asdict(architecture), asdict(vocabulary)]
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:12]


def _write_whole(path: Path, architecture: Architecture, vocabulary: Vocabulary) -> None:
    """Write a model such that its name never stands for a part of it."""
    cache.check_space(path.parent, sum(size_bytes(tensor) for tensor in architecture.tensors), path.name)
    draft: Path | None = None
    try:
        descriptor, created = tempfile.mkstemp(prefix=f".{path.stem}-", dir=path.parent)
        draft = Path(created)
        with os.fdopen(descriptor):
            _write(draft, architecture, vocabulary)
            os.fsync(descriptor)
        draft.replace(path)
    except OSError as error:
        raise MachineError(f"{path}: cannot be written: {error.strerror or error}", _ELSEWHERE) from error
    finally:
        if draft is not None:
            draft.unlink(missing_ok=True)


def _write(path: Path, architecture: Architecture, vocabulary: Vocabulary) -> None:
    strength = np.array([1.0 if vocabulary.is_plain_text(token) else _FAINT for token in range(len(vocabulary.tokens))])
    with contextlib.closing(GGUFWriter(path, architecture.name)) as writer:
        for key, value in architecture.keys.items():
            _add_key(writer, f"{architecture.name}.{key}", value)
        _add_tokenizer(writer, vocabulary)
        for tensor in architecture.tensors:
            shape, storage = tensor.shape[::-1], GGMLQuantizationType[tensor.storage]
            writer.add_tensor_info(tensor.name, shape, np.dtype(np.float32), size_bytes(tensor), storage)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_ti_data_to_file()
        for tensor in architecture.tensors:
            writer.write_tensor_data(encode(tensor, _SEED, strength if tensor.name == architecture.head else None))


def _add_key(writer: GGUFWriter, key: str, value: Value) -> None:
    match value:
        case bool():
            writer.add_bool(key, value)
        case int():
            writer.add_uint32(key, value)
        case float():
            writer.add_float32(key, value)
        case str():
            writer.add_string(key, value)
        case tuple():
            writer.add_array(key, value)


def _add_tokenizer(writer: GGUFWriter, vocabulary: Vocabulary) -> None:
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(vocabulary.tokens)
    writer.add_token_types(vocabulary.types)
    writer.add_token_merges(vocabulary.merges)
    writer.add_bos_token_id(vocabulary.bos)
    writer.add_eos_token_id(vocabulary.eos)
    writer.add_add_bos_token(False)
