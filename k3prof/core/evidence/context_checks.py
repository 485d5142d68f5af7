"""Checks of how the context was made: tokens, slots, batches, caches, attention."""

from __future__ import annotations

from k3prof.core.evidence.check import NO, YES, Asked, Check

_STEP_TOKENS = 256
"""llama.cpp rounds contexts up to it, that of each sequence too."""


def check_context(asked: Asked) -> Check | None:
    """Check `ctx-size`: rounding up is no difference, fewer tokens are one."""
    wanted, done = asked.number("ctx-size"), asked.done.context.tokens
    if not wanted or wanted < 0:
        return None
    rounding = _STEP_TOKENS * (1 + (asked.done.context.sequences or 1))
    same = done is not None and wanted <= done < wanted + rounding
    reduced = asked.done.fit is not None and asked.done.fit.context_to is not None
    return asked.compare("ctx-size", done, same, "--fit reduced it" if reduced else "")


def check_sequences(asked: Asked) -> Check | None:
    """Check `parallel`; without a number, the server chooses."""
    wanted, context = asked.number("parallel"), asked.done.context
    done = context.slots if context.sequences is None else context.sequences
    return None if wanted is None or wanted < 1 else asked.compare("parallel", done, done == wanted)


def check_unified(asked: Asked) -> Check:
    """Check `kv-unified`."""
    done = asked.done.context.unified
    return asked.compare("kv-unified", _on_off(done), done is (asked.flags["kv-unified"] in YES))


def check_batch(asked: Asked) -> Check:
    """Check `batch-size`; a context with fewer tokens limits it."""
    wanted, done, context = asked.number("batch-size"), asked.done.context.batch, asked.done.context.tokens
    limited = wanted is not None and done is not None and context is not None and done <= context <= wanted
    return asked.compare("batch-size", done, done == wanted or limited)


def check_ubatch(asked: Asked) -> Check:
    """Check `ubatch-size`; a smaller `batch-size` limits it."""
    wanted, done, batch = asked.number("ubatch-size"), asked.done.context.ubatch, asked.done.context.batch
    limited = wanted is not None and done is not None and done == batch and done < wanted
    return asked.compare("ubatch-size", done, done == wanted or limited)


def check_cache_type_k(asked: Asked) -> Check:
    """Check `cache-type-k`."""
    done = asked.done.context.cache_type_k
    return asked.compare("cache-type-k", done, done == asked.flags["cache-type-k"])


def check_cache_type_v(asked: Asked) -> Check:
    """Check `cache-type-v`."""
    done = asked.done.context.cache_type_v
    return asked.compare("cache-type-v", done, done == asked.flags["cache-type-v"])


def check_flash_attention(asked: Asked) -> Check | None:
    """Check `flash-attn`; with `auto`, the server chooses."""
    wanted, done = asked.flags["flash-attn"], asked.done.context.flash_attention
    if wanted not in YES | NO:
        return None
    return asked.compare("flash-attn", _on_off(done), done is (wanted in YES), fallback="no-flash-attention")


def _on_off(value: bool | None) -> str | None:
    return None if value is None else "on" if value else "off"
