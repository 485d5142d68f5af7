"""The least of a build backend: pip asks a source archive for its metadata before it keeps it."""

from pathlib import Path


def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
    folder = Path(metadata_directory) / "llama_cpp_python-0.3.36.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: llama_cpp_python\nVersion: 0.3.36\n")
    return folder.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    raise NotImplementedError
