"""Reading what llama-server says of its flags, in the layouts of its versions."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.build import Build
from k3prof.core.flags import Flag, FlagVocabulary
from k3prof.errors import ConfigError, MachineError
from k3prof.llama.flag_help import parse_help, read_vocabulary

NOW = """\
----- common params -----

-h,    --help, --usage                  print usage and exit
-t,    --threads N                      number of CPU threads to use during generation (default: -1)
                                        (env: LLAMA_ARG_THREADS)
--cpu-strict <0|1>                      use strict CPU placement (default: 0)
--poll <0...100>                        use polling level to wait for work (0 - no polling, default: 50)
-n,    --predict, --n-predict N         number of tokens to predict (default: -1, -1 = infinity)
-fa,   --flash-attn [on|off|auto]       set Flash Attention use ('on', 'off', or 'auto', default: 'auto')
--perf, --no-perf                       whether to enable internal libllama performance timings (default:
                                        false)
--rope-scaling {none,linear,yarn}       RoPE frequency scaling method, defaults to linear unless specified by
                                        the model
-kvo,  --kv-offload, -nkvo, --no-kv-offload
                                        whether to enable KV cache offloading (default: enabled)
                                        (env: LLAMA_ARG_KV_OFFLOAD)
--no-host                               bypass host buffer allowing extra buffers to be used
-ctk,  --cache-type-k TYPE              KV cache data type for K
                                        allowed values: f32, f16, bf16, q8_0, iq4_nl
                                        (default: f16)
-lm,   --load-mode MODE                 model loading mode (default: auto)
                                        - auto: mmap, unless a device does not support it
                                        - none: no special loading mode

                                        (env: LLAMA_ARG_LOAD_MODE)
-dev,  --device <dev1,dev2,..>          comma-separated list of devices to use for offloading (none = don't
                                        offload)
                                        use --list-devices to see a list of available devices
-dr,   --docker-repo [<repo>/]<model>[:quant]
                                        Docker Hub model repository. repo is optional, default to ai/. quant
--control-vector-layer-range START END
                                        layer range to apply the control vector(s) to, start and end inclusive
--spec-type none,draft-simple,ngram-mod
                                        comma-separated list of types of speculative decoding to use (default:
                                        none)
--spec-draft-override-tensor, -otd, --override-tensor-draft <tensor name pattern>=<buffer type>,...
                                        override tensor buffer type for draft model
--draft, --draft-n, --draft-max N       the argument has been removed. use --spec-draft-n-max or
                                        --spec-ngram-mod-n-max
                                        (env: LLAMA_ARG_DRAFT_MAX)
--spec-ngram-min-hits N                 the argument has been removed. use the respective
                                        --spec-ngram-*-min-hits


----- example-specific params -----

--mmproj-auto, --no-mmproj, --no-mmproj-auto
                                        whether to use multimodal projector file (if available), useful when
--fim-qwen-1.5b-default                 use default Qwen 2.5 Coder 1.5B (note: can download weights from the
                                        internet)
"""

EARLY_2024 = """\
usage: ./server [options]

options:
  -h, --help                show this help message and exit
  -v, --verbose             verbose output (default: disabled)
  -t N, --threads N         number of threads to use during computation (default: 8)
  -c N, --ctx-size N        size of the prompt context (default: 512)
  --rope-scaling {none,linear,yarn}
                            RoPE frequency scaling method, defaults to linear unless specified by the model
  --numa TYPE               attempt optimizations that help on some NUMA systems
                              - distribute: spread execution evenly over all nodes
                              - isolate: only spawn threads on CPUs on the node that execution started on
  --no-mmap                 do not memory-map model (slower load but may reduce pageouts if not using mlock)
  -ngl N, --n-gpu-layers N
                            number of layers to store in VRAM
  -sm SPLIT_MODE, --split-mode SPLIT_MODE
                            how to split the model across multiple GPUs, one of:
                              - none: use one GPU only
                              - layer (default): split layers and KV across GPUs
  -ts SPLIT --tensor-split SPLIT
                            fraction of the model to offload to each GPU, comma-separated list of proportions, e.g. 3,1
  -mg i, --main-gpu i       the GPU to use for the model (with split-mode = none),
                            or for intermediate results and KV (with split-mode = row)
"""

LATE_2024 = """\
usage: ./llama-server [options]

general:

  -h,    --help, --usage          print usage and exit
         --version                show version and build info
  -t,    --threads N              number of threads to use during generation (default: 8)
  -fa,   --flash-attn             enable Flash Attention (default: disabled)
         --rope-scaling {none,linear,yarn}
                                  RoPE frequency scaling method, defaults to linear unless specified by the model
  -ngl,  --n-gpu-layers N         number of layers to store in VRAM
"""


def flag(text: str, name: str) -> Flag:
    found = FlagVocabulary(parse_help(text)).find(name)
    assert found is not None, name
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("usage", Flag("usage", ("help",), takes_value=False)),
        ("threads", Flag("threads")),
        ("predict", Flag("n-predict", ("predict",))),
        ("perf", Flag("perf", takes_value=False, negative="no-perf")),
        ("kv-offload", Flag("kv-offload", takes_value=False, negative="no-kv-offload")),
        ("no-host", Flag("no-host", takes_value=False)),
        ("cpu-strict", Flag("cpu-strict", choices=("0", "1"))),
        ("flash-attn", Flag("flash-attn", choices=("on", "off", "auto"))),
        ("rope-scaling", Flag("rope-scaling", choices=("none", "linear", "yarn"))),
        ("cache-type-k", Flag("cache-type-k", choices=("f32", "f16", "bf16", "q8_0", "iq4_nl"))),
        ("spec-type", Flag("spec-type", choices=("none", "draft-simple", "ngram-mod"))),
        ("control-vector-layer-range", Flag("control-vector-layer-range")),
        ("spec-draft-override-tensor", Flag("override-tensor-draft", ("spec-draft-override-tensor",))),
        (
            "mmproj-auto",
            Flag("mmproj-auto", takes_value=False, negative="no-mmproj", negative_aliases=("no-mmproj-auto",)),
        ),
        ("fim-qwen-1.5b-default", Flag("fim-qwen-1.5b-default", takes_value=False)),
    ],
)
def test_a_flag_of_today_is_read_whole(name: str, expected: Flag) -> None:
    assert flag(NOW, name) == expected


@pytest.mark.parametrize("name", ["poll", "load-mode", "device", "docker-repo"])
def test_a_range_a_list_of_explanations_or_a_pattern_is_not_taken_for_choices(name: str) -> None:
    assert flag(NOW, name) == Flag(name)


def test_a_flag_that_is_listed_only_to_be_refused_says_what_to_use_instead() -> None:
    assert flag(NOW, "draft-max").removed == "use --spec-draft-n-max or --spec-ngram-mod-n-max"
    assert flag(NOW, "spec-ngram-min-hits").removed == "use the respective --spec-ngram-*-min-hits"
    assert not flag(NOW, "threads").removed


def test_options_that_descriptions_mention_are_no_flags() -> None:
    assert FlagVocabulary(parse_help(NOW)).find("list-devices") is None


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("verbose", Flag("verbose", takes_value=False)),
        ("ctx-size", Flag("ctx-size")),
        ("rope-scaling", Flag("rope-scaling", choices=("none", "linear", "yarn"))),
        ("numa", Flag("numa")),
        ("no-mmap", Flag("no-mmap", takes_value=False)),
        ("n-gpu-layers", Flag("n-gpu-layers")),
        ("split-mode", Flag("split-mode")),
        ("tensor-split", Flag("tensor-split")),
        ("main-gpu", Flag("main-gpu")),
    ],
)
def test_a_flag_of_early_2024_is_read_whole(name: str, expected: Flag) -> None:
    assert flag(EARLY_2024, name) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("version", Flag("version", takes_value=False)),
        ("threads", Flag("threads")),
        ("flash-attn", Flag("flash-attn", takes_value=False)),
        ("rope-scaling", Flag("rope-scaling", choices=("none", "linear", "yarn"))),
        ("n-gpu-layers", Flag("n-gpu-layers")),
    ],
)
def test_a_flag_of_late_2024_is_read_whole(name: str, expected: Flag) -> None:
    assert flag(LATE_2024, name) == expected


WORD = st.from_regex(r"[a-z][a-z0-9]{0,6}", fullmatch=True)
LONG_NAME = st.lists(WORD, min_size=1, max_size=4).map("-".join)
HINT = st.sampled_from(["", "N", "FNAME", "<0|1>", "{none,row}", "[on|off]", "<a b>=<c>,...", "START END", "lo-hi"])


@st.composite
def printed_option(draw: st.DrawFn) -> tuple[list[str], str, str]:
    """One option as common_arg::to_string prints it: its long names, its value's hint, and the text."""
    names = draw(st.lists(LONG_NAME, min_size=1, max_size=3, unique=True))
    short = draw(st.none() | WORD.map(lambda word: word[:4]))
    hint = draw(HINT)
    spellings = [*([f"-{short}"] if short else []), *(f"--{name}" for name in names)]
    head = f"{spellings[0] + ', ':<7}" + ", ".join(spellings[1:]) if len(spellings) > 1 else spellings[0]
    head += f" {hint}" if hint else ""
    head = head + "\n" + " " * 40 if len(head) > 37 else head.ljust(40)
    description = draw(st.lists(st.text("abc -,.()[]'", min_size=1, max_size=70), min_size=1, max_size=3))
    return names, hint, head + ("\n" + " " * 40).join(description) + "\n"


@given(st.lists(printed_option(), max_size=8))
def test_every_long_name_that_starts_an_option_is_found(options: list[tuple[list[str], str, str]]) -> None:
    text = "----- common params -----\n\n" + "".join(printed for _, _, printed in options)
    flags = parse_help(text)
    assert len(flags) == len(options)
    for (names, hint, _), found in zip(options, flags, strict=True):
        negatives = [found.negative] if found.negative else []
        assert sorted([found.name, *found.aliases, *negatives, *found.negative_aliases]) == sorted(names)
        assert found.takes_value == bool(hint)


@given(st.text(max_size=300))
def test_any_text_at_all_is_read_without_an_error(text: str) -> None:
    assert all(found.name for found in parse_help(text))


def test_the_real_build_lists_every_name_that_its_help_starts_a_line_with(build: Build) -> None:
    vocabulary = read_vocabulary(Path(build.bin_dir))
    printed = subprocess.run(
        [f"{build.bin_dir}/llama-server", "--help"], capture_output=True, text=True, check=True
    ).stdout
    heads = [line[:40] if len(line) > 40 and line[37:40].isspace() else line for line in printed.splitlines()]
    names = [name for head in heads if head.startswith("-") for name in re.findall(r"(?<![\w-])--([a-z][\w.-]*)", head)]
    assert len(names) > 200
    assert [name for name in names if not (vocabulary.find(name) or vocabulary.find_negative(name))] == []


def test_the_real_build_understands_what_placements_are_made_of(build: Build) -> None:
    vocabulary = read_vocabulary(Path(build.bin_dir))
    for name in ("n-gpu-layers", "n-cpu-moe", "tensor-split", "override-tensor", "device", "rpc", "ubatch-size"):
        found = vocabulary.find(name)
        assert found is not None
        assert found.takes_value
        assert found.name == name


def test_a_server_that_lists_no_flags_is_refused(tmp_path: Path) -> None:
    server = tmp_path / "llama-server"
    server.write_text("#!/bin/sh\necho no flags today\n")
    server.chmod(0o755)
    with pytest.raises(MachineError, match="lists no flags"):
        read_vocabulary(tmp_path)


def test_a_folder_without_a_server_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such program"):
        read_vocabulary(tmp_path)
