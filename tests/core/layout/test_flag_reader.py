from __future__ import annotations

import pytest

from k3prof.core.experiment import Experiment, Placement, Settings
from k3prof.core.layout.flag_reader import FlagReader, under_known_names
from k3prof.core.trial import Workload
from k3prof.errors import ConfigError


def reader(**flags):
    named = {name.replace("_", "-"): value for name, value in flags.items()}
    return FlagReader(named, "a.toml: flags.{}".format)


def test_what_is_not_given_has_its_default():
    assert reader().whole("parallel", 4) == 4
    assert reader().switch("kv-offload", True) is True
    assert reader().text("fit", "on") == "on"
    assert reader().shares("tensor-split") == ()


def test_shares_are_separated_by_commas_or_slashes():
    assert reader(tensor_split="3/1,0.5").shares("tensor-split") == (3, 1, 0.5)
    assert reader(tensor_split=(1, 2)).shares("tensor-split") == (1, 2)


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (
            lambda: reader(parallel="two").whole("parallel", 1),
            "a.toml: flags.parallel: 'two' is no whole number from 0 up",
        ),
        (
            lambda: reader(parallel=-2).whole("parallel", 1, -1),
            "a.toml: flags.parallel: '-2' is no whole number from -1 up",
        ),
        (
            lambda: reader(kv_offload=1).switch("kv-offload", True),
            "a.toml: flags.kv-offload: '1' where a switch takes no",
        ),
        (lambda: reader(fit="of").choice("fit", "on", ("on", "off")), "a.toml: flags.fit: there is no 'of'"),
        (
            lambda: reader(tensor_split="1,x").shares("tensor-split"),
            "a.toml: flags.tensor-split: 'x' is no share of a model",
        ),
        (lambda: reader(tensor_split=(1, -1)).shares("tensor-split"), "a.toml: flags.tensor-split: '-1' is no share"),
        (lambda: reader(tensor_split="nan").shares("tensor-split"), "a.toml: flags.tensor-split: 'nan' is no share"),
    ],
)
def test_what_is_wrong_is_named_with_file_and_key(read, message):
    with pytest.raises(ConfigError) as caught:
        read()
    assert caught.value.message.startswith(message)


def test_flags_are_found_under_whatever_name_they_were_written():
    settings = Settings("m.gguf", "cpu", "default", (Workload("tg", 8),), 1, None, {"no_kv_offload": True})
    placement = Placement("a", "", {"gpu-layers": 4, "ctx_size": 512}, {}, "a.toml", ("gpu-layers",))
    known = under_known_names(Experiment("e", settings, (placement,)))
    assert known.settings.flags == {"kv-offload": False}
    assert known.placements[0].flags == {"n-gpu-layers": 4, "ctx-size": 512}
    assert known.placements[0].matrix == ("n-gpu-layers",)
