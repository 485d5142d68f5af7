from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.build import Build
from k3prof.core.trial import Failure, TrialStatus
from k3prof.llama.failures import classify

LOGS = Path(__file__).parent / "logs" / "failures"


def recorded(name: str) -> str:
    return (LOGS / f"{name}.log").read_text(errors="replace")


@pytest.mark.parametrize(
    ("name", "returncode", "failure", "message", "evidence"),
    [
        (
            "unknown_flag",
            1,
            Failure.REFUSED_FLAG,
            "does not know --n-cpu-moee",
            "error: invalid argument: --n-cpu-moee",
        ),
        ("removed_flag", 1, Failure.REFUSED_FLAG, "does not know --no-mmap", "error: invalid argument: --no-mmap"),
        ("removed_draft", 1, Failure.REFUSED_FLAG, "--draft: the argument has been removed", "has been removed"),
        ("missing_value", 1, Failure.REFUSED_FLAG, "-ngl: expected value", "expected value for argument"),
        ("bad_int", 1, Failure.REFUSED_FLAG, "value of -ngl is not a number", 'argument "-ngl": stoi'),
        ("ts_text", 1, Failure.REFUSED_FLAG, "value of -ts is not a number", 'argument "-ts": stof'),
        ("ts_many", 1, Failure.REFUSED_FLAG, "got 18 input configs", "system only has 16 devices"),
        ("ot_bad", 1, Failure.REFUSED_FLAG, "-ot: unknown buffer type", "unknown buffer type"),
        ("dev_bad", 1, Failure.REFUSED_FLAG, "invalid device: CUDA5", "invalid device: CUDA5"),
        ("okv_bad", 1, Failure.REFUSED_FLAG, "Invalid type for KV override", "--override-kv"),
        ("env_bad", 1, Failure.REFUSED_FLAG, "LLAMA_ARG_N_GPU_LAYERS", "environment variable"),
        ("ctk_ctv", 1, Failure.REFUSED_FLAG, "cache-type-k is q8_0, cache-type-v is f16", "different K (q8_0)"),
        ("sm_tensor", 1, Failure.REFUSED_FLAG, "tensor does not work for kimi-k3", "LLAMA_SPLIT_MODE_TENSOR"),
        ("rpc_flag", 0, Failure.REFUSED_FLAG, "does not know --bogus", "unknown argument: --bogus"),
        ("okv_toomany", -6, Failure.ASSERTION, "n_expert_used_max <=", "llama-model.cpp:1362: GGML_ASSERT"),
        ("missing_model", 1, Failure.BAD_MODEL, "cannot be opened: No such file", "failed to open GGUF file"),
        ("short", 1, Failure.BAD_MODEL, "cut off or damaged", "not within the file bounds"),
        ("hdr", 1, Failure.BAD_MODEL, "cut off or damaged", "failed to read key-value pairs"),
        ("magic", 1, Failure.BAD_MODEL, "not a GGUF file", "invalid magic characters"),
        ("arch", 1, Failure.BAD_MODEL, "architecture kimi-k9", "unknown model architecture: 'kimi-k9'"),
        ("missing_tensor", 1, Failure.BAD_MODEL, "lacks blk.5.ffn_down_exps.weight", "not found"),
        ("port", 1, Failure.PORT_TAKEN, "127.0.0.1:50811", "couldn't bind HTTP server socket"),
        ("rpc_port", 0, Failure.PORT_TAKEN, "the address is taken", "Failed to create server socket"),
        ("oom_ctx", 1, Failure.OUT_OF_MEMORY, "no room for 3662.11 MiB", "attempted to allocate 3662.11 MB"),
        ("oom_ctx_rs", 1, Failure.OUT_OF_MEMORY, "not enough memory", "std::bad_alloc"),
        ("oom_ld", 127, Failure.OUT_OF_MEMORY, "not enough memory", "failed to map segment"),
        ("rpc_oom", 1, Failure.OUT_OF_MEMORY, "7680000000 bytes on RPC0[127.0.0.1:50821]", "alloc_tensor_range"),
        ("rpc_oom_server", -9, Failure.OUT_OF_MEMORY, "no room for 7324.22 MiB", "insufficient memory"),
        ("rpc_killed", -6, Failure.DEVICE_LOST, "died or broke the connection", "Remote RPC server crashed"),
        ("rpc_refused", -6, Failure.DEVICE_LOST, "answers at 127.0.0.1:59999", "Failed to connect to 127.0.0.1:59999"),
    ],
)
def test_a_recorded_failure_is_named_with_the_line_that_proves_it(
    name: str, returncode: int, failure: Failure, message: str, evidence: str
) -> None:
    outcome = classify(recorded(name), returncode)
    assert outcome.status is TrialStatus.FAILED
    assert outcome.failure is failure
    assert message in outcome.message
    assert evidence in outcome.evidence
    assert not outcome.evidence.startswith("0.0"), "the prefix is stripped"


CUDA_OOM = """\
load_tensors: loading model tensors, this can take a while... (mmap = true)
ggml_backend_cuda_buffer_type_alloc_buffer: allocating 45108.64 MiB on device 2: cudaMalloc failed: out of memory
alloc_tensor_range: failed to allocate CUDA2 buffer of size 47299842048
llama_model_load: error loading model: unable to allocate CUDA2 buffer
llama_model_load_from_file_impl: failed to load model
"""


@pytest.mark.parametrize(
    ("log", "failure", "message"),
    [
        (CUDA_OOM, Failure.OUT_OF_MEMORY, "GPU 2 has no room for 45108.64 MiB"),
        ("ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory\n", Failure.OUT_OF_MEMORY, "device"),
        ("CUDA error: out of memory\n  current device: 1, in function alloc\n", Failure.OUT_OF_MEMORY, "a GPU ran out"),
        (
            "CUDA error: an illegal memory access was encountered\n  current device: 0, in function x\n",
            Failure.CRASHED,
            "an illegal memory access was encountered",
        ),
        ("CUDA error: no kernel image is available for execution on the device\n", Failure.CRASHED, "no kernels"),
        (
            "/b/src/llama-model.cpp:99: GGML_ASSERT(hparams.n_expert <= LLAMA_MAX_EXPERTS) failed\n",
            Failure.ASSERTION,
            "too old",
        ),
        (
            "llama-server: error while loading shared libraries: libcudart.so.12: cannot open shared object file\n",
            Failure.CRASHED,
            "libcudart.so.12 is missing",
        ),
        ("terminate called after throwing an instance of 'x'\n  what():  boom\n", Failure.CRASHED, "boom"),
    ],
)
def test_a_failure_that_cannot_be_provoked_here_is_named_from_its_public_wording(
    log: str, failure: Failure, message: str
) -> None:
    outcome = classify(log, 1)
    assert outcome.failure is failure
    assert message in outcome.message
    assert outcome.evidence


def test_memory_troubles_that_the_server_survived_are_not_blamed() -> None:
    log = """\
0.00.100.000 E alloc_buffer: allocating 900.00 MiB on device 0: cudaMalloc failed: out of memory
0.00.100.100 E ggml_gallocr_reserve_n_impl: failed to allocate CUDA0 buffer of size 943718400
0.00.100.200 W llama_context: compute buffer allocation failed, retrying without pipeline parallelism
0.00.100.300 D ggml_cuda_host_malloc: failed to allocate 64.00 MiB of pinned memory: out of memory
0.09.000.000 E srv         start: couldn't bind HTTP server socket, hostname: 127.0.0.1, port: 8080
"""
    assert classify(log, 1).failure is Failure.PORT_TAKEN


def test_an_allocation_that_failed_before_a_healthy_start_is_still_the_cause_of_a_later_death() -> None:
    log = """\
0.01.000.000 E alloc_buffer: allocating 700.00 MiB on device 0: cudaMalloc failed: out of memory
0.01.200.000 I srv  llama_server: model loaded
0.01.300.000 I srv  llama_server: listening on http://127.0.0.1:8080
"""
    assert classify(log, -signal.SIGSEGV).failure is Failure.OUT_OF_MEMORY


def test_text_from_the_models_file_is_no_evidence() -> None:
    log = (
        "0.00.001.000 I llama_model_loader: - kv   1: general.name str = CUDA error: out of memory\n"
        "0.00.002.000 D Parsed message: GGML_ASSERT(x) failed\n"
    )
    outcome = classify(log, 1)
    assert outcome.failure is Failure.CRASHED
    assert outcome.evidence == ""


def test_exit_1_without_a_reason_advises_more_verbosity_and_invents_nothing() -> None:
    outcome = classify("0.00.000.905 I srv  llama_server: initializing ...\n", 1)
    assert outcome.failure is Failure.CRASHED
    assert "-lv 4" in outcome.message
    assert outcome.evidence == ""
    assert "-lv 5" in classify("0.00.1 I cmn  x: verbosity = 4 (adjust with the `-lv N` CLI arg)\n", 1).message
    assert "even at verbosity 5" in classify("verbosity = 5 (adjust)\n", 1).message


def test_sigkill_while_a_prompt_is_saved_points_at_the_hosts_memory() -> None:
    log = (
        "0.05.000.000 I srv  get_availabl: updating prompt cache\n"
        "0.05.000.100 I srv   prompt_save:  - saving prompt with length 98304, total state size = 3463.000 MiB\n"
    )
    outcome = classify(log, -9)
    assert outcome.failure is Failure.OUT_OF_MEMORY
    assert "host OOM killer likely" in outcome.message
    assert "saving prompt" in outcome.evidence
    assert classify("0.05.000.000 I srv  update_slots: all slots are idle\n", -9).failure is Failure.KILLED


@pytest.mark.parametrize(
    ("returncode", "failure", "message"),
    [
        (-signal.SIGILL, Failure.CRASHED, "instructions that this processor lacks"),
        (128 + signal.SIGILL, Failure.CRASHED, "instructions that this processor lacks"),
        (-signal.SIGSEGV, Failure.CRASHED, "SIGSEGV"),
        (-signal.SIGTERM, Failure.KILLED, "SIGTERM"),
        (137, Failure.KILLED, "SIGKILL"),
        (-60, Failure.CRASHED, "signal 60"),
        (0, Failure.CRASHED, "ended by itself"),
        (None, Failure.CRASHED, "exit status unknown"),
    ],
)
def test_an_exit_status_alone_is_told_in_words(returncode: int | None, failure: Failure, message: str) -> None:
    outcome = classify("", returncode)
    assert outcome.failure is failure
    assert message in outcome.message


def test_a_stall_is_named_only_when_the_log_has_no_better_reason() -> None:
    assert classify("load_tensors: loading model tensors\n", None, stalled=True).failure is Failure.STALLED
    assert classify(CUDA_OOM, None, stalled=True).failure is Failure.OUT_OF_MEMORY


@given(st.text(), st.one_of(st.none(), st.integers(-70, 300)), st.booleans())
def test_any_text_is_classified_and_what_is_quoted_is_fit_to_be_shown(
    text: str, returncode: int | None, stalled: bool
) -> None:
    outcome = classify(text, returncode, stalled=stalled)
    assert outcome.status is TrialStatus.FAILED
    assert outcome.failure is not None
    shown = outcome.message + outcome.evidence
    assert len(shown) < 1000
    assert not any(ord(char) < 32 or 0x7F <= ord(char) < 0xA0 for char in shown)


@given(st.binary())
def test_any_bytes_are_classified(data: bytes) -> None:
    assert classify(data.decode(errors="replace"), 1).failure is not None


def serve(build: Build, tmp_path: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [f"{build.bin_dir}/llama-server", "--host", "127.0.0.1", "-lv", "4", *argv],
        env={"XDG_CONFIG_HOME": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        errors="replace",
        timeout=60,
        check=False,
    )


@pytest.mark.server
def test_the_real_server_refuses_a_flag_and_a_file_as_recorded(build: Build, tmp_path: Path) -> None:
    model = tmp_path / "no.gguf"
    unknown = serve(build, tmp_path, "-m", str(model), "--n-cpu-moee", "1")
    assert classify(unknown.stdout, unknown.returncode).failure is Failure.REFUSED_FLAG
    missing = serve(build, tmp_path, "-m", str(model))
    assert classify(missing.stdout, missing.returncode).failure is Failure.BAD_MODEL
    model.write_bytes(b"PK\x03\x04 this is an archive")
    archive = serve(build, tmp_path, "-m", str(model))
    outcome = classify(archive.stdout, archive.returncode)
    assert (outcome.failure, outcome.message) == (Failure.BAD_MODEL, "this is not a GGUF file")


@pytest.mark.server
def test_the_real_server_says_when_its_port_is_taken(build: Build, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        run = serve(build, tmp_path, "-m", "no.gguf", "--port", port)
    outcome = classify(run.stdout, run.returncode)
    assert outcome.failure is Failure.PORT_TAKEN
    assert port in outcome.message
