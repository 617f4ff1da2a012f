"""What a file holds, by the settings of its corpus or bitext and by its name."""

from __future__ import annotations

import os
from typing import NamedTuple

from mining.config.base import Settings
from mining.config.corpus import BitextSpec, CorpusSpec, Format, RowRules
from mining.errors import UsageError

NO_ID = "set id: '' for generated ids"
"""The mend where a column happens to be called ``id`` and holds none."""

GETTEXT_PREFIX = "gettext:"

COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".xz": "xz", ".zst": "zstd"}

EXTENSIONS: dict[str, Format] = {
    ".txt": "text",
    ".text": "text",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".tmx": "tmx",
    ".po": "gettext",
    ".mo": "gettext",
}


class InputFile(Settings):
    """One file of a spec.

    ``name`` is its path relative to the common parent of all files of the spec (the base name if
    there is one file). ``target_path`` is the target side of a bitext in plain text, else None.
    """

    path: str
    name: str
    target_path: str | None = None


class Layout(NamedTuple):
    """What is read from a file: its format and the names of the text fields (one for a corpus, two
    for a bitext).

    ``extra`` are the further fields whose values go along with a row.
    """

    format: Format
    fields: tuple[str, ...]
    extra: tuple[str, ...] = ()


def compression_of(path: str) -> str | None:
    """``gzip``, ``bz2``, ``xz``, ``zstd``, or None for a plain file; by extension, whatever its
    case."""
    return COMPRESSIONS.get(os.path.splitext(path)[1].lower())


def without_compression(path: str) -> str:
    """The path without the extension of its compression."""
    return os.path.splitext(path)[0] if compression_of(path) else path


def layout(spec: RowRules, path: str) -> Layout:
    """Format and text fields of one file; raises UsageError for what the spec and the format do not
    agree on."""
    form = _format_of(spec, path)
    fields = _fields(spec, form, path)
    extra = spec.extra_fields
    if form == "tsv":
        _check_columns(spec, (*fields, *extra), path)
    elif extra and form in ("text", "gettext", "tmx"):
        raise UsageError(
            f"{path}: {form} has no column '{extra[0]}': leave out `domain` and `score` (without a domain, the file is "
            "the domain), or write TSV, JSON lines or Parquet"
        )
    elif form in ("text", "gettext") and spec.id:
        raise UsageError(f"{path}: {form} has no column '{spec.id}' for ids: leave out `id`, ids are generated")
    elif form == "tmx" and spec.id not in (None, "", "tuid"):
        raise UsageError(f"{path}: the only id in TMX is `tuid`: set id: tuid or leave it out")
    if form == "text" and spec.columns is not None:
        raise UsageError(f"{path}: plain text has no columns: set format: tsv, or leave out `columns`")
    if len(set(fields)) != len(fields):
        raise UsageError(f"{path}: source and target are both '{fields[0]}': name two different ones")
    return Layout(form, fields, extra)


def _format_of(spec: RowRules, path: str) -> Format:
    if spec.format != "auto":
        return spec.format
    extension = os.path.splitext(without_compression(path))[1].lower()
    form = EXTENSIONS.get(extension)
    if spec.columns is not None and form in (None, "text"):
        return "tsv"
    if form is None:
        known = ", ".join(EXTENSIONS)
        raise UsageError(
            f"{path}: cannot tell the format from the extension '{extension}' (known: {known}): "
            "set format: text, or format: tsv with the columns, for example columns: [id, text]"
        )
    return form


def _fields(spec: RowRules, form: Format, path: str) -> tuple[str, ...]:
    if isinstance(spec, CorpusSpec):
        fields: tuple[str, ...] = (spec.text,)
        mend = "set text: msgid (what the program says) or text: msgstr (its translation)"
    elif isinstance(spec, BitextSpec):
        if form == "tmx" and not (spec.source and spec.target):
            raise UsageError(f"{path}: TMX needs two language codes, for example source: en and target: de")
        names = ("msgid", "msgstr") if form == "gettext" else ("source", "target")
        fields = (spec.source or names[0], spec.target or names[1])
        mend = "set source: msgid and target: msgstr, or the reverse"
    else:
        raise TypeError(f"expected a CorpusSpec or BitextSpec, not {type(spec).__name__}")
    if form == "gettext" and not set(fields) <= {"msgid", "msgstr"}:
        raise UsageError(f"{path}: gettext has no '{fields[0]}': {mend}")
    return fields


def _check_columns(spec: RowRules, fields: tuple[str, ...], path: str) -> None:
    if spec.columns is None:
        raise UsageError(f"{path}: declare the columns of the TSV in their order, for example columns: [id, text]")
    for name in (*fields, *([spec.id] if spec.id else [])):
        if name not in spec.columns:
            declared = ", ".join(spec.columns)
            raise UsageError(f"{path}: no column '{name}' is declared; declared: {declared}: correct the name")
