"""`copytree`, with the semantics of `shutil.copytree`.

Everything that `shutil` decides in Python is decided here, before the native copy: what exists,
what `ignore` leaves out, and afterwards which problems are errors.
"""

import errno as errors
import os
import shutil
import stat
import sys
import warnings
from dataclasses import dataclass
from typing import Any, Callable, Iterable, NamedTuple, Optional, Sequence, Union

from . import _haul

_Path = Union[str, bytes, "os.PathLike[Any]"]
_Name = Union[str, bytes]
_Ignore = Callable[[Any, list[Any]], Iterable[Any]]
_Problem = tuple[str, list[bytes], Optional[int], str, bool]
_Triple = tuple[Any, Any, str]
_Identity = tuple[int, int]

# As for the command.
_JOBS_MAX = 1024

# Kinds of problems with a link that leads nowhere.
_UNREACHABLE = ("cannot-stat", "cannot-open")

# Kinds of problems with one extended attribute, whose first name is that of the attribute.
_ATTRIBUTE = ("getting-attribute", "setting-attribute")

# The original, even if a program puts haul's in its place.
_shutil_copytree = shutil.copytree


class Progress(NamedTuple):
    """What a copy has done so far."""

    files: int
    """Regular files done."""
    directories: int
    """Directories done."""
    symlinks: int
    """Symbolic links done."""
    bytes: int
    """Bytes of regular files done."""
    discovered: int
    """Entries seen so far, whatever became of them. Grows while directories are listed."""
    finished: int
    """Entries done so far, copied or not."""


@dataclass
class _Request:
    source: bytes
    target: bytes
    symlinks: bool
    jobs: Optional[int]
    reflink: str
    verify: bool
    exclude: list[str]
    names: Optional[bytes]


def copytree(
    src: Any,
    dst: Any,
    symlinks: bool = False,
    ignore: Optional[_Ignore] = None,
    copy_function: Optional[Callable[[Any, Any], object]] = None,
    ignore_dangling_symlinks: bool = False,
    dirs_exist_ok: bool = False,
    *,
    jobs: Optional[int] = None,
    reflink: str = "auto",
    verify: bool = False,
    exclude: Sequence[str] = (),
    progress: Optional[Callable[[Progress], object]] = None,
) -> Any:
    """Copies a directory tree and returns `dst`, as `shutil.copytree` does.

    `jobs` is the number of threads; by default haul decides. `reflink` says whether files may
    share blocks with their sources: "auto", "always" or "never". With `verify` each file is read
    again from its device and compared. `exclude` has rules as in a .gitignore file. `progress` is
    called in the calling thread, at most ten times per second and once at the end.

    Raises `shutil.Error` with a list of `(src, dst, why)`, `FileExistsError`, or what `ignore`
    or `progress` raise. With a `copy_function` other than `shutil.copy2` the whole call goes to
    `shutil.copytree`, and haul's own options raise a `ValueError`.
    """
    if copy_function is not None and copy_function is not shutil.copy2:
        if jobs is not None or reflink != "auto" or verify or exclude or progress is not None:
            raise ValueError("copy_function can't be combined with haul's own options")
        return _shutil_copytree(
            src, dst, symlinks, ignore, copy_function, ignore_dangling_symlinks, dirs_exist_ok
        )
    rules = check_options(jobs, reflink, verify, exclude, progress)
    sys.audit("shutil.copytree", src, dst)
    source, target = os.fspath(src), os.fspath(dst)
    with os.scandir(source):
        pass  # Raises if the source is missing or not a directory, before anything is made.
    names = None
    ignores_dangling = ignore_dangling_symlinks and not symlinks
    failed: list[_Triple] = []
    if ignore is not None or _is_inside(target, source):
        listing = _Listing(bool(symlinks), ignore, _haul.Rules(_encoded(rules)), ignores_dangling)
        names = listing.names_below(source, target)
        failed = listing.failed
    os.makedirs(target, exist_ok=dirs_exist_ok)
    request = _Request(
        source=os.fsencode(source),
        target=os.fsencode(target),
        symlinks=bool(symlinks),
        jobs=jobs,
        reflink=reflink,
        verify=bool(verify),
        exclude=rules,
        names=names,
    )
    problems = _haul.copy(request, progress_call(progress))
    problems = [problem for problem in problems if not _is_passed_over(problem)]
    raise_errors(problems, source, target, ignores_dangling, failed)
    return dst


def check_options(
    jobs: Optional[int],
    reflink: str,
    verify: bool,
    exclude: Sequence[str],
    progress: Optional[Callable[..., object]],
) -> list[str]:
    """Returns the rules. Raises what is wrong with options, before anything is made."""
    if isinstance(exclude, (str, bytes)):
        raise TypeError("exclude must be a sequence of rules, not one string")
    rules = list(exclude)
    if not all(isinstance(rule, str) for rule in rules):
        raise TypeError("the rules of exclude must be strings")
    _haul.Rules(_encoded(rules))  # Raises for the first that is invalid.
    if jobs is not None and not isinstance(jobs, int):
        raise TypeError(f"jobs must be an integer, not {jobs!r}")
    if jobs is not None and not 1 <= jobs <= _JOBS_MAX:
        raise ValueError(f"jobs must be from 1 to {_JOBS_MAX}, not {jobs}")
    if progress is not None and not callable(progress):
        raise TypeError("progress must be callable")
    if reflink not in ("auto", "always", "never"):
        raise ValueError(f"reflink must be 'auto', 'always' or 'never', not {reflink!r}")
    if verify and reflink == "always":
        raise ValueError("verify can't be combined with reflink='always'")
    return rules


def _encoded(rules: list[str]) -> list[bytes]:
    return [rule.encode("utf-8", "surrogateescape") for rule in rules]


def progress_call(
    progress: Optional[Callable[[Progress], object]],
) -> Optional[Callable[[int, int, int, int, int, int], object]]:
    """Returns a function that the native module can call with the counts."""
    if progress is None:
        return None
    call = progress
    return lambda *counts: call(Progress(*counts))


def _is_inside(target: _Name, source: _Name) -> bool:
    """True if the target is below the source: it must then be left out of the listing."""
    outer = os.fsencode(os.path.realpath(source))
    inner = os.fsencode(os.path.realpath(target))
    return inner.startswith(outer.rstrip(b"/") + b"/")


class _Listing:
    """The names that `ignore` leaves, for a copy that looks at nothing else.

    Directories are visited in the order of `shutil`, with the same arguments for `ignore`. One
    that can't be listed, or whose call of `ignore` fails, is left out and becomes an error: by its
    name alone it would be copied as an empty directory.
    """

    def __init__(
        self, symlinks: bool, ignore: Optional[_Ignore], rules: "_haul.Rules", ignores_dangling: bool
    ) -> None:
        self.symlinks = symlinks
        self.ignore = ignore
        self.rules = rules
        self.ignores_dangling = ignores_dangling
        self.names: list[bytes] = []
        self.failed: list[_Triple] = []

    def names_below(self, source: Any, target: Any) -> bytes:
        """Returns the names below `source`, each with a NUL at its end."""
        there = os.stat(source)
        self._visit(source, target, b"", frozenset([(there.st_dev, there.st_ino)]))
        return b"".join(name + b"\0" for name in self.names)

    def _visit(self, source: Any, target: Any, below: bytes, above: frozenset[_Identity]) -> None:
        with os.scandir(source) as listing:
            entries = list(listing)
        ignored: Any = ()
        if self.ignore is not None:
            ignored = self.ignore(os.fspath(source), [entry.name for entry in entries])
        if below:
            self.names.append(below)
        for entry in entries:
            if entry.name in ignored:
                continue
            src, dst = os.path.join(source, entry.name), os.path.join(target, entry.name)
            try:
                self._add(entry, src, dst, os.path.join(below, os.fsencode(entry.name)), above)
            except shutil.Error as error:
                self.failed.extend(error.args[0])
            except OSError as error:
                if not (self.ignores_dangling and _is_dangling(src)):
                    self.failed.append((src, dst, str(error)))

    def _add(
        self,
        entry: "os.DirEntry[Any]",
        src: Any,
        dst: Any,
        name: bytes,
        above: frozenset[_Identity],
    ) -> None:
        """Adds an entry, and what is below it."""
        if self.rules.exclude(name, entry.is_dir(follow_symlinks=False)):
            return
        if entry.is_dir(follow_symlinks=not self.symlinks):
            there = entry.stat()
            identity = (there.st_dev, there.st_ino)
            # A link may lead to a directory that contains it, without end. The copy reports that.
            # Where a directory is mounted again below itself, there is an end.
            if self.symlinks or identity not in above:
                self._visit(src, dst, name, above | {identity})
                return
        self.names.append(name)


def raise_errors(
    problems: list[_Problem],
    source: _Name,
    target: _Name,
    ignores_dangling: bool,
    failed: Sequence[_Triple] = (),
) -> None:
    """Raises `failed` and all errors as one `shutil.Error`. Warnings become `RuntimeWarning`s."""
    triples = [*failed]
    for problem in problems:
        if problem[-1]:
            triple = _triple(problem, source, target)
            is_unreachable = problem[0] in _UNREACHABLE
            if not (ignores_dangling and is_unreachable and _is_dangling(triple[0])):
                triples.append(triple)
    try:
        for *_, text, is_error in problems:
            if not is_error:
                warnings.warn(text, RuntimeWarning, stacklevel=3)
    finally:
        # Even if a filter has made a warning an exception.
        if triples:
            raise shutil.Error(triples)


def _is_passed_over(problem: _Problem) -> bool:
    """True if `shutil.copystat` passes over it too: attributes that the file system refuses."""
    kind, _, errno, _, _ = problem
    return kind == "xattrs-lost" or (kind in _ATTRIBUTE and errno == errors.EINVAL)


def _is_dangling(src: _Name) -> bool:
    return os.path.islink(src) and not os.path.exists(src)


def _triple(problem: _Problem, source: _Name, target: _Name) -> _Triple:
    """Returns a problem as `shutil.Error` has it, with paths of the caller's type."""
    kind, names, errno, text, _ = problem
    names = names[1:] if kind in _ATTRIBUTE else names
    below = _below(names, os.fsencode(source), os.fsencode(target))
    src, dst = _join(source, below), _join(target, below)
    named = _like(names[0], source) if names else src
    why = _why(kind, src, dst, named)
    if why is None and errno is not None:
        why = str(OSError(errno, os.strerror(errno), named))
    return src, dst, text if why is None else why


def _why(kind: str, src: _Name, dst: _Name, named: _Name) -> Optional[str]:
    """Returns the text of `shutil` for a kind of problem, if it has one."""
    if kind == "special-refused":
        return special(named)
    if kind == "same-file":
        return f"{src!r} and {dst!r} are the same file"
    if kind == "into-itself":
        return f"Cannot copy a directory {src!r} into itself {dst!r}."
    failure = {
        "cyclic-link": (errors.ELOOP, src),
        "directory-onto-other": (errors.EEXIST, dst),
        "other-onto-directory": (errors.EISDIR, dst),
    }.get(kind)
    if failure is None:
        return None
    return str(OSError(failure[0], os.strerror(failure[0]), failure[1]))


def special(path: _Name) -> str:
    """Says what a FIFO, socket or device is."""
    # Like shutil, which formats the path as it is.
    name = path if isinstance(path, str) else repr(path)
    try:
        mode = os.stat(path).st_mode
    except OSError:
        mode = 0
    if stat.S_ISFIFO(mode):
        return f"`{name}` is a named pipe"
    return f"`{name}` is a {'socket' if stat.S_ISSOCK(mode) else 'special file'}"


def _below(names: list[bytes], source: bytes, target: bytes) -> bytes:
    """Returns the path of a problem below source and target. One may be inside the other."""
    for top in sorted((source, target), key=len, reverse=True):
        for name in names:
            folder = top.rstrip(b"/")
            if name.rstrip(b"/") == folder or name.startswith(folder + b"/"):
                return name[len(folder) :].lstrip(b"/")
    return b""


def _join(top: _Name, below: bytes) -> _Name:
    if not below:
        return top
    name: Any = _like(below, top)
    joined: _Name = os.path.join(top, name)
    return joined


def _like(name: bytes, top: _Name) -> _Name:
    return name if isinstance(top, bytes) else os.fsdecode(name)
