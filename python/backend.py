"""Build backend: maturin, and the command `haul` beside the module.

maturin packs either a module or commands into a wheel, but also whatever is in a data directory.
So the command is built first, and put into `haul.data/scripts`.

An sdist has the whole workspace: the module and the command share the crates.

Environment variables:

    HAUL_WHEEL_PROFILE   cargo profile of both, `wheel` unless set
    HAUL_WHEEL_COMMAND   path of a `haul` that is already built
"""

import gzip
import io
import os
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import maturin

HERE = Path(__file__).resolve().parent
WORKSPACE = HERE.parent
DATA = HERE / "haul.data"

# What the sdist has of the workspace, and what is left out below that.
PARTS = ["Cargo.toml", "Cargo.lock", "LICENSE-APACHE", "LICENSE-MIT"]
PARTS += [".cargo", "crates", "dev", "python"]
LEFT_OUT = {"target", "haul.data", "__pycache__", ".git"}


def _profile():
    return os.environ.get("HAUL_WHEEL_PROFILE", "wheel")


def _build_command():
    built = os.environ.get("HAUL_WHEEL_COMMAND")
    if built is None:
        cargo = os.environ.get("CARGO", "cargo")
        arguments = ["--package", "haul-cli", "--bin", "haul", "--profile", _profile()]
        report = subprocess.run(
            [cargo, "build", *arguments, "--message-format", "json-render-diagnostics"],
            cwd=WORKSPACE,
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
        built = _executable(report)
    scripts = DATA / "scripts"
    scripts.mkdir(parents=True, exist_ok=True)
    shutil.copy2(built, scripts / "haul")


def _executable(report):
    """Returns the path of the program that cargo has built."""
    import json

    messages = (json.loads(line) for line in report.splitlines())
    return next(path for path in (message.get("executable") for message in messages) if path)


def _use_profile():
    arguments = os.environ.get("MATURIN_PEP517_ARGS", "")
    if "--profile" not in arguments:
        os.environ["MATURIN_PEP517_ARGS"] = f"{arguments} --profile {_profile()}".strip()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    _build_command()
    _use_profile()
    try:
        return maturin.build_wheel(wheel_directory, config_settings, metadata_directory)
    finally:
        shutil.rmtree(DATA)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    _build_command()
    _use_profile()
    try:
        return maturin.build_editable(wheel_directory, config_settings, metadata_directory)
    finally:
        shutil.rmtree(DATA)


def build_sdist(sdist_directory, config_settings=None):
    with tempfile.TemporaryDirectory() as folder:
        DATA.mkdir(exist_ok=True)
        try:
            info = maturin.prepare_metadata_for_build_wheel(folder, config_settings)
        finally:
            shutil.rmtree(DATA)
        metadata = (Path(folder) / info / "METADATA").read_bytes()
    name = info.removesuffix(".dist-info")
    path = Path(sdist_directory) / f"{name}.tar.gz"
    with open(path, "wb") as raw, gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            _add(archive, f"{name}/PKG-INFO", metadata)
            _add(archive, f"{name}/pyproject.toml", _top_project().encode())
            for file in _files():
                inside = f"{name}/{file.relative_to(WORKSPACE)}"
                _add(archive, inside, file.read_bytes(), file.stat().st_mode & 0o755)
    return path.name


def _top_project():
    """Returns the project file for the top of an sdist, where the crate is a directory below."""
    text = (HERE / "pyproject.toml").read_text()
    moved = {
        'backend-path = ["."]': 'backend-path = ["python"]',
        'readme = "README.md"': 'readme = "python/README.md"',
        "[tool.maturin]": '[tool.maturin]\nmanifest-path = "python/Cargo.toml"\n'
        'python-source = "python"',
        'data = "haul.data"': 'data = "python/haul.data"',
    }
    for old, new in moved.items():
        if old not in text:
            raise RuntimeError(f"pyproject.toml lacks {old}")
        text = text.replace(old, new)
    return text


def _files():
    for part in PARTS:
        top = WORKSPACE / part
        if top.is_file():
            yield top
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(set(folders) - LEFT_OUT)
            yield from (Path(folder, name) for name in sorted(names))


def _add(archive, name, content, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))
