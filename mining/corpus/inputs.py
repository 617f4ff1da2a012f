"""From the settings of a corpus or bitext to its files, and to the rows of these."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator

import pyarrow as pa

from mining.config.base import Settings
from mining.config.corpus import BitextSpec, RowRules
from mining.corpus.compression import Digest
from mining.corpus.formats import FORMATS, format_of, name_of
from mining.corpus.rows import Row, TableForm
from mining.errors import UsageError
from mining.shown import safe


class InputFile(Settings):
    """One file of a spec.

    ``name`` is its path relative to the common parent of all files of the spec (the base name if
    there is one file). ``target_path`` is the target side of a bitext in plain text, else None.
    """

    path: str
    name: str
    target_path: str | None = None


def read_tables(spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
    """The rows of one file of `spec` as tables of `TableForm`, in constant memory (gettext
    catalogues are read whole).

    Every line or record is a row: what cannot be used comes with a reason. Raises InputError for
    faulty content, UsageError where settings and content do not fit (a missing Parquet column, a
    language that TMX does not have). After the last table `digest` has been given the file's bytes
    as they lie on disk (not those of a target file): with `new_digest` it is the `file_hash` of
    what was read.
    """
    return format_of(spec, file.path).read(spec, file, digest)


def read_corpus(spec: RowRules) -> Iterator[pa.Table]:
    """The tables of all files of `spec`, in the order of ``list_inputs``."""
    for file in list_inputs(spec):
        yield from read_tables(spec, file)


def read_rows(spec: RowRules) -> Iterator[Row]:
    """The rows of all files of `spec` one by one, where a Python object a row is bearable."""
    form = TableForm(spec)
    for table in read_corpus(spec):
        yield from form.rows(table)


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
    by_format: dict[str, list[str]] = {}
    for file in files:
        name = name_of(spec, file)
        FORMATS[name].layout(spec, file)
        by_format.setdefault(name, []).append(file)
    if isinstance(spec, BitextSpec) and any(FORMATS[name].aligned for name in by_format):
        return [_aligned_pair(groups)]
    if spec.columns is not None and not any(FORMATS[name].takes_columns for name in by_format):
        raise UsageError(
            f"{files[0]}: columns are declared, but no file is TSV: leave out `columns`, or set format: tsv"
        )
    files = [file for name, group in by_format.items() for file in FORMATS[name].chosen(group)]
    parent = os.path.commonpath([os.path.dirname(os.path.abspath(file)) for file in files])
    named = [InputFile(path=file, name=_display_name(file, parent)) for file in files]
    return sorted(named, key=lambda file: file.name)


def _display_name(file: str, parent: str) -> str:
    # Ids and reports are made of it: bytes that are no UTF-8 and control characters are escapes in
    # it.
    return safe(os.path.relpath(os.path.abspath(file), parent).replace(os.sep, "/"))


def _expand(spec: RowRules, path: str) -> list[str]:
    prefix, colon, _ = path.partition(":")
    if colon and prefix in FORMATS and FORMATS[prefix].own_paths:
        if spec.format not in ("auto", prefix):
            raise UsageError(f"{path}: is {prefix}, not {spec.format}: leave out `format`")
        return FORMATS[prefix].expand(path)
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
