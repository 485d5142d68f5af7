from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from k3prof.core.build import Build
from k3prof.errors import MachineError
from k3prof.llama.binding import check_binding

FOLDER = Build("mine", "", "", "", "", (), "registered", "", True)


@pytest.fixture
def binding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in the place of llama-cpp-python, for what the real one does only with a broken build."""
    module = tmp_path / "llama_cpp" / "__init__.py"
    module.parent.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return module


def test_the_builds_own_library_is_the_one_that_is_loaded(binding, tmp_path):
    binding.write_text(
        "import os\n"
        f"assert os.environ['LLAMA_CPP_LIB_PATH'] == {str(tmp_path)!r}\n"
        "def llama_backend_init(): print('ggml_cuda_init: no GPU')\n"
    )
    check_binding(replace(FOLDER, bin_dir=str(tmp_path)))


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "raise FileNotFoundError('no libllama\\n there')",
            "does not load libllama of build 'mine': no libllama there",
        ),
        ("import os; os.abort()", "crashed with SIGABRT"),
        ("import sys; sys.exit(3)", "exit code 3"),
        ("import k3_no_such_module", "module k3_no_such_module is missing"),
    ],
)
def test_a_library_that_does_not_load_is_told_with_the_reason(binding, code, said):
    binding.write_text(code)
    with pytest.raises(MachineError) as raised:
        check_binding(FOLDER)
    assert said in raised.value.message
    assert raised.value.hint


def test_the_real_binding_loads_the_real_build(build):
    check_binding(build)


def test_a_folder_without_the_library_is_refused_by_the_real_binding(tmp_path):
    with pytest.raises(MachineError) as raised:
        check_binding(replace(FOLDER, bin_dir=str(tmp_path)))
    assert "Shared library" in raised.value.message
    assert sys.executable not in raised.value.message
