"""Copies file trees on all of the machine's processors.

>>> import haul
>>> haul.copytree("project", "worktree", symlinks=True, exclude=["/target"])  # doctest: +SKIP
'worktree'
"""

from ._copytree import Progress, copytree
from ._haul import __version__

__all__ = ["Progress", "__version__", "copytree"]
