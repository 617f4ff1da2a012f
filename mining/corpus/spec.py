"""How a user names a pile of sentences or a bitext: paths, format, columns and row rules."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from pydantic import Field, field_validator, model_validator

from mining.config.base import Settings
from mining.errors import UsageError

Policy = Literal["strict", "replace", "skip"]
"""What is done about invalid UTF-8: stop, put U+FFFD in its place, or drop the row."""

Format = Literal["text", "tsv", "jsonl", "parquet", "tmx", "gettext"]

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


class RowRules(Settings):
    """What a corpus and a bitext share: where the files are, how rows and ids are found, which rows
    are refused.

    ``path``: a path, a glob, ``gettext:PACKAGE:LANG`` (the catalogues inside an installed Python
    package), or a list.
    ``format``: ``auto`` goes by the extension, after that of the compression (gz, bz2, xz, zst).
    ``columns``: names of the TSV columns in order; required for TSV, which is never quoted and has
    no header.
    ``id``: the column or field with the row's id; None means ``id`` where there is one, else
    generated ids; "" means generated ids.
    ``max_chars``: longer texts are dropped as ``too_long``.
    """

    path: str | list[str]
    format: Literal["auto", "text", "tsv", "jsonl", "parquet", "tmx", "gettext"] = "auto"
    columns: list[str] | None = None
    id: str | None = None
    invalid_utf8: Policy = "strict"
    on_bad_row: Literal["error", "skip"] = "error"
    max_chars: int = Field(default=10_000, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _path_alone(cls, value: Any) -> Any:
        """A path (or a list of them) stands for settings with nothing else."""
        return {"path": value} if isinstance(value, str | list) else value

    @field_validator("path", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        paths = [os.fspath(value)] if isinstance(value, str | os.PathLike) else value
        if isinstance(paths, list | tuple):
            paths = [os.fspath(path) if isinstance(path, os.PathLike) else path for path in paths]
            if not paths or "" in paths:
                raise ValueError("give at least one path, and no empty one")
        return paths

    @field_validator("columns")
    @classmethod
    def _distinct(cls, value: list[str] | None) -> list[str] | None:
        if value is not None and (not value or len(set(value)) != len(value)):
            raise ValueError("name each column once, in the order of the file")
        return value

    @property
    def paths(self) -> list[str]:
        """``path`` as the list it always is after validation."""
        return [self.path] if isinstance(self.path, str) else self.path

    def id_among(self, names: Sequence[str]) -> str | None:
        """The column with the ids in a file with columns of these names; None if ids are
        generated."""
        return (self.id or None) if self.id is not None else "id" if "id" in names else None

    @property
    def extra_fields(self) -> tuple[str, ...]:
        """Columns or fields read besides texts and id; their values are ``Row.extra``."""
        return ()


class CorpusSpec(RowRules):
    """One side: a pile of sentences.

    ``text`` names the text column or field; for TMX it is the language code, for gettext ``msgid``
    or ``msgstr``.
    """

    text: str = "text"


class BitextSpec(RowRules):
    """Aligned pairs.

    ``source`` and ``target`` name the two columns or fields; by default ``source`` and ``target``,
    for gettext ``msgid`` and ``msgstr``; for TMX they are language codes and must be given. A
    bitext in plain text is two line-aligned files, ``path: [source file, target file]``, and uses
    neither.

    ``domain`` and ``score`` name the columns or fields (TSV, JSON lines, Parquet) with the domain
    of a pair and with a number for its quality, for example the similarity of paraphrases.
    ``languages`` are the codes of the two sides.
    """

    source: str | None = None
    target: str | None = None
    domain: str | None = None
    score: str | None = None
    languages: tuple[str, str] | None = None

    @field_validator("languages")
    @classmethod
    def _codes(cls, value: tuple[str, str] | None) -> tuple[str, str] | None:
        if value is not None and not all(re.fullmatch(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*", code) for code in value):
            raise ValueError(f"{', '.join(map(repr, value))}: give two language codes, for example [en, de]")
        return value

    @property
    def extra_fields(self) -> tuple[str, ...]:
        """The column of the domain, then that of the score, where they are named."""
        return tuple(name for name in (self.domain, self.score) if name is not None)


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
