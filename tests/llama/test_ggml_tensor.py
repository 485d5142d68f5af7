from __future__ import annotations

import ctypes
from pathlib import Path

import pytest

from k3prof.llama.ggml_tensor import LayoutError, TensorReader
from tests.doubles.other_libllama import compile_library

OTHER_GGML = """
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

// Tensors as no version of ggml has had them.
struct tensor { char moved[24]; LAYOUT char name[64]; int op; };
struct params { size_t size; void * buffer; _Bool no_alloc; };

static struct tensor * made[8];
static int count = 0;

static struct tensor * make(const char * name, int op) {
    made[count] = calloc(1, sizeof(struct tensor));
    strcpy(made[count]->name, name);
    made[count]->op = op;
    return made[count++];
}
void * ggml_init(struct params given) { count = 0; return made; }
void ggml_free(void * context) {}
void * ggml_new_tensor_1d(void * context, int type, int64_t n) { return make("leaf", 0); }
void * ggml_add(void * context, struct tensor * a, struct tensor * b) {
    struct tensor * sum = make("sum", 1);
    sum->src[0] = a; sum->src[1] = b;
    return sum;
}
void * ggml_view_1d(void * context, struct tensor * a, int64_t n, size_t offset) {
    struct tensor * view = make("look", 2);
    view->src[0] = a; view->view_src = a;
    return view;
}
void * ggml_backend_cpu_buffer_type(void) { return "host"; }
void * ggml_backend_alloc_ctx_tensors_from_buft(void * context, void * kind) {
    static const char * buffer[2];
    buffer[0] = kind;
    for (int i = 0; i < count; i++) made[i]->buffer = buffer;
    return buffer;
}
void ggml_backend_buffer_free(void * buffer) {}
void * ggml_get_name(struct tensor * t) { return t->name; }
const char * ggml_op_desc(struct tensor * t) { return t->op == 1 ? "ADD" : "VIEW"; }
size_t ggml_nbytes(struct tensor * t) { return 16; }
void * ggml_backend_buffer_get_type(void ** buffer) { return buffer[0]; }
void * ggml_backend_buft_get_device(void * kind) { return NULL; }
const char * ggml_backend_buft_name(void * kind) { return kind; }
const char * ggml_backend_dev_name(void * device) { return "no device"; }
"""
MOVED = "struct tensor * src[3]; void * view_src; void * gap[5]; void * buffer;"
NO_BUFFER = "struct tensor * src[3]; void * view_src; int buffer;"


@pytest.fixture
def ggml(tmp_path: Path):
    def make(layout: str) -> Path:
        source = OTHER_GGML.replace("LAYOUT", layout)
        if layout == NO_BUFFER:
            source = source.replace("made[i]->buffer = buffer", "made[i]->buffer = 0")
        compile_library(tmp_path, "ggml-base", source)
        return tmp_path

    return make


def test_tensors_are_read_wherever_a_library_has_their_fields(ggml):
    folder = ggml(MOVED)
    reader = TensorReader(folder)
    library = ctypes.CDLL(str(folder / "libggml-base.so"))
    for name in ("ggml_new_tensor_1d", "ggml_add", "ggml_backend_cpu_buffer_type"):
        getattr(library, name).restype = ctypes.c_void_p
    library.ggml_add.argtypes = [ctypes.c_void_p] * 3
    library.ggml_backend_alloc_ctx_tensors_from_buft.argtypes = [ctypes.c_void_p] * 2
    known, leaf = library.ggml_new_tensor_1d(None, 0, 4), library.ggml_new_tensor_1d(None, 0, 4)
    total = library.ggml_add(None, known, leaf)
    library.ggml_backend_alloc_ctx_tensors_from_buft(None, library.ggml_backend_cpu_buffer_type())
    described = reader.describe(total, {known: 7})
    assert described.name == "sum"
    assert described.op == "ADD"
    assert described.n_bytes == 16
    assert described.sources == (7, "leaf")
    assert described.device == "host"


def test_a_library_whose_tensors_name_no_buffer_is_refused(ggml):
    with pytest.raises(LayoutError):
        TensorReader(ggml(NO_BUFFER))


def test_the_real_library_has_ten_sources_per_tensor(build):
    reader = TensorReader(Path(build.bin_dir))
    # GGML_MAX_SRC in ggml/include/ggml.h.
    assert reader._after_sources - reader._first_source == 10 * 8


def test_a_folder_without_the_library_is_refused(tmp_path):
    with pytest.raises(LayoutError, match="libggml-base"):
        TensorReader(tmp_path)


def test_a_library_that_lacks_a_function_is_refused_with_its_name(tmp_path):
    compile_library(tmp_path, "ggml-base", "void * ggml_get_name(void * tensor) { return tensor; }")
    with pytest.raises(LayoutError, match="ggml_op_desc"):
        TensorReader(tmp_path)
