"""Copies file trees on all of the machine's processors.

>>> import haul
>>> haul.copytree("project", "worktree", symlinks=True, exclude=["/target"])  # doctest: +SKIP
'worktree'
"""

from ._copytree import Progress, copytree
from ._haul import __version__
from ._sync import FileHash, SyncSummary, hash_tree, sync

__all__ = [
    "FileHash",
    "Progress",
    "SyncSummary",
    "__version__",
    "copytree",
    "hash_tree",
    "sync",
]
