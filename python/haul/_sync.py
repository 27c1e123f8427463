"""`sync` and `hash_tree`."""

import os
import shutil
import stat
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, Sequence, Union

from . import _haul
from ._copytree import Progress, check_options, progress_call, raise_errors, special

_Path = Union[str, bytes, "os.PathLike[Any]"]


class SyncSummary(NamedTuple):
    """What a sync did, or would do."""

    files: int
    """Regular files copied."""
    directories: int
    """Directories entered."""
    symlinks: int
    """Symbolic links made."""
    bytes: int
    """Bytes of the files copied."""
    unchanged: int
    """Entries that were as in the source."""
    mended: int
    """Entries that got attributes only."""
    deleted: int
    """Entries deleted."""


class FileHash(NamedTuple):
    """A file and its hash."""

    path: Any
    """Path, of the type that was given."""
    size: Optional[int]
    """Length in bytes, if it is known."""
    digest: str
    """Hash in hexadecimal."""


@dataclass
class _SyncRequest:
    source: bytes
    target: bytes
    delete: bool
    checksum: bool
    dry_run: bool
    jobs: Optional[int]
    reflink: str
    verify: bool
    exclude: list[str]


@dataclass
class _HashRequest:
    path: bytes
    algorithm: str
    follow_symlinks: bool
    jobs: Optional[int]
    exclude: list[str]


def sync(
    src: _Path,
    dst: _Path,
    *,
    delete: bool = False,
    checksum: bool = False,
    dry_run: bool = False,
    jobs: Optional[int] = None,
    reflink: str = "auto",
    verify: bool = False,
    exclude: Sequence[str] = (),
    progress: Optional[Callable[[Progress], object]] = None,
) -> SyncSummary:
    """Makes the directory `dst` equal to `src`, with the rules of the command `haul sync`.

    Copies what is missing or differs by size and modification time (with `checksum` by content),
    with all attributes. `delete` deletes what only `dst` has, once everything else has succeeded.
    `dry_run` changes nothing. The other arguments are those of `copytree`.

    Raises `shutil.Error` with a list of `(src, dst, why)`, or `ValueError` for what `haul sync`
    refuses, such as a directory inside the other.
    """
    rules = check_options(jobs, reflink, verify, exclude, progress)
    source, target = os.fspath(src), os.fspath(dst)
    with os.scandir(source):
        pass  # Raises if the source is missing or not a directory.
    request = _SyncRequest(
        source=os.fsencode(source),
        target=os.fsencode(target),
        delete=bool(delete),
        checksum=bool(checksum),
        dry_run=bool(dry_run),
        jobs=jobs,
        reflink=reflink,
        verify=bool(verify),
        exclude=rules,
    )
    counts, problems = _haul.sync(request, progress_call(progress))
    raise_errors(problems, source, target, False)
    if counts is None:
        raise shutil.Error([(source, target, "not everything was copied")])
    return SyncSummary(*counts)


def hash_tree(
    path: _Path,
    *,
    algorithm: str = "blake3",
    follow_symlinks: bool = False,
    jobs: Optional[int] = None,
    exclude: Sequence[str] = (),
    progress: Optional[Callable[[Progress], object]] = None,
) -> list[FileHash]:
    """Returns the hash of each regular file at or below `path`, in the order of `pathlib`.

    `algorithm` is "blake3", "xxh128", "xxh64", "sha256" or "md5". Raises `OSError` if `path` is
    missing or a special file, and `shutil.Error` with a list of `(path, path, why)` if a file can't
    be read.
    """
    rules = check_options(jobs, "auto", False, exclude, progress)
    if not isinstance(algorithm, str):
        raise TypeError(f"algorithm must be a string, not {algorithm!r}")
    top = os.fspath(path)
    mode = os.stat(top).st_mode  # Raises if it is missing.
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
        raise shutil.SpecialFileError(special(top))  # Reading it might never end.
    request = _HashRequest(
        path=os.fsencode(top),
        algorithm=algorithm,
        follow_symlinks=bool(follow_symlinks),
        jobs=jobs,
        exclude=rules,
    )
    files, problems = _haul.hash_tree(request, progress_call(progress))
    raise_errors(problems, top, top, False)
    name: Callable[[bytes], Any] = bytes if isinstance(top, bytes) else os.fsdecode
    return [FileHash(name(path), size, digest) for path, size, digest in files]
