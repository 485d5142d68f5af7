"""What the header predicts, held against what the real server allocates."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from k3prof.llama.gguf import read_model
from tests.doubles import loadable_models

CONTEXT = 4096
MIB = 2**20
MODELS = {
    "qwen3": loadable_models.qwen3(),
    "glm4moe with MTP": loadable_models.glm4moe(),
    "deepseek2": loadable_models.deepseek2(),
    "deepseek2 with MTP": loadable_models.deepseek2(mtp=True),
    "deepseek2 of old": loadable_models.deepseek2_before_the_latent_cache(),
    "kimi-linear": loadable_models.kimi_linear(),
}


def allocated_mib(server: Path, model: Path, cache_type: str) -> dict[str, float]:
    """Start the server and return the sizes of its KV and state buffers as it prints them."""
    flags = ["-c", CONTEXT, "-np", 1, "-ctk", cache_type, "-ctv", cache_type, "-fa", "on", "-fit", "off", "-lv", 4]
    command = [server, "-m", model, "--port", 0, "--no-warmup", "-t", 1, *flags]
    process = subprocess.Popen([str(part) for part in command], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    sizes = {"KV": 0.0, "RS": 0.0}
    try:
        for line in process.stderr:
            text = line.decode(errors="replace")
            if found := re.search(r"(KV|RS) buffer size = +([\d.]+) MiB", text):
                sizes[found[1]] += float(found[2])
            if "sched_reserve" in text or "graph_reserve" in text or "graph splits" in text:
                break
        else:
            raise AssertionError("the server did not load the model")
    finally:
        process.kill()
        process.communicate()
    return sizes


@pytest.mark.server
@pytest.mark.parametrize("cache_type", ["f16", "q8_0"])
@pytest.mark.parametrize("name", MODELS)
def test_caches_are_as_large_as_the_server_makes_them(build, tmp_path, name, cache_type):
    path = loadable_models.write_loadable(tmp_path / "model.gguf", *MODELS[name])
    model = read_model(path)
    sizes = allocated_mib(Path(build.bin_dir) / "llama-server", path, cache_type)
    assert f"{CONTEXT * model.kv_bytes_per_token(cache_type, cache_type) / MIB:.2f}" == f"{sizes['KV']:.2f}"
    assert f"{model.state_bytes_per_sequence / MIB:.2f}" == f"{sizes['RS']:.2f}"
    assert sizes["KV"] > 0
