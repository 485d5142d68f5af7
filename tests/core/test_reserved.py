from __future__ import annotations

import pytest

from k3prof.core.reserved import reserved_flag, reserved_variable


def test_any_of_a_flags_names_is_enough_to_refuse_it():
    for names in (["verbose"], ["log-verbose", "verbose"], ["spec-draft-hf"], ["hf-repo-draft", "spec-draft-hf"]):
        assert reserved_flag(names) is not None


@pytest.mark.parametrize(
    "name", ["offline", "models", "media-path", "slot-save-path", "spec-draft-model", "embd-normalize", "spec-default"]
)
def test_flags_that_only_resemble_a_reserved_one_stay_free(name):
    assert reserved_flag([name]) is None


@pytest.mark.parametrize("name", ["GGML_CUDA_DEVICES", "GGML_OP_OFFLOAD_MIN_BATCH", "OMP_NUM_THREADS", "ld_preload"])
def test_variables_that_only_tune_the_server_stay_free(name):
    assert reserved_variable(name) is None


@pytest.mark.parametrize("name", ["LLAMA_ARG_FIT", "LD_LIBRARY_PATH", "HIP_VISIBLE_DEVICES", "GGML_VK_VISIBLE_DEVICES"])
def test_variables_that_would_change_what_runs_or_where_are_refused(name):
    assert reserved_variable(name) is not None
