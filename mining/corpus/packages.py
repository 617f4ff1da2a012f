"""gettext catalogues inside installed Python packages, found without importing the package."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Iterable, Iterator

from mining.corpus.spec import GETTEXT_PREFIX, without_compression
from mining.errors import UsageError

_NAME = re.compile(r"gettext:([A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?):([A-Za-z0-9_@.-]+)")


def is_package_path(path: str) -> bool:
    """Whether a path of a spec names a package: ``gettext:PACKAGE:LANG``."""
    return path.startswith(GETTEXT_PREFIX)


def package_catalogues(path: str) -> list[str]:
    """The catalogue files meant by ``gettext:PACKAGE:LANG``, sorted; of a .po and .mo of one name
    only the .po.

    PACKAGE is a module (``django``, ``plone.app.locales``) or the name of a distribution
    (``djangorestframework``); LANG is the folder above ``LC_MESSAGES``, compared without case and
    with ``-`` equal to ``_``. Raises UsageError if the package is not installed, or has no
    catalogue of that language (naming those it has).
    """
    parsed = _NAME.fullmatch(path)
    if parsed is None:
        raise UsageError(f"{path}: expected gettext:PACKAGE:LANG, for example gettext:django:de")
    package, language = parsed.groups()
    folders = _module_folders(package)
    by_language = _by_language(_walk(folders)) or _by_language(_distribution_files(package, bool(folders)))
    if not by_language:
        raise UsageError(f"{path}: the package '{package}' has no gettext catalogues (LANG/LC_MESSAGES/*.po or *.mo)")
    files = [file for name in by_language if _folded(name) == _folded(language) for file in by_language[name]]
    if not files:
        languages = ", ".join(sorted(by_language))
        raise UsageError(f"{path}: '{package}' has no catalogue in '{language}'; its languages are: {languages}")
    return sorted(prefer_po(files))


def prefer_po(files: Iterable[str]) -> list[str]:
    """The files without each .mo whose .po, of the same folder and stem, is there too: it says
    more."""
    files = list(files)
    stems = {stem for stem, extension in map(_split, files) if extension == ".po"}
    return [file for file in files if _split(file)[1] != ".mo" or _split(file)[0] not in stems]


def _split(file: str) -> tuple[str, str]:
    stem, extension = os.path.splitext(without_compression(file))
    return stem, extension.lower()


def _folded(language: str) -> str:
    return language.lower().replace("-", "_")


def _module_folders(package: str) -> list[str]:
    """The folders of a module. Only its top level goes through the import system, since more would
    import parents."""
    top, *rest = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    roots = list(spec.submodule_search_locations or []) if spec else []
    folders = [os.path.join(root, *rest) for root in roots]
    return [folder for folder in folders if os.path.isdir(folder)]


def _walk(folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for parent, _, names in os.walk(folder):
            yield from (os.path.join(parent, name) for name in names)


def _distribution_files(package: str, is_module: bool) -> Iterator[str]:
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        if is_module:
            return
        raise UsageError(f"gettext: the Python package '{package}' is not installed: pip install {package}") from None
    for file in distribution.files or []:
        yield str(distribution.locate_file(file))


def _by_language(files: Iterable[str]) -> dict[str, list[str]]:
    languages: dict[str, list[str]] = {}
    for file in files:
        folder = os.path.dirname(file)
        is_catalogue = _split(file)[1] in (".po", ".mo") and os.path.basename(folder) == "LC_MESSAGES"
        if is_catalogue and os.path.isfile(file):
            languages.setdefault(os.path.basename(os.path.dirname(folder)), []).append(file)
    return languages
