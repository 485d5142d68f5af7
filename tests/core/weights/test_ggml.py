from __future__ import annotations

import gguf
import pytest

from k3prof.core.weights.ggml import CACHE_TYPES, GGML_TYPES, cache_type, ggml_type, type_name
from k3prof.errors import ConfigError

THEIR_SIZES = {kind.name: (kind.value, *size) for kind, size in gguf.GGML_QUANT_SIZES.items()}
# ggml.c gives Q8_1 blocks of 36 bytes; the package says 40. The format never occurs in files.
PACKAGE_ERRORS = {"Q8_1"}


@pytest.mark.parametrize("kind", GGML_TYPES, ids=lambda kind: kind.name)
def test_numbers_and_blocks_agree_with_the_gguf_package(kind):
    if kind.name in THEIR_SIZES.keys() - PACKAGE_ERRORS:
        assert (kind.id, kind.block_elements, kind.block_bytes) == THEIR_SIZES[kind.name]
    else:
        # Formats that this version of the package lacks: two 16-bit scales, or one, and the packed elements.
        assert kind.block_bytes == {"Q8_1": 4 + 32, "Q2_0": 2 + 64 // 4}[kind.name]


def test_no_format_of_the_gguf_package_is_missing():
    assert {kind.name for kind in GGML_TYPES} >= THEIR_SIZES.keys()


def test_a_run_that_does_not_fill_blocks_has_no_size():
    assert ggml_type("q8_0").size_bytes(64) == 68
    assert ggml_type("q8_0").size_bytes(33) is None


def test_bits_per_weight_count_the_scales():
    assert ggml_type("Q8_0").bits_per_weight == 8.5
    assert ggml_type("IQ1_S").bits_per_weight == 1.5625
    assert ggml_type("Q1_0").bits_per_weight == 1.125


def test_an_unknown_number_is_named_by_its_number():
    assert type_name(8) == "Q8_0"
    assert type_name(137) == "type 137"


@pytest.mark.parametrize("name", CACHE_TYPES)
def test_every_cache_type_is_a_format(name):
    assert cache_type(name).name.lower() == name


@pytest.mark.parametrize("name", ["q8", "Q4_K", "", "type 137"])
def test_what_llama_server_takes_as_no_cache_type_is_refused(name):
    with pytest.raises(ConfigError) as caught:
        cache_type(name)
    assert repr(name) in caught.value.message
    assert "q8_0" in caught.value.hint
