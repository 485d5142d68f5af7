"""A double of NVIDIA's management library at its C boundary: the real `pynvml` runs, with its ctypes marshalling.

`installed(FakeNvml([...]))` takes the place of the shared object. Its functions are named like its symbols and write
through the pointers that they are given; a symbol that is missing here is missing to pynvml as well.
"""

from __future__ import annotations

import contextlib
import ctypes
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pynvml

from tests.doubles.nvml_gpu import DRIVER_VERSION, FakeError, FakeGpu
from tests.doubles.nvml_symbols import Symbols


class FakeNvml:
    """The library: some GPUs in NVML's own order, on a clock that tests may set."""

    def __init__(
        self,
        gpus: Sequence[FakeGpu],
        *,
        clock: Callable[[], float] = time.monotonic,
        init_code: int = pynvml.NVML_SUCCESS,
        missing: Sequence[str] = (),
        driver: str = DRIVER_VERSION,
        topology: int | Callable[[FakeGpu, FakeGpu], int] = pynvml.NVML_TOPOLOGY_NODE,
        peer_accesses: Sequence[int] = (),
    ) -> None:
        self.gpus = list(gpus)
        self.calls: list[str] = []
        self.init_code = init_code
        self.driver = driver
        self.topology = topology
        self.peer_accesses = peer_accesses
        self.pending: list[tuple[FakeGpu, FakeError]] = []
        self._clock = clock
        self._missing = set(missing)

    def __getattr__(self, symbol: str) -> Callable[..., int]:
        implementation = getattr(Symbols, symbol, None)
        if implementation is None or symbol in self._missing:
            raise AttributeError(symbol)

        def call(*args: Any) -> int:
            self.calls.append(symbol)
            found = [self._gpu(arg) if isinstance(arg, pynvml.c_nvmlDevice_t) else arg for arg in args]
            faults = [self._fault(gpu, symbol) for gpu in found if isinstance(gpu, FakeGpu)]
            return next(filter(None, faults), None) or implementation(self, *found) or pynvml.NVML_SUCCESS

        return call

    @property
    def now_s(self) -> float:
        """The time on the library's clock."""
        return self._clock()

    def _gpu(self, handle: Any) -> FakeGpu:
        return self.gpus[ctypes.cast(handle, ctypes.c_void_p).value - 1]

    def _fault(self, gpu: FakeGpu, symbol: str) -> int:
        for fault in gpu.faults:
            if fault.symbol in ("", symbol) and fault.from_s <= self.now_s < fault.until_s:
                return fault.code
        return pynvml.NVML_SUCCESS

    def open_gpu(self, gpu: FakeGpu, symbol: str, handle: Any) -> int:
        """Write the GPU's handle, its place in the list counted from 1."""
        ctypes.cast(ctypes.pointer(handle._obj), ctypes.POINTER(ctypes.c_void_p))[0] = self.gpus.index(gpu) + 1
        return self._fault(gpu, symbol)


@contextlib.contextmanager
def installed(library: FakeNvml) -> Iterator[FakeNvml]:
    """Put the double in the place of the shared object, and take it away again."""
    before = pynvml.nvmlLib
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()
    try:
        yield library
    finally:
        pynvml.nvmlLib = before
        pynvml._nvmlGetFunctionPointer_cache.clear()
