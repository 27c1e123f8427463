"""The native half of the package."""

from typing import Callable, Optional, Protocol

__version__: str

_Problem = tuple[str, list[bytes], Optional[int], str, bool]
_Progress = Optional[Callable[[int, int, int, int, int, int], object]]

class _Request(Protocol):
    source: bytes
    target: bytes
    symlinks: bool
    jobs: Optional[int]
    reflink: str
    verify: bool
    exclude: list[str]
    names: Optional[bytes]

class _SyncRequest(Protocol):
    source: bytes
    target: bytes
    delete: bool
    checksum: bool
    dry_run: bool
    jobs: Optional[int]
    reflink: str
    verify: bool
    exclude: list[str]

class _HashRequest(Protocol):
    path: bytes
    algorithm: str
    follow_symlinks: bool
    jobs: Optional[int]
    exclude: list[str]

class Rules:
    def __init__(self, rules: list[bytes]) -> None: ...
    def exclude(self, path: bytes, is_directory: bool) -> bool: ...

def copy(request: _Request, progress: _Progress) -> list[_Problem]: ...
def sync(
    request: _SyncRequest, progress: _Progress
) -> tuple[Optional[tuple[int, int, int, int, int, int, int]], list[_Problem]]: ...
def hash_tree(
    request: _HashRequest, progress: _Progress
) -> tuple[list[tuple[bytes, Optional[int], str]], list[_Problem]]: ...
