from __future__ import annotations

import pytest

from k3prof.core.ops.op_graph import Part
from k3prof.core.ops.op_record import Timing
from k3prof.errors import ConfigError
from k3prof.workflows.ops import profile_ops


def test_a_model_is_profiled_with_the_overrides_it_was_asked_with(build):
    report = profile_ops(
        "demo:k3-tiny",
        build=build.bin_dir,
        timing=Timing.LAYER,
        tokens=2,
        threads=1,
        overrides=["kimi-k3.expert_used_count=int:3", "general.architecture=str:kimi-k3"],
    )
    # What is said to be as it was is no change.
    assert report.request.overrides == (("kimi-k3.expert_used_count", 3),)
    assert report.model.geometry.experts_used == 3
    assert report.build.sha256 == build.sha256
    (decode,) = report.profiles
    assert {share.name for share in decode.by_part} == {
        *(Part.MOE, Part.DENSE, Part.KDA, Part.MLA, Part.RESIDUALS, Part.EMBEDDING, Part.OUTPUT),
    }
    assert [share.about for share in decode.by_layer] == [
        "KDA + dense",
        *["KDA + MoE"] * 2,
        "MLA + MoE",
        *["KDA + MoE"] * 2,
        "MLA + MoE",
        "",
    ]


def test_every_physical_core_computes_by_default(build):
    report = profile_ops("demo:llama", build=build.bin_dir, timing=Timing.LAYER, tokens=1)
    assert report.request.threads >= 1
    assert report.request.overrides == ()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"overrides": ["kimi-k3.expert_used_count=int:99"]}, "--override-kv: 99 experts used"),
        ({"overrides": ["kimi-k3.expert_used_cont=int:9"]}, "--override-kv: the model has no key"),
        ({"overrides": ["nonsense"]}, "--override-kv: 'nonsense' is no KEY=TYPE:VALUE"),
        (
            {"overrides": ["tokenizer.ggml.pre=str:" + "x" * 128]},
            "tokenizer.ggml.pre: a text of 128 bytes; it takes 127",
        ),
        ({"build": "no-such-build"}, "no build is called"),
    ],
)
def test_wrong_options_are_refused(build, options, said):
    with pytest.raises(ConfigError) as raised:
        profile_ops("demo:k3-tiny", **{"build": build.bin_dir, **options})
    assert said in raised.value.message
