"""Registries: things of one kind under their names, each in a file of its own.

A registry stands for a package. Every module of that package whose name has no leading underscore
is one entry: the name of the module is the name users write. The module is imported when its entry
is asked for, and registers it::

    @NETWORKS.register("lstm")
    class LstmNetwork(Network): ...

So a new entry is a new file, and nothing else has to name it.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Generic, TypeVar

T = TypeVar("T")


class Registry(Generic[T]):
    """The entries of one kind (``margin``, ``network``, …) in the modules of `package`."""

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self.package = kind, package
        self._entries: dict[str, T] = {}

    def names(self) -> tuple[str, ...]:
        """The names of all entries, in alphabetical order. Nothing is imported but the package."""
        found = pkgutil.iter_modules(import_module(self.package).__path__)
        return tuple(sorted(module.name for module in found if not module.name.startswith("_")))

    def register(self, name: str) -> Callable[[T], T]:
        """Decorator that registers an entry. Raises ValueError where the name is taken or not that
        of the module."""

        def add(entry: T) -> T:
            module = getattr(entry, "__module__", f"{self.package}.{name}")
            if module != f"{self.package}.{name}":
                raise ValueError(f"the {self.kind} '{name}' belongs into the module {self.package}.{name}")
            if name in self._entries:
                raise ValueError(f"there are two of the {self.kind} '{name}'")
            self._entries[name] = entry
            return entry

        return add

    def __getitem__(self, name: str) -> T:
        """The entry of this name; raises ValueError, with the names there are, when there is
        none."""
        if name not in self._entries:
            self.check(name)
            import_module(f"{self.package}.{name}")
        return self._entries[name]

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def check(self, name: str) -> str:
        """`name` itself; raises ValueError, with the names there are, when there is no entry of
        this name."""
        names = self.names()
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            mend = f"did you mean '{near[0]}'?" if near else f"use one of {', '.join(names)}"
            raise ValueError(f"unknown {self.kind} '{name}': {mend}")
        return name
