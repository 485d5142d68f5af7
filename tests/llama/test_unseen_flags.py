from __future__ import annotations

import subprocess
from pathlib import Path

from k3prof.core.machine.rig_checks import HiddenSettings
from k3prof.llama.unseen_flags import find_hidden_settings


def write_config(folder: Path) -> Path:
    file = folder / "llama.cpp" / "config.ini"
    file.parent.mkdir(parents=True)
    file.write_text("[*]\nthreads = 3\n")
    return file


def test_nothing_is_found_where_nothing_is_set(tmp_path):
    assert find_hidden_settings({"HOME": str(tmp_path)}, tmp_path) == HiddenSettings()


def test_the_files_and_variables_that_llama_cpp_obeys_are_found(tmp_path):
    system, home = write_config(tmp_path / "etc"), write_config(tmp_path / "home" / ".config")
    env = {"HOME": str(tmp_path / "home"), "LLAMA_ARG_THREADS": "3", "LLAMA_ARG_MODEL": "m", "LLAMA_CACHE": "/c"}
    assert find_hidden_settings(env, tmp_path) == HiddenSettings(
        str(system), str(home), ("LLAMA_ARG_MODEL", "LLAMA_ARG_THREADS")
    )


def test_a_configuration_folder_of_its_own_takes_the_place_of_the_usual_one(tmp_path):
    write_config(tmp_path / "home" / ".config")
    elsewhere = write_config(tmp_path / "elsewhere")
    env = {"HOME": str(tmp_path / "home"), "XDG_CONFIG_HOME": str(tmp_path / "elsewhere")}
    assert find_hidden_settings(env, tmp_path).user_file == str(elsewhere)


def test_the_real_server_obeys_the_file_that_is_found(build, tmp_path):
    file = write_config(tmp_path)
    env = {"XDG_CONFIG_HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    said = subprocess.run(
        [f"{build.bin_dir}/llama-server", "--list-devices"],
        env=env,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert find_hidden_settings(env, tmp_path / "no root").user_file == str(file)
    assert f"using config file: {file}" in said.stderr + said.stdout
