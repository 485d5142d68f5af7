"""Reads the tensors of a ggml library that runs in this process.

Name, op and size have functions of their own. Sources and buffer do not, and where they lie in `struct ggml_tensor` has
changed between versions: it is found out from tensors made for that.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from pathlib import Path

from k3prof.core.ops.op_graph import OpNode

_F32 = 0
_ELEMENTS = 4
_SCRATCH_BYTES = 1 << 16
_WORD = ctypes.sizeof(ctypes.c_void_p)


class LayoutError(Exception):
    """The library is no ggml that can be read."""


class _InitParams(ctypes.Structure):
    _fields_ = (("mem_size", ctypes.c_size_t), ("mem_buffer", ctypes.c_void_p), ("no_alloc", ctypes.c_bool))


class TensorReader:
    """Describes tensors by their addresses.

    Args:
        bin_dir: The folder of the build's libraries; they are loaded already, or will be.

    Raises:
        LayoutError: There is no libggml-base, it lacks a function, or its tensors are laid out in an unknown way.
    """

    def __init__(self, bin_dir: Path) -> None:
        try:
            library = ctypes.CDLL(str(bin_dir / "libggml-base.so"))
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(library, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError) as error:
            raise LayoutError(str(error)) from error
        self._ggml = library
        self._first_source, self._after_sources, self._buffer = self._find_layout()

    def describe(self, tensor: int, places: Mapping[int, int]) -> OpNode:
        """Describe a node of a graph.

        Args:
            tensor: Its address.
            places: The places of the nodes before it, by address.
        """
        return OpNode(
            name=self.name(tensor),
            op=str(self._ggml.ggml_op_desc(tensor).decode()),
            n_bytes=int(self._ggml.ggml_nbytes(tensor)),
            device=self._device(tensor),
            sources=tuple(
                places[source] if source in places else self.name(source)
                for offset in range(self._first_source, self._after_sources, _WORD)
                if (source := _word(tensor + offset))
            ),
        )

    def name(self, tensor: int) -> str:
        """Return a tensor's name."""
        return str(ctypes.string_at(self._ggml.ggml_get_name(tensor)).decode(errors="replace"))

    def _device(self, tensor: int) -> str:
        buffer = _word(tensor + self._buffer)
        if not buffer:
            return ""
        kind = self._ggml.ggml_backend_buffer_get_type(buffer)
        device = self._ggml.ggml_backend_buft_get_device(kind)
        # The plain buffers of the host belong to no device.
        name = self._ggml.ggml_backend_dev_name(device) if device else self._ggml.ggml_backend_buft_name(kind)
        return str(name.decode(errors="replace"))

    def _find_layout(self) -> tuple[int, int, int]:
        """Return where sources begin, where they end, and where the buffer is named, in bytes."""
        ggml = self._ggml
        context = ggml.ggml_init(_InitParams(_SCRATCH_BYTES, None, True))
        try:
            a, b = (ggml.ggml_new_tensor_1d(context, _F32, _ELEMENTS) for _ in range(2))
            total, view = ggml.ggml_add(context, a, b), ggml.ggml_view_1d(context, a, _ELEMENTS, 0)
            buffer = ggml.ggml_backend_alloc_ctx_tensors_from_buft(context, ggml.ggml_backend_cpu_buffer_type())
            try:
                words = {tensor: self._words(tensor) for tensor in (total, view)}
            finally:
                ggml.ggml_backend_buffer_free(buffer)
        finally:
            ggml.ggml_free(context)
        # A sum names both its terms; a view names what it looks at as its source, and behind the last one again.
        first = words[total].index(a) if a in words[total] else -1
        seen = [place for place, word in enumerate(words[view]) if word == a]
        if len(seen) != 2 or seen[0] != first or words[total][first + 1] != b or buffer not in words[total]:
            raise LayoutError("tensors are laid out in an unknown way")
        return first * _WORD, seen[1] * _WORD, words[total].index(buffer) * _WORD

    def _words(self, tensor: int) -> list[int]:
        """Return what a tensor holds before its name, as words of an address's size."""
        count = (self._ggml.ggml_get_name(tensor) - tensor) // _WORD
        if not 0 < count < _SCRATCH_BYTES // _WORD:
            raise LayoutError("tensors do not hold their names")
        return [_word(tensor + place * _WORD) for place in range(count)]


def _word(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


_TENSOR = _CONTEXT = _BUFFER = _BUFFER_TYPE = _DEVICE = ctypes.c_void_p
_FUNCTIONS: Mapping[str, tuple[object, list[object]]] = {
    "ggml_get_name": (ctypes.c_void_p, [_TENSOR]),
    "ggml_op_desc": (ctypes.c_char_p, [_TENSOR]),
    "ggml_nbytes": (ctypes.c_size_t, [_TENSOR]),
    "ggml_backend_buffer_get_type": (_BUFFER_TYPE, [_BUFFER]),
    "ggml_backend_buft_get_device": (_DEVICE, [_BUFFER_TYPE]),
    "ggml_backend_buft_name": (ctypes.c_char_p, [_BUFFER_TYPE]),
    "ggml_backend_dev_name": (ctypes.c_char_p, [_DEVICE]),
    "ggml_init": (_CONTEXT, [_InitParams]),
    "ggml_free": (None, [_CONTEXT]),
    "ggml_new_tensor_1d": (_TENSOR, [_CONTEXT, ctypes.c_int, ctypes.c_int64]),
    "ggml_add": (_TENSOR, [_CONTEXT, _TENSOR, _TENSOR]),
    "ggml_view_1d": (_TENSOR, [_CONTEXT, _TENSOR, ctypes.c_int64, ctypes.c_size_t]),
    "ggml_backend_cpu_buffer_type": (_BUFFER_TYPE, []),
    "ggml_backend_alloc_ctx_tensors_from_buft": (_BUFFER, [_CONTEXT, _BUFFER_TYPE]),
    "ggml_backend_buffer_free": (None, [_BUFFER]),
}
