"""From the paths of a spec to the sorted list of its files."""

from __future__ import annotations

import glob
import os

from mining.corpus.packages import is_package_path, package_catalogues, prefer_po
from mining.corpus.spec import BitextSpec, InputFile, RowRules, layout
from mining.errors import UsageError
from mining.shown import safe


def list_inputs(spec: RowRules) -> list[InputFile]:
    """The files of a spec, globs and packages expanded, each file once, sorted by name.

    A bitext in plain text is one InputFile, of two line-aligned files. Raises UsageError if a path
    names nothing, a folder or an unreadable file, or if the settings do not fit the format of a
    file.
    """
    groups = [_expand(spec, path) for path in spec.paths]
    # A file is named once, however many globs match it, or its rows would come twice with the same
    # ids.
    files = list({os.path.realpath(file): file for group in groups for file in group}.values())
    formats = {file: layout(spec, file).format for file in files}
    if isinstance(spec, BitextSpec) and "text" in formats.values():
        return [_aligned_pair(groups)]
    if spec.columns is not None and "tsv" not in formats.values():
        raise UsageError(
            f"{files[0]}: columns are declared, but no file is TSV: leave out `columns`, or set format: tsv"
        )
    catalogues = [file for file in files if formats[file] == "gettext"]
    kept = set(prefer_po(catalogues))
    files = [file for file in files if formats[file] != "gettext" or file in kept]
    parent = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    named = [InputFile(path=file, name=_display_name(file, parent)) for file in files]
    return sorted(named, key=lambda file: file.name)


def _display_name(file: str, parent: str) -> str:
    # Ids and reports are made of it: bytes that are no UTF-8 and control characters are escapes in
    # it.
    return safe(os.path.relpath(os.path.abspath(file), parent).replace(os.sep, "/"))


def _expand(spec: RowRules, path: str) -> list[str]:
    if is_package_path(path):
        if spec.format not in ("auto", "gettext"):
            raise UsageError(f"{path}: is gettext, not {spec.format}: leave out `format`")
        return package_catalogues(path)
    path = os.path.expanduser(path)
    if os.path.lexists(path) or not glob.has_magic(path):
        _check_file(path)
        return [path]
    files = sorted(file for file in glob.glob(path, recursive=True) if not os.path.isdir(file))
    if not files:
        raise UsageError(f"{path}: no file matches: correct the glob (relative paths start from {os.getcwd()})")
    for file in files:
        _check_file(file)
    return files


def _check_file(path: str) -> None:
    if os.path.isdir(path):
        raise UsageError(f"{path}: is a folder: name its files, for example {os.path.join(path, '*.txt')}")
    if not os.path.exists(path):
        raise UsageError(f"{path}: no such file: correct the path (relative paths start from {os.getcwd()})")
    if not os.path.isfile(path):
        raise UsageError(f"{path}: is not a regular file, and input is read more than once: write it to a file")
    if not os.access(path, os.R_OK):
        raise UsageError(f"{path}: cannot be read: permission denied")


def _aligned_pair(groups: list[list[str]]) -> InputFile:
    if len(groups) != 2 or any(len(group) != 1 for group in groups):
        found = ", ".join(file for group in groups for file in group)
        raise UsageError(
            "a bitext in plain text is exactly two line-aligned files, path: [source file, target file]; "
            f"found: {found[:500]}"
        )
    (source,), (target,) = groups
    if os.path.abspath(source) == os.path.abspath(target):
        raise UsageError(f"{source}: is named as both sides of the bitext: name two different files")
    return InputFile(path=source, name=safe(os.path.basename(source)), target_path=target)
