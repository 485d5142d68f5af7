from __future__ import annotations

import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k3prof.core.experiment import Experiment, build_of
from k3prof.core.flag_check import canonical, check_flags
from k3prof.core.spans import SplitMode
from k3prof.core.trial import Workload
from k3prof.errors import ConfigError, ConfigErrors
from k3prof.llama.flag_help import read_vocabulary
from k3prof.store.config import MAX_COMBINATIONS, NO_PLACEMENTS, Overrides, load_experiment

SHIPPED = Path(__file__).parents[2] / "placements"


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An experiment of one sound placement, named as from the working directory: `placements`."""
    monkeypatch.chdir(tmp_path)
    return write(Path("placements"), {"sweep.toml": 'model = "demo:k3"', "even.toml": ""})


def write(folder: Path, files: dict[str, str | bytes]) -> Path:
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def problems_of(path: Path, **overrides) -> list[ConfigError]:
    with pytest.raises(ConfigErrors) as caught:
        load_experiment(path, Overrides(**overrides))
    assert caught.value.exit_code == 2
    return list(caught.value.problems)


def problem_of(path: Path, **overrides) -> str:
    """The only problem, as the terminal shows it."""
    (problem,) = problems_of(path, **overrides)
    return f"{problem.message} | {problem.hint}"


def names(experiment: Experiment) -> list[str]:
    return [placement.name for placement in experiment.placements]


# What is read


def test_the_shipped_experiment_loads_and_every_placement_says_what_it_is_about():
    experiment = load_experiment(SHIPPED, Overrides())
    assert names(experiment) == [file.stem for file in sorted(SHIPPED.glob("*.toml")) if file.name not in NO_PLACEMENTS]
    assert all(placement.about for placement in experiment.placements)
    assert experiment.settings.model == "demo:k3"
    assert experiment.settings.workloads == (Workload("pp", 512), Workload("tg", 128))


def test_a_real_build_understands_the_flags_of_the_shipped_experiment(build):
    experiment = load_experiment(SHIPPED, Overrides())
    vocabulary = read_vocabulary(Path(build.bin_dir))
    assert check_flags(experiment, {"default": vocabulary}, n_devices=3) == []
    assert canonical(experiment, vocabulary) == experiment


def test_settings_and_a_placement_are_read_key_by_key(folder):
    write(
        folder,
        {
            "sweep.toml": """
                model = "demo:k3"
                devices = "rpc:2"
                build = "cuda"
                workloads = ["pp64", "tg128@d4096", "tg32 x4"]
                repeat = 5
                price_per_hour = 2
                [flags]
                ctx-size = 8192
            """,
            "even.toml": """
                about = "an even split"
                [flags]
                tensor-split = [1, 1.5]
                cpu-moe = true
                override-tensor = ["a=CPU", "b=CPU"]
                [env]
                GGML_OP_OFFLOAD_MIN_BATCH = "64"
            """,
        },
    )
    settings, (placement,) = (experiment := load_experiment(folder, Overrides())).settings, experiment.placements
    assert (settings.devices, settings.build, settings.repeat, settings.price_per_hour) == ("rpc:2", "cuda", 5, 2.0)
    assert [workload.name for workload in settings.workloads] == ["pp64", "tg128@d4096", "tg32 x4"]
    assert settings.flags == {"ctx-size": 8192}
    assert placement.about == "an even split"
    assert placement.flags == {"tensor-split": (1, 1.5), "cpu-moe": True, "override-tensor": ("a=CPU", "b=CPU")}
    assert placement.env == {"GGML_OP_OFFLOAD_MIN_BATCH": "64"}
    assert placement.file == "placements/even.toml"


def test_hypotheses_hidden_files_and_other_folders_are_no_placements(folder):
    write(folder, {"hypotheses.toml": "[[hypothesis]]", ".even.toml": "rubbish", "notes.txt": "rubbish"})
    write(folder / "a40", {"other.toml": "rubbish"})
    assert names(load_experiment(folder, Overrides())) == ["even"]


def test_a_single_placement_shares_the_sweep_file_beside_it(folder):
    write(folder, {"sweep.toml": 'model = "demo:k3"\nrepeat = 7', "broken.toml": "rubbish"})
    experiment = load_experiment(folder / "even.toml", Overrides())
    assert names(experiment) == ["even"]
    assert experiment.settings.repeat == 7


def test_without_a_sweep_file_defaults_count_and_the_model_comes_from_the_command_line(folder):
    (folder / "sweep.toml").unlink()
    settings = load_experiment(folder, Overrides(model="big.gguf")).settings
    assert settings.model == "big.gguf"
    assert (settings.devices, settings.build, settings.repeat, settings.price_per_hour) == ("auto", "default", 3, None)
    assert settings.workloads == (Workload("pp", 512), Workload("tg", 128))
    assert problem_of(folder).startswith("placements: no model | give --model")


def test_a_model_path_counts_from_the_folder_of_the_file_that_names_it(folder, tmp_path):
    write(folder, {"sweep.toml": 'model = "models/k3.gguf"'})
    assert load_experiment(folder, Overrides()).settings.model == "placements/models/k3.gguf"
    assert load_experiment(folder, Overrides(model="models/k3.gguf")).settings.model == "models/k3.gguf"
    write(folder, {"sweep.toml": f'model = "{tmp_path}/k3.gguf"'})
    assert load_experiment(folder, Overrides()).settings.model == f"{tmp_path}/k3.gguf"
    write(folder, {"sweep.toml": 'model = "~/k3.gguf"'})
    assert load_experiment(folder, Overrides()).settings.model == str(Path("~/k3.gguf").expanduser())
    write(folder, {"sweep.toml": 'model = "~nobody-of-this-name/k3.gguf"'})
    assert "model: no home folder" in problem_of(folder)


def test_how_splits_are_traced_stands_in_the_sweep_file_and_the_command_line_wins(folder):
    assert load_experiment(folder, Overrides()).settings.splits is SplitMode.OFF
    write(folder, {"sweep.toml": 'model = "demo:k3"\n[trace]\nsplits = "exact"'})
    assert load_experiment(folder, Overrides()).settings.splits is SplitMode.EXACT
    assert load_experiment(folder, Overrides(splits="off")).settings.splits is SplitMode.OFF
    assert problem_of(folder, splits="fast").startswith("--splits: 'fast' is no way to trace splits | write exact")


def test_the_command_line_wins_over_the_sweep_file(folder):
    overrides = Overrides(model="a.gguf", build="mine", devices="rpc:4", repeat=9, workloads=("tg16", "pp8"))
    settings = load_experiment(folder, overrides).settings
    assert (settings.model, settings.build, settings.devices, settings.repeat) == ("a.gguf", "mine", "rpc:4", 9)
    assert settings.workloads == (Workload("tg", 16), Workload("pp", 8))


def test_a_placements_own_build_wins_over_the_sweep_files_and_the_command_lines(folder):
    write(folder, {"sweep.toml": 'model = "demo:k3"\nbuild = "cuda"', "fused.toml": 'build = "mmq"'})
    for overrides, shared in ((Overrides(), "cuda"), (Overrides(build="mine"), "mine")):
        experiment = load_experiment(folder, overrides)
        builds = {one.name: build_of(experiment.settings, one) for one in experiment.placements}
        assert builds == {"even": shared, "fused": "mmq"}


def test_a_matrix_keeps_the_build_of_its_file(folder):
    write(folder, {"even.toml": 'build = "mmq"\n[matrix]\nn-cpu-moe = [0, 4]'})
    assert [placement.build for placement in load_experiment(folder, Overrides()).placements] == ["mmq", "mmq"]


def test_a_build_on_the_command_line_that_no_placement_would_heed_is_refused(folder):
    write(folder, {"fused.toml": 'build = "mmq"'})
    assert names(load_experiment(folder, Overrides(build="mine"))) == ["even", "fused"]
    assert problem_of(folder, only="fused", build="mine") == (
        "--build: would change nothing: every placement to be run names its own build | "
        "leave --build out, or take the key build out of a placement's file"
    )


def test_a_byte_order_mark_and_dos_line_ends_do_no_harm(folder):
    write(folder, {"even.toml": b"\xef\xbb\xbfabout = 'x'\r\n[flags]\r\nfit = 'on'\r\n"})
    assert load_experiment(folder, Overrides()).placements[0].flags == {"fit": "on"}


# Matrices


def test_a_matrix_makes_one_placement_per_combination_in_the_order_of_the_file(folder):
    write(
        folder,
        {
            "even.toml": """
                about = "x"
                [flags]
                n-cpu-moe = 1
                fit = "off"
                [env]
                GGML_X = "kept"
                [matrix]
                n-cpu-moe = [0, 4]
                tensor-split = [[1, 1], [3, 1]]
                env.OMP_NUM_THREADS = ["2"]
                "env.GGML_Y" = ["a"]
            """
        },
    )
    placements = load_experiment(folder, Overrides()).placements
    end = "[env.OMP_NUM_THREADS=2][env.GGML_Y=a]"
    assert [placement.name for placement in placements] == [
        f"even[n-cpu-moe=0][tensor-split=1,1]{end}",
        f"even[n-cpu-moe=0][tensor-split=3,1]{end}",
        f"even[n-cpu-moe=4][tensor-split=1,1]{end}",
        f"even[n-cpu-moe=4][tensor-split=3,1]{end}",
    ]
    assert placements[3].flags == {"n-cpu-moe": 4, "fit": "off", "tensor-split": (3, 1)}
    assert placements[3].env == {"GGML_X": "kept", "OMP_NUM_THREADS": "2", "GGML_Y": "a"}
    assert placements[3].matrix == ("n-cpu-moe", "tensor-split")


@given(sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4), n_env=st.integers(0, 2))
def test_a_matrix_makes_as_many_differently_named_placements_as_the_product_of_its_sizes(
    tmp_path_factory, sizes, n_env
):
    keys = [f"flag-{i}" if i >= n_env else f"env.VARIABLE_{i}" for i in range(len(sizes))]
    lists = [list(range(size)) if i >= n_env else list("abcde"[:size]) for i, size in enumerate(sizes)]
    matrix = "".join(f"{key} = {values!r}\n" for key, values in zip(keys, lists, strict=True))
    folder = write(tmp_path_factory.mktemp("matrix"), {"a.toml": "[matrix]\n" + matrix})
    placements = load_experiment(folder, Overrides(model="demo:k3")).placements
    assert len({placement.name for placement in placements}) == math.prod(sizes)
    chosen = {
        tuple((placement.flags | {f"env.{k}": v for k, v in placement.env.items()})[key] for key in keys)
        for placement in placements
    }
    assert chosen == set(itertools.product(*lists))


@pytest.mark.parametrize(
    ("matrix", "problem"),
    [
        ("n-cpu-moe = 4", "matrix.n-cpu-moe: must be a list, not 4"),
        ("n-cpu-moe = []", "matrix.n-cpu-moe: an empty list"),
        ("n-cpu-moe = [1, 2, 1]", "2 placements are named even[n-cpu-moe=1]"),
        ("env.A = [1]", "matrix.env.A[0]: an environment variable is text, not 1"),
        ("env.LD_PRELOAD = ['x.so']", "matrix.env.LD_PRELOAD: not yours to set"),
        ("env = 1", "matrix.env: must be a table, not 1"),
        (r'grammar = ["a\nb"]', "unprintable characters in the placement's name"),
        ("\n".join(f"f{i} = [1, 2]" for i in range(400)), f"matrix: more than {MAX_COMBINATIONS} combinations"),
        ("".join(f"f{i} = [1, 2]\n" for i in range(40_000)), f"matrix: more than {MAX_COMBINATIONS} combinations"),
    ],
    ids=lambda text: text[:20],
)
def test_a_bad_matrix_is_refused_under_its_key(folder, matrix, problem):
    write(folder, {"even.toml": f"[matrix]\n{matrix}"})
    assert problem in problem_of(folder)


# Choosing placements


def test_only_selects_by_name_with_stars_and_question_marks(folder):
    write(folder, {"evil.toml": "", "odd.toml": "[matrix]\nn-cpu-moe = [1, 2, 12]"})
    assert names(load_experiment(folder, Overrides(only="ev*"))) == ["even", "evil"]
    assert names(load_experiment(folder, Overrides(only="odd[n-cpu-moe=?]"))) == [
        "odd[n-cpu-moe=1]",
        "odd[n-cpu-moe=2]",
    ]
    assert problem_of(folder, only="Even") == (
        "--only: no placement is named 'Even' | "
        "there are: even, evil, odd[n-cpu-moe=1], odd[n-cpu-moe=2], odd[n-cpu-moe=12]"
    )


# A name with a star or a question mark in it selects itself too, but perhaps not alone.
stems = st.text(
    st.characters(codec="utf-8", exclude_characters="/\0*?", exclude_categories=("C", "Zl", "Zp", "Zs")),
    min_size=1,
    max_size=20,
).filter(lambda stem: not stem.startswith(".") and stem not in ("sweep", "hypotheses"))


@given(chosen=st.sets(stems, min_size=1, max_size=4))
def test_a_placement_has_its_files_name_and_only_finds_it_by_that_name(tmp_path_factory, chosen):
    folder = write(tmp_path_factory.mktemp("names"), {f"{stem}.toml": "" for stem in chosen})
    assert set(names(load_experiment(folder, Overrides(model="demo:k3")))) == chosen
    for stem in chosen:
        assert names(load_experiment(folder, Overrides(model="demo:k3", only=stem))) == [stem]


def test_two_files_that_name_one_placement_are_both_named(folder):
    write(folder, {"a.toml": "[matrix]\nx = [1]", "a[x=1].toml": ""})
    assert problem_of(folder).startswith("placements/a.toml and placements/a[x=1].toml: 2 placements are named a[x=1]")
    (folder / "a.toml").unlink()
    write(folder, {"even.TOML": ""})
    assert "2 placements are named even" in problem_of(folder)


# What is refused


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[trace]\nsplits = 'fast'", "trace.splits: 'fast' is no way to trace splits | write exact, light or off"),
        ("[trace]\nsplits = true", "trace.splits: true is no way to trace splits"),
        ("[trace]\nsplit = 'exact'", "trace.split: unknown key | did you mean splits?"),
        ("trace = 'exact'", "trace: must be a table, not 'exact'"),
        ("splits = 'exact'", "splits: unknown key | known keys: model, devices"),
        ("modell = 'x'", "modell: unknown key | did you mean model?"),
        ("tensor-split = [1]", "known keys: model, devices, build, workloads, repeat, price_per_hour, flags"),
        ("model = 3", "model: must be text in quotes, not 3"),
        ("model = ''", "model: an empty text"),
        ("price_per_hour = -0.5", "price_per_hour: must be at least 0, not -0.5"),
        ("price_per_hour = nan", "price_per_hour: must be a finite number, not nan"),
        ("price_per_hour = '2 USD'", "price_per_hour: must be a number, not '2 USD'"),
        ("price_per_hour = true", "price_per_hour: must be a number, not true"),
        ("repeat = 0", "repeat: must be at least 1, not 0"),
        ("repeat = 2.0", "repeat: must be a whole number, not 2.0"),
        (f"repeat = 0x{'f' * 5000}", "repeat: must be at most 1000, not a number beyond 64 bits"),
        ("devices = 'rpc:1'", "devices: 'rpc:1': llama.cpp splits over 2 to 15 devices"),
        ("devices = 'rpc:16'", "devices: 'rpc:16': llama.cpp splits over 2 to 15 devices"),
        ("devices = 'gpu'", "devices: 'gpu' names no devices: write auto, cpu or rpc:3"),
        ("workloads = []", "workloads: an empty list"),
        ("workloads = 'tg128'", "workloads: must be a list, not 'tg128'"),
        ("workloads = ['tg128', 'xx9']", "workloads[1]: 'xx9' is no workload"),
        ("workloads = [128]", "workloads[0]: 128 is no workload"),
        ("workloads = ['tg128', 'tg128 x1']", "workloads: tg128 stands here twice"),
        ("workloads = ['tg8 x1,2', 'tg8@d0,1k']", "workloads: tg8 stands here twice | leave it out of one of the two"),
        ("workloads = ['pp8', 'tg8 x2,2']", "workloads[1]: 'tg8 x2,2': tg8 x2 stands here twice"),
        ("workloads = ['tg8@d0,1m']", "workloads[0]: 'tg8@d0,1m' is no workload: write pp512"),
        ("flags = 3", "flags: must be a table, not 3"),
        ("flags.ctx-size = {}", "flags.ctx-size: a table is no value of a flag"),
        ("flags.ctx-size = []", "flags.ctx-size: an empty list"),
        ("flags.ctx-size = 2024-01-01", "flags.ctx-size: 2024-01-01 is no value of a flag"),
        ("flags.ctx-size = [[1]]", "flags.ctx-size: a list is no value of a flag"),
        ("flags.ctx-size = [true]", "flags.ctx-size: true is no value of a flag"),
        ("flags.ctx-size = inf", "flags.ctx-size: no number for a flag: inf"),
        ("flags.ctx-size = nan", "flags.ctx-size: no number for a flag: nan"),
        ("flags.ctx-size = 99999999999999999999", "no number for a flag: a number beyond 64 bits"),
        (r'flags.grammar = "a\u0000b"', "flags.grammar: a NUL character"),
        (r'flags."\u001b[2J" = {}', r"flags.'\x1b[2J': a table is no value"),
    ],
    ids=lambda text: text[:30],
)
def test_a_bad_setting_is_refused_under_its_file_and_key(folder, text, problem):
    write(folder, {"sweep.toml": text if text.startswith("model ") else f'model = "demo:k3"\n{text}'})
    shown = problem_of(folder)
    assert shown.startswith("placements/sweep.toml: ")
    assert problem in shown


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("abut = 'x'", "abut: unknown key | did you mean about?"),
        ("n-cpu-moe = 4", "n-cpu-moe: unknown key | known keys: about, build, flags, env, matrix"),
        ("model = 'x'", "model: unknown key"),
        ("bild = 'mmq'", "bild: unknown key | did you mean build?"),
        ("build = ''", "build: an empty text"),
        ("build = 1", "build: must be text in quotes, not 1"),
        ("about = 1", "about: must be text in quotes, not 1"),
        ("env.X = 1", "env.X: an environment variable is text, not 1 | put the value in quotes"),
        ("env.'A=B' = 'x'", "env.'A=B': no name of an environment variable"),
        ("env.'' = 'x'", "no name of an environment variable"),
        (r'env.X = "a\u0000b"', "env.X: a NUL character"),
        ("env.LLAMA_ARG_N_CPU_MOE = '4'", "write the flag itself under [flags]"),
        ("env.CUDA_VISIBLE_DEVICES = '0,1'", 'choose devices by a flag: device = "CUDA0,CUDA2"'),
        ("env.LD_PRELOAD = 'x.so'", "make or register another build"),
        ("env.XDG_CONFIG_HOME = '/tmp'", "env.XDG_CONFIG_HOME: not yours to set"),
    ],
    ids=lambda text: text[:30],
)
def test_a_bad_placement_is_refused_under_its_file_and_key(folder, text, problem):
    write(folder, {"even.toml": text})
    shown = problem_of(folder)
    assert shown.startswith("placements/even.toml: ")
    assert problem in shown


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        ({"devices": "rpc:99"}, "--devices: 'rpc:99': llama.cpp splits over 2 to 15 devices"),
        ({"repeat": 0}, "--repeat: must be at least 1, not 0"),
        ({"workloads": ("tg128", "tg1")}, "--workloads: 'tg1': a rate needs at least two generated tokens"),
        ({"model": ""}, "--model: an empty text"),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_bad_option_is_refused_under_its_name(folder, overrides, problem):
    assert problem in problem_of(folder, **overrides)


def test_a_folder_without_placements_is_refused(folder):
    (folder / "even.toml").unlink()
    assert problem_of(folder).startswith("placements: no placements here")


@pytest.mark.parametrize("name", ["nowhere", "nowhere.toml", "notes.txt", "placements/sweep.toml", "x" * 300])
def test_a_path_that_is_no_experiment_is_refused_by_its_name(folder, name):
    Path("notes.txt").write_text("")
    (problem,) = problems_of(Path(name))
    assert problem.message.startswith(name)
    assert problem.hint == "give a folder of placements, or one placement's TOML file"


def test_a_file_name_that_would_disturb_the_terminal_is_refused_and_shown_escaped(folder):
    write(folder, {"\x1b[2J\n.toml": ""})
    shown = problem_of(folder)
    assert "unprintable characters in the placement's name" in shown
    assert shown.isprintable()


# All at once

FAULTS = {
    "unknown key": "colour = 'red'",
    "wrong type": "about = 3",
    "reserved variable": "env.LD_PRELOAD = 'x'",
    "empty list": "flags.tensor-split = []",
    "no TOML": "about =",
    "not UTF-8": b"about = '\xff'",
    "bad matrix": "matrix.x = 1",
}


@given(faults=st.lists(st.sampled_from(sorted(FAULTS)), max_size=6), sweep=st.booleans(), option=st.booleans())
def test_every_fault_of_every_file_is_reported_at_once(tmp_path_factory, faults, sweep, option):
    files = {f"p{i}.toml": FAULTS[fault] for i, fault in enumerate(faults)} | {"sound.toml": ""}
    files["sweep.toml"] = 'model = "demo:k3"' + "\nprice_per_hour = -1" * sweep
    folder = write(tmp_path_factory.mktemp("faults"), files)
    overrides = Overrides(repeat=0) if option else Overrides()
    places = [f"{folder}/p{i}.toml" for i in range(len(faults))] + [f"{folder}/sweep.toml"] * sweep
    places += ["--repeat"] * option
    if not places:
        assert len(load_experiment(folder, overrides).placements) == 1
        return
    found = problems_of(folder, **vars(overrides))
    assert sorted(problem.message.split(": ")[0] for problem in found) == sorted(places)


# Whatever stands in the files

scalars = (
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.dates()
    | st.sampled_from(["demo:k3", "auto", "rpc:3", "tg128", "pp512 x2", "LD_PRELOAD", "~x/y", "~\0"])
)
keys = st.text(max_size=8) | st.sampled_from(
    [
        *("model", "devices", "build", "workloads", "repeat", "price_per_hour", "flags"),
        *("about", "env", "matrix", "env.X", "LD_PRELOAD", "[key]"),
    ]
)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=4), max_leaves=12
)
documents = st.dictionaries(keys, values, max_size=5)


def dump(value: object) -> str:
    """A TOML value; every table inline."""
    match value:
        case dict():
            return "{" + ", ".join(f"{dump(key)} = {dump(inner)}" for key, inner in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(dump, value)) + "]"
        case str():
            return '"' + "".join(f"\\U{ord(c):08x}" for c in value) + '"'
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def load_or_be_told(folder: Path, overrides: Overrides) -> None:
    """Load, or get problems that a person can read."""
    try:
        load_experiment(folder, overrides)
    except ConfigErrors as errors:
        assert errors.problems
        for problem in errors.problems:
            assert problem.message.isprintable()
            assert problem.hint.isprintable()


@given(sweep=documents, placement=documents, only=st.none() | st.text(max_size=4), model=st.none() | st.text())
def test_any_toml_is_an_experiment_or_a_readable_problem(tmp_path_factory, sweep, placement, only, model):
    files = {
        name: "\n".join(f"{dump(key)} = {dump(value)}" for key, value in document.items())
        for name, document in {"sweep.toml": sweep, "p.toml": placement}.items()
    }
    load_or_be_told(write(tmp_path_factory.mktemp("any"), files), Overrides(only=only, model=model))


@given(content=st.binary(max_size=40) | st.text("[]{}=\"'.,#\n\\ a1-", max_size=40).map(str.encode))
def test_any_bytes_are_an_experiment_or_a_readable_problem(tmp_path_factory, content):
    folder = write(tmp_path_factory.mktemp("bytes"), {"sweep.toml": content, "p.toml": content})
    load_or_be_told(folder, Overrides(model="demo:k3"))


def test_a_ladder_is_read_as_its_levels_from_the_file_and_the_command_line(folder):
    write(folder, {"sweep.toml": 'model = "demo:k3"\nworkloads = ["pp8", "tg16 x1,2"]', "a.toml": ""})
    settings = load_experiment(folder, Overrides()).settings
    assert settings.workloads == (Workload("pp", 8), Workload("tg", 16), Workload("tg", 16, streams=2))
    assert settings.levels == {Workload("tg", 16), Workload("tg", 16, streams=2)}
    settings = load_experiment(folder, Overrides(workloads=("tg4@d0,1k", "pp4"))).settings
    assert settings.workloads == (Workload("tg", 4), Workload("tg", 4, 1024), Workload("pp", 4))
    assert settings.levels == {Workload("tg", 4), Workload("tg", 4, 1024)}
