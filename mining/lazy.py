"""Modules that are imported when something of them is used first.

Settings that stand beside mathematics can so be read for ``bitext --help`` without torch::

    if TYPE_CHECKING:
        import torch
    else:
        torch = lazy("torch")
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType


class _Lazy(ModuleType):
    def __getattr__(self, name: str) -> object:
        return getattr(import_module(self.__name__), name)


def lazy(name: str) -> ModuleType:
    """A stand-in for the module `name`; asking it for anything imports the module."""
    return _Lazy(name)
