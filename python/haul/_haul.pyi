"""The native half of the package."""

from typing import Callable, Optional, Protocol

__version__: str

class _RequestLike(Protocol):
    source: bytes
    target: bytes
    symlinks: bool
    jobs: Optional[int]
    reflink: str
    verify: bool
    exclude: list[str]
    names: Optional[bytes]

def copy(
    request: _RequestLike,
    progress: Optional[Callable[[int, int, int, int, int, int], object]],
) -> list[tuple[str, list[bytes], Optional[int], str, bool]]: ...
