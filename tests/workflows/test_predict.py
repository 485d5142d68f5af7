from __future__ import annotations

from pathlib import Path

import pytest

from k3prof.core.layout.headroom import ComputeOrigin
from k3prof.errors import ConfigError, ConfigErrors, K3profError
from k3prof.store.config import Overrides
from k3prof.workflows.predict import predict
from tests.doubles.full_size_k3 import K3, Quant, write_full_size_k3

GIB = 2**30

# The first user's placements of a Kimi-K3 that was pruned to 448 experts, on five A40s.
IN_VRAM = """
about = "everything in VRAM"
[matrix]
ctx-size = [16384, 262144, 524288, 1048576]
"""
ON_HOST = """
about = "almost all experts on the host"
[flags]
ctx-size = 16384
n-cpu-moe = 86
"""


@pytest.fixture(autouse=True)
def _no_builds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def reap448(tmp_path_factory: pytest.TempPathFactory):
    """Headers of the pruned model, by the format of everything but the routed experts, which take 1.14 bits each."""
    folder = tmp_path_factory.mktemp("reap448")
    trunks = {"Q8_0": Quant.Q8_0, "Q4_K": Quant.Q4_K, "IQ1_S": Quant.IQ1_S}
    return {
        name: write_full_size_k3(folder / f"{name}.gguf", K3(experts=448, trunk=trunk, tokens=100))
        for name, trunk in trunks.items()
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An experiment."""
    experiment = tmp_path / "a40"
    experiment.mkdir()
    (experiment / "sweep.toml").write_text('workloads = ["tg128"]\n')
    return experiment


def write(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        (folder / f"{name.replace('_', '-')}.toml").write_text(text)
    return folder


def foresee(folder: Path, model: Path | str, rig: str | None = "5xA40", **overrides):
    return predict(folder, Overrides(model=str(model), **overrides), rig)


def verdicts(found) -> dict[str, bool | None]:
    return {one.placement: one.fits for one in found.placements}


def refused(folder: Path, model: Path | str = "demo:qwen3moe", rig: str | None = "2xA40") -> list[K3profError]:
    with pytest.raises(K3profError) as caught:
        foresee(folder, model, rig)
    return list(caught.value.problems) if isinstance(caught.value, ConfigErrors) else [caught.value]


def test_an_eight_bit_trunk_fits_five_a40s_only_with_experts_on_the_host(folder, reap448):
    found = foresee(write(folder, vram=IN_VRAM, host=ON_HOST), reap448["Q8_0"])
    assert verdicts(found) == {
        "host": True,
        **{f"vram[ctx-size={tokens}]": False for tokens in (16384, 262144, 524288, 1048576)},
    }
    # Not a matter of context: the weights alone are more than a card holds.
    in_vram = found.placements[1]
    assert any(need.weight_bytes > need.usable_bytes for need in in_vram.memory[:-1])
    assert min(in_vram.longest_context.values()) == 0


def test_a_four_bit_trunk_lacks_a_little(folder, reap448):
    found = foresee(write(folder, vram=IN_VRAM, host=ON_HOST), reap448["Q4_K"])
    assert verdicts(found)["host"] is True
    worst = min(need.headroom_bytes for need in found.placements[1].memory[:-1])
    assert -2 * GIB < worst < 0


def test_with_a_low_bit_trunk_a_quarter_million_tokens_fit_and_a_million_do_not(folder, reap448):
    found = foresee(write(folder, vram=IN_VRAM, host=ON_HOST), reap448["IQ1_S"])
    assert verdicts(found) == {
        "host": True,
        "vram[ctx-size=16384]": True,
        "vram[ctx-size=262144]": True,
        "vram[ctx-size=524288]": False,
        "vram[ctx-size=1048576]": False,
    }


def test_why_a_million_tokens_do_not_fit(folder, reap448):
    million = foresee(write(folder, vram=IN_VRAM), reap448["IQ1_S"], only="*1048576*").placements[0]
    needs = million.memory[:-1]
    # 24 MLA layers of 1,152 bytes per token: 27 GiB, four or five of them on each card.
    assert sum(need.kv_bytes for need in needs) == 27 * GIB
    assert {need.kv_bytes / GIB for need in needs} == {4 * 1.125, 5 * 1.125}
    # The attention mask of 512 tokens by a million, four times over because prompts are pipelined: 4 GiB on each.
    smaller = foresee(write(folder, vram=IN_VRAM), reap448["IQ1_S"], only="*16384*").placements[0]
    grown = [a.compute_bytes - b.compute_bytes for a, b in zip(needs, smaller.memory[:-1], strict=True)]
    assert {size / GIB for size in grown} == {4 - 4 / 64}
    # In total there would be room: it is each card by itself that lacks it.
    assert {need.fits for need in needs} == {False}
    assert 262_144 < min(million.longest_context.values()) < 524_288


def test_smaller_batches_make_room_for_half_a_million_tokens(folder, reap448):
    flags = "[flags]\nubatch-size = 64\n[matrix]\nctx-size = [524288, 1048576]\n"
    found = foresee(write(folder, vram=flags), reap448["IQ1_S"])
    assert verdicts(found) == {"vram[ctx-size=524288]": True, "vram[ctx-size=1048576]": False}


def test_the_ceiling_follows_from_the_trunk(folder, reap448):
    # 66.0 GB a token at 696 GB/s are 10.5 tok/s, 38.2 GB are 18.2; 0.93 GB of state take a little of either.
    rates = {
        name: foresee(write(folder, vram=IN_VRAM), reap448[name], only="*16384*").placements[0].ceilings[0].roofline
        for name in ("Q8_0", "Q4_K")
    }
    assert {name: round(found.tokens_per_s, 1) for name, found in rates.items()} == {"Q8_0": 10.3, "Q4_K": 17.3}


def test_experts_on_the_host_need_the_hosts_speed(folder, reap448, tmp_path):
    write(folder, host=ON_HOST)
    assert foresee(folder, reap448["Q4_K"]).placements[0].ceilings[0].roofline.tokens_per_s is None
    rig = tmp_path / "rig.toml"
    rig.write_text('[[devices]]\ngpu = "A40"\ncount = 5\n[host]\nbandwidth_gb_per_s = 115\n')
    ceiling = foresee(folder, reap448["Q4_K"], str(rig)).placements[0].ceilings[0].roofline
    # 85 layers of 16 experts of 33.03 M weights at 1.14 bits, at 115 GB/s.
    assert ceiling.devices[-1].ms == pytest.approx(85 * 16 * 33_030_144 * 1.14 / 8 / 115e6, rel=0.01)
    assert ceiling.tokens_per_s == pytest.approx(9.6, abs=0.1)


def test_half_the_experts_change_what_is_read(folder, reap448):
    half = '[flags]\noverride-kv = "kimi-k3.expert_used_count=int:8"\nctx-size = 16384\n'
    whole, halved = foresee(write(folder, a="[flags]\nctx-size = 16384\n", half=half), reap448["Q4_K"]).placements
    saved = whole.ceilings[0].roofline.n_bytes - halved.ceilings[0].roofline.n_bytes
    assert saved == pytest.approx(6.93e9 / 2, rel=0.01)


def test_without_a_build_the_compute_buffers_are_a_margin_and_it_is_said(folder, reap448):
    found = foresee(write(folder, host=ON_HOST), reap448["Q8_0"])
    assert found.placements[0].compute is ComputeOrigin.MARGIN
    assert found.notes == (
        "no build is called 'default': flags are not checked against a build, and compute buffers are a margin",
    )


def test_a_split_over_tensors_is_a_warning_and_no_figure(folder, reap448):
    found = foresee(write(folder, tensor='[flags]\nsplit-mode = "tensor"\n'), reap448["Q8_0"]).placements[0]
    assert (found.layout, found.fits, found.ceilings) == (None, None, ())
    assert [one.message for one in found.warnings] == ["llama-server refuses split-mode tensor for kimi-k3"]


def test_every_problem_is_named_with_its_file_and_key(folder):
    write(
        folder,
        sweep='workloads = ["tg128"]\n[flags]\ntensor-split = [1, 1, 1]\n',
        a="",
        b='[flags]\noverride-tensor = "experts=CPU"\ntensor-split = 1\n',
        c='[matrix]\ndevice = ["CUDA0", "CUDA7"]\n[flags]\ntensor-split = 1\n',
        d='[flags]\noverride-kv = "kimi-k3.expert_used_count=int:1"\ntensor-split = 1\n',
    )
    said = [problem.message.removeprefix(f"{folder}/") for problem in refused(folder)]
    assert said == [
        "sweep.toml: flags.tensor-split: 3 shares for 2 devices (CUDA0, CUDA1)",
        "b.toml: flags.override-tensor: 'experts=CPU' matches no tensor of this model",
        "c.toml: matrix.device: there is no 'CUDA7'",
        "d.toml: flags.override-kv: the model has no key 'kimi-k3.expert_used_count'",
    ]


def test_this_machine_needs_a_build(folder):
    (error,) = refused(write(folder, a=""), rig=None)
    assert "no build is called 'default'" in error.message


def test_a_build_that_is_named_has_to_be_there(folder, reap448):
    with pytest.raises(ConfigError, match="no build is called 'mine'"):
        foresee(write(folder, a=""), reap448["Q8_0"], build="mine")


@pytest.mark.server
def test_a_build_is_asked_for_compute_buffers_with_stand_ins_in_the_gpus_place(build, folder, tmp_path):
    write(
        folder,
        even="[flags]\nctx-size = 2048\n",
        rule='[flags]\nctx-size = 2048\noverride-tensor = "exps=CUDA0"\ndevice = "CUDA1,CUDA0"\n',
    )
    found = foresee(folder, "demo:k3-tiny", "2xA40", build=build.bin_dir)
    assert found.notes == ()
    for prediction in found.placements:
        assert prediction.compute is ComputeOrigin.PLAYED
        assert set(dict(prediction.longest_context)) == {"CUDA0", "CUDA1"}
        assert all(need.compute_bytes > 0 for need in prediction.memory)


@pytest.mark.server
def test_the_stand_ins_of_this_machine_are_asked_themselves(build, folder):
    found = foresee(
        write(folder, even="[flags]\nctx-size = 2048\n"), "demo:llama", None, build=build.bin_dir, devices="rpc:2"
    )
    (prediction,) = found.placements
    assert prediction.compute is ComputeOrigin.ASKED
    assert [need.device for need in prediction.memory] == ["RPC0", "RPC1", "CPU"]
    assert [need.fits for need in prediction.memory] == [None, None, True]


@pytest.mark.server
def test_a_flag_that_the_build_does_not_know_is_refused(build, folder):
    write(folder, a="[flags]\nn-cpu-moee = 4\n")
    with pytest.raises(ConfigErrors) as caught:
        foresee(folder, "demo:qwen3moe", build=build.bin_dir)
    assert [(one.message.removeprefix(f"{folder}/"), one.hint) for one in caught.value.problems] == [
        ("a.toml: flags.n-cpu-moee: unknown flag", "did you mean n-cpu-moe?")
    ]


def test_levels_of_a_ladder_that_a_rig_cannot_take_are_foretold_as_they_would_fail_alone(tmp_path: Path, reap448):
    folder = tmp_path / "ladder"
    folder.mkdir()
    (folder / "a.toml").write_text("[flags]\nctx-size = 16384\n")

    def predicted(*workloads: str):
        (found,) = predict(folder, Overrides(model=str(reap448["IQ1_S"]), workloads=workloads), "5xA40").placements
        skipped = [one.message for one in found.warnings if one.code == "level-skipped"]
        return found, [ceiling.workload.name for ceiling in found.ceilings], skipped

    found, asked, skipped = predicted("tg128 x1,8,64")
    assert (found.fits, asked) == (True, ["tg128", "tg128 x8"])
    assert len(skipped) == 1
    assert skipped[0].startswith("tg128 x64: with 64 slots CUDA0 would need")
    alone, asked, skipped = predicted("tg128 x64")
    assert (alone.fits, asked, skipped) == (False, ["tg128 x64"], [])
    _, asked, skipped = predicted("tg128@d4k,32k")
    assert asked == ["tg128@d4096"]
    assert skipped == ["tg128@d32768: needs 32897 tokens of context, a slot has 16384"]
