from __future__ import annotations

import contextlib
import hashlib
import math
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import numpy as np
import pytest
from gguf import GGUFReader, dequantize
from hypothesis import given, settings
from hypothesis import strategies as st

from k3prof.core.build import Build
from k3prof.errors import ConfigError, MachineError
from k3prof.llama import demo_model as module
from k3prof.llama.demo_model import DEMO_MODELS, demo_model
from k3prof.llama.demo_tokenizer import demo_vocabulary
from k3prof.llama.devices import free_port
from k3prof.llama.server import Server, running_server

NAMES = sorted(DEMO_MODELS)
SMALL = [name for name in NAMES if name != "k3"]
PROMPT = "The quick brown fox jumps over the lazy dog"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache that these tests share, so that each model is written once."""
    return tmp_path_factory.mktemp("cache")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@pytest.mark.parametrize("name", NAMES)
def test_a_model_has_the_same_bytes_whenever_it_is_written(name: str, models: Path, tmp_path: Path) -> None:
    first, again = demo_model(name, models), demo_model(name, tmp_path)
    assert first.name == again.name
    assert sha256(first) == sha256(again)


def test_a_model_has_the_same_bytes_on_every_machine(models: Path) -> None:
    # To be renewed, together with the seed, only when the bytes are meant to change.
    assert sha256(demo_model("k3-tiny", models)) == "e7c2a438f79d40a7984e435c0ad62982f63c90d6c3e56ca5e8f96d1c40c20764"


def test_a_model_that_is_there_is_not_written_again(models: Path) -> None:
    path = demo_model("llama", models)
    before = path.stat()
    assert demo_model("llama", models) == path
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)


def test_a_model_lies_in_the_users_cache(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert demo_model("llama").parent == tmp_path / "k3prof" / "models"


def test_a_name_may_carry_the_prefix_that_sets_it_off_from_a_path(models: Path) -> None:
    assert demo_model("demo:llama", models) == demo_model("llama", models)


def test_another_recipe_makes_another_file(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = demo_model("llama", models)
    monkeypatch.setattr(module, "_SEED", 2)
    assert demo_model("llama", models) != path


def test_an_unknown_name_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="'demo:k3x': there is no such demo model") as caught:
        demo_model("demo:k3x")
    assert caught.value.hint == "did you mean demo:k3?"


def test_a_name_like_no_other_is_refused_with_the_list() -> None:
    with pytest.raises(ConfigError) as caught:
        demo_model("\x1b[31m../../etc/passwd")
    assert "\x1b" not in caught.value.message
    assert all(f"demo:{name}" in caught.value.hint for name in NAMES)


def test_every_model_says_what_it_is_in_one_line() -> None:
    assert all(model.about and "\n" not in model.about for model in DEMO_MODELS.values())


def test_a_folder_that_cannot_be_made_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "models").write_text("in the way")
    with pytest.raises(MachineError, match="models"):
        demo_model("llama", tmp_path)


def test_a_disk_that_fills_up_is_one_clear_error_and_leaves_nothing_behind(tmp_path: Path) -> None:
    # The kernel refuses files above this size with the same kind of error as a full disk.
    script = """
import resource, signal, sys
from pathlib import Path
from k3prof.errors import MachineError
from k3prof.llama.demo_model import demo_model
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (2**20, 2**20))
try:
    demo_model("llama", Path(sys.argv[1]))
except MachineError as error:
    print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=True)
    assert "cannot be written" in done.stdout
    assert list((tmp_path / "models").iterdir()) == []


def test_a_writer_that_is_killed_leaves_no_model_that_could_be_taken_for_whole(tmp_path: Path) -> None:
    script = """
import os, signal, sys
from pathlib import Path
from gguf import GGUFWriter
from k3prof.llama.demo_model import demo_model
write, written = GGUFWriter.write_tensor_data, []
def write_some(self, tensor):
    written.append(write(self, tensor))
    if len(written) == 10:
        os.kill(os.getpid(), signal.SIGKILL)
GGUFWriter.write_tensor_data = write_some
demo_model("llama", Path(sys.argv[1]))
"""
    killed = subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False)
    assert killed.returncode < 0
    assert list((tmp_path / "models").glob("*.gguf")) == []
    whole = demo_model("llama", tmp_path)
    assert len(GGUFReader(whole).tensors) > 10


@pytest.mark.parametrize("name", SMALL)
def test_the_weights_have_the_deviation_that_the_recipe_asks_for(name: str, models: Path) -> None:
    vocabulary = demo_vocabulary()
    architecture = DEMO_MODELS[name].sizes.architecture(len(vocabulary.tokens))
    wanted = {tensor.name: tensor for tensor in architecture.tensors}
    for tensor in GGUFReader(demo_model(name, models)).tensors:
        weights = dequantize(tensor.data, tensor.tensor_type)
        if tensor.name == architecture.head:
            weights = weights[[vocabulary.is_plain_text(token) for token in range(len(vocabulary.tokens))]]
        assert np.isfinite(weights).all(), tensor.name
        if weights.size >= 1000:
            recipe = wanted[tensor.name]
            assert weights.std() == pytest.approx(recipe.std, rel=0.1), tensor.name
            assert abs(weights.mean() - recipe.mean) < 0.1 * recipe.std, tensor.name


def test_k3_has_every_part_of_the_architecture_and_exceeds_a_last_level_cache(models: Path) -> None:
    reader = GGUFReader(demo_model("k3", models))
    names = {tensor.name for tensor in reader.tensors}
    for part in (
        "blk.0.ffn_gate.weight",  # dense first layer
        "blk.0.ssm_g.weight",  # linear attention
        "blk.3.attn_kv_a_mqa.weight",  # full attention
        "blk.3.attn_gate.weight",
        "blk.1.ffn_routed_down.weight",  # latent experts
        "blk.1.ffn_down_exps.weight",
        "blk.1.ffn_down_shexp.weight",  # shared expert
        "blk.1.attn_res_score.weight",  # attention residuals
        "output_res_score.weight",
    ):
        assert part in names
    assert {str(tensor.tensor_type.name) for tensor in reader.tensors} == {"F32", "Q4_0", "Q8_0"}
    assert sum(int(tensor.n_bytes) for tensor in reader.tensors) > 100 * 2**20


def test_the_llama_scores_tokens_with_its_embedding(models: Path) -> None:
    assert "output.weight" not in {tensor.name for tensor in GGUFReader(demo_model("llama", models)).tensors}


@contextlib.contextmanager
def serving(build: Build, model: Path, folder: Path, *more: str) -> Iterator[tuple[httpx.Client, Server]]:
    port = free_port()
    argv = [str(Path(build.bin_dir) / "llama-server"), "--model", str(model), "--port", str(port), "--alias", "demo"]
    argv += ["--device", "none", "--ctx-size", "1024", "--parallel", "1", "--threads", "1", "--fit", "off"]
    argv += ["--log-verbosity", "4", *more]
    env = {"PATH": os.environ.get("PATH", ""), "XDG_CONFIG_HOME": str(folder)}
    with running_server(argv, env, port, "demo", folder / "server.log") as server:
        server.wait_until_ready(120, lambda loading: None)
        with httpx.Client(base_url=server.url, trust_env=False, timeout=120) as http:
            yield http, server


def complete(http: httpx.Client, prompt: str | Sequence[int] = PROMPT, **options: object) -> dict[str, object]:
    request = {"prompt": prompt, "temperature": 0, "cache_prompt": False, "return_tokens": True, **options}
    response = http.post("/completion", json=request)
    response.raise_for_status()
    return dict(response.json())


@pytest.fixture(scope="module", params=NAMES)
def served(
    request: pytest.FixtureRequest, build: Build, models: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[httpx.Client, Server]]:
    with serving(build, demo_model(request.param, models), tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture(scope="module")
def llama(build: Build, models: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx.Client]:
    with serving(build, demo_model("llama", models), tmp_path_factory.mktemp("server")) as (http, _):
        yield http


@pytest.mark.server
def test_the_server_uses_every_tensor_and_finds_nothing_to_complain_about(
    served: tuple[httpx.Client, Server],
) -> None:
    _, server = served
    log = server.log_text()
    assert "model buffer size" in log
    assert "unused tensor" not in log
    complaints = [line for line in log.splitlines() if " W " in line[:20] or " E " in line[:20]]
    # What the server says to whoever has no API key and to whoever keeps no prompt cache is not about the model.
    assert [line for line in complaints if " srv " not in line] == []


@pytest.mark.server
def test_what_is_generated_is_finite_varied_and_printable(served: tuple[httpx.Client, Server]) -> None:
    http, _ = served
    answer = complete(http, n_predict=48, ignore_eos=True, n_probs=20)
    tokens, text = answer["tokens"], answer["content"]
    assert isinstance(tokens, list)
    assert isinstance(text, str)
    assert len(tokens) == 48
    assert len(set(tokens)) >= 12
    assert text.isascii()
    assert text.isprintable()
    places = answer["completion_probabilities"]
    assert isinstance(places, list)
    logprobs = [candidate["logprob"] for place in places for candidate in place["top_logprobs"]]
    assert len(logprobs) == 48 * 20
    assert all(math.isfinite(logprob) and logprob <= 0 for logprob in logprobs)


@pytest.mark.server
def test_greedy_generation_says_the_same_each_time(served: tuple[httpx.Client, Server]) -> None:
    http, _ = served
    first, again = (complete(http, n_predict=16, ignore_eos=True)["tokens"] for _ in range(2))
    assert first == again


@pytest.mark.server
def test_the_prompt_matters(served: tuple[httpx.Client, Server]) -> None:
    http, _ = served
    one, other = (complete(http, prompt, n_predict=16, ignore_eos=True)["tokens"] for prompt in ([262] * 9, [318] * 9))
    assert one != other


@pytest.mark.server
def test_generation_does_not_end_by_itself_at_once(served: tuple[httpx.Client, Server]) -> None:
    http, _ = served
    assert complete(http, n_predict=32)["stop_type"] == "limit"


@pytest.mark.server
def test_a_prompt_longer_than_a_batch_is_read_without_overflow(served: tuple[httpx.Client, Server]) -> None:
    http, _ = served
    answer = complete(http, [token % 1000 for token in range(600)], n_predict=4, ignore_eos=True, n_probs=5)
    places = answer["completion_probabilities"]
    assert isinstance(places, list)
    assert all(math.isfinite(place["logprob"]) for place in places)


@pytest.mark.server
def test_the_chat_template_gets_an_answer(llama: httpx.Client) -> None:
    request = {"messages": [{"role": "user", "content": "Salut, ça va ?"}], "max_tokens": 8, "temperature": 0}
    response = llama.post("/v1/chat/completions", json=request)
    response.raise_for_status()
    assert response.json()["choices"][0]["message"]["content"]


@pytest.mark.server
@settings(deadline=None, max_examples=60)
@given(text=st.text(max_size=60))
def test_any_text_survives_the_tokenizer(llama: httpx.Client, text: str) -> None:
    tokens = llama.post("/tokenize", json={"content": text}).json()["tokens"]
    assert llama.post("/detokenize", json={"tokens": tokens}).json()["content"] == text


@pytest.mark.server
def test_common_words_are_one_token(llama: httpx.Client) -> None:
    tokens = llama.post("/tokenize", json={"content": " the people would make it"}).json()["tokens"]
    vocabulary = demo_vocabulary().tokens
    assert [vocabulary[token] for token in tokens] == ["Ġthe", "Ġpeople", "Ġwould", "Ġmake", "Ġit"]


@pytest.mark.server
@pytest.mark.parametrize(("name", "key"), [("k3-tiny", "kimi-k3"), ("qwen3moe", "qwen3moe")])
def test_half_of_the_experts_can_be_asked_for(name: str, key: str, build: Build, models: Path, tmp_path: Path) -> None:
    used = DEMO_MODELS[name].sizes.architecture(1024).keys["expert_used_count"]
    assert isinstance(used, int)
    override = f"{key}.expert_used_count=int:{used // 2}"
    with serving(build, demo_model(name, models), tmp_path, "--override-kv", override) as (http, server):
        answer = complete(http, n_predict=8, ignore_eos=True)
        log = server.log_text()
    assert len(answer["tokens"]) == 8  # type: ignore[arg-type]
    assert f"n_expert_used         = {used // 2}" in log
