"""libllama in this process, through llama-cpp-python: models, contexts, forward passes.

Imported only by a process of its own, since the library ends the process on many errors: the environment variable
LLAMA_CPP_LIB_PATH says which build's libraries are loaded.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
from llama_cpp import llama_cpp as api

from k3prof.llama.prompts import PromptSource

Override = bool | int | float | str
Callback = Callable[[int, bool, int | None], bool]

_NO_VOCABULARY = 0
_STRIDE = 97
_TEXT_BYTES = 127
"""Of an override, its final zero not counted."""
_KV_TAGS: Mapping[type, tuple[int, str]] = {
    int: (api.LLAMA_KV_OVERRIDE_TYPE_INT, "val_i64"),
    float: (api.LLAMA_KV_OVERRIDE_TYPE_FLOAT, "val_f64"),
    bool: (api.LLAMA_KV_OVERRIDE_TYPE_BOOL, "val_bool"),
    str: (api.LLAMA_KV_OVERRIDE_TYPE_STR, "val_str"),
}


class LibraryError(Exception):
    """The library refused; `kind` says what it refused.

    Attributes:
        kind: `override`, `model`, `context`, `pass`, or `version` when it does not do what llama-cpp-python takes for
            granted.
    """

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def start(bin_dir: Path) -> None:
    """Make the library ready as llama-server does, with its log on stderr.

    Args:
        bin_dir: The folder of the build, whose backends may be libraries to be found at run time.
    """
    # A null pointer brings back the library's own log, which llama-cpp-python replaces by one that says less.
    api.llama_log_set(api.llama_log_callback(), None)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(str(bin_dir / "libggml.so")).ggml_backend_load_all_from_path(str(bin_dir).encode())
    api.llama_backend_init()


class LoadedModel:
    """A model with its weights in memory.

    Args:
        path: Its file, or the first of its shards.
        overrides: Keys of its header that are to have another value.

    Raises:
        LibraryError: It cannot be loaded.
    """

    def __init__(self, path: Path, overrides: Sequence[tuple[str, Override]] = ()) -> None:
        params = api.llama_model_default_params()
        # Ends with an entry that has no key.
        array = (api.llama_model_kv_override * (len(overrides) + 1))(*(_kv_override(*one) for one in overrides))
        if overrides:
            params.kv_overrides = array
        self.handle = api.llama_model_load_from_file(str(path).encode(), params)
        if not self.handle:
            raise LibraryError("model", "not loaded")
        self._vocabulary = api.llama_model_get_vocab(self.handle)
        self.n_tokens = int(api.llama_vocab_n_tokens(self._vocabulary))

    def text(self, tokens: int) -> list[int]:
        """Return the first tokens of a text; some tokens of a model that has no tokenizer."""
        if api.llama_vocab_type(self._vocabulary) == _NO_VOCABULARY:
            return [_STRIDE * place % self.n_tokens for place in range(tokens)]
        return PromptSource(self._tokenize).prompt(tokens, 0)

    def _tokenize(self, text: str) -> list[int]:
        raw = text.encode()
        array = (api.llama_token * len(raw))()
        count = api.llama_tokenize(self._vocabulary, raw, len(raw), array, len(raw), False, False)
        return list(array[: max(count, 0)])


class Context:
    """A context for one sequence: caches and compute buffers.

    Args:
        model: The model.
        size: Tokens that it has space for.
        batch: Tokens that one pass takes at most.
        threads: Threads of the host that compute.
        callback: Called for each node; None for none.

    Raises:
        LibraryError: There is no memory for it, or the library is of another version than llama-cpp-python expects.
    """

    def __init__(
        self, model: LoadedModel, size: int, batch: int, threads: int, callback: Callback | None = None
    ) -> None:
        params = api.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = size, batch, batch
        params.n_threads = params.n_threads_batch = threads
        # As llama-server has it.
        params.swa_full = False
        if callback is not None:
            # Kept here, since the library does not keep it alive.
            self._callback = api.ggml_backend_sched_eval_callback(callback)
            params.cb_eval = self._callback
        self._model = model
        self._handle = api.llama_init_from_model(model.handle, params)
        if not self._handle:
            raise LibraryError("context", "not made")
        asked = (batch, threads, threads, 1)
        got = tuple(
            int(read(self._handle))
            for read in (api.llama_n_ubatch, api.llama_n_threads, api.llama_n_threads_batch, api.llama_n_seq_max)
        )
        if got != asked:
            raise LibraryError("version", f"asked for batch, threads and sequences {asked}, it made {got}")

    def forward(self, tokens: Sequence[int]) -> int:
        """Compute one pass and return how long it took, in ns.

        Raises:
            LibraryError: It cannot be computed.
        """
        array = (api.llama_token * len(tokens))(*tokens)
        batch = api.llama_batch_get_one(array, len(tokens))
        begin_ns = time.monotonic_ns()
        status = api.llama_decode(self._handle, batch)
        api.llama_synchronize(self._handle)
        took_ns = time.monotonic_ns() - begin_ns
        if status != 0:
            raise LibraryError("pass", f"llama_decode returns {status} for {len(tokens)} tokens")
        return took_ns

    def likeliest(self) -> int:
        """Return the token that the last pass makes the likeliest to follow."""
        logits = api.llama_get_logits_ith(self._handle, -1)
        return int(np.ctypeslib.as_array(logits, (self._model.n_tokens,)).argmax())

    def clear(self) -> None:
        """Forget all tokens."""
        api.llama_memory_clear(api.llama_get_memory(self._handle), True)


def _kv_override(key: str, value: Override) -> object:
    tag, field = _KV_TAGS[type(value)]
    given = value.encode() if isinstance(value, str) else value
    if isinstance(given, bytes) and len(given) > _TEXT_BYTES:
        raise LibraryError("override", f"{key}: a text of {len(given)} bytes; it takes {_TEXT_BYTES}")
    override = api.llama_model_kv_override(tag, key.encode())
    setattr(override.value, field, given)
    return override
