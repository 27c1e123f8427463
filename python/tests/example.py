"""Uses everything that is public. `mypy --strict` checks it against the installed package."""

import os
import pathlib
import shutil
from typing import Optional

import haul


def report(now: haul.Progress) -> None:
    print(f"{now.finished} of {now.discovered} entries, {now.bytes} bytes")


def clone(worktree: pathlib.Path, copy: str, jobs: Optional[int] = None) -> str:
    target: str = haul.copytree(
        worktree,
        copy,
        symlinks=True,
        ignore=shutil.ignore_patterns("*.tmp"),
        jobs=jobs,
        reflink="always" if os.environ.get("REFLINK") else "auto",
        exclude=["/target"],
        progress=report,
    )
    return target


def back_up(source: str, target: bytes) -> int:
    return haul.sync(source, target, delete=True, checksum=True, progress=report).deleted


def digests(top: str) -> list[str]:
    return [file.digest for file in haul.hash_tree(top, algorithm="sha256")]


def version() -> str:
    return haul.__version__
