"""How a user names a pile of sentences or a bitext: paths, format, columns and row rules."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from mining.config.base import Settings, one_of
from mining.corpus.formats import FORMATS

Policy = Literal["strict", "replace", "skip"]
"""What is done about invalid UTF-8: stop, put U+FFFD in its place, or drop the row."""


MAX_CHARS = 10_000
"""Characters of the longest text that is used, where nothing else is set."""


class RowRules(Settings):
    """What a corpus and a bitext share: where the files are, how rows and ids are found, which rows
    are refused."""

    alone = "path"

    path: str | list[str]
    """Files: a path, a glob, or gettext:PACKAGE:LANG for the catalogues in an installed Python
    package."""
    format: Annotated[str, one_of(FORMATS, "auto")] = "auto"
    """Format of the files; auto goes by the extension, after that of the compression (gz, bz2, xz,
    zst)."""
    columns: list[str] | None = None
    """Names of all columns of a TSV file, in order. TSV needs them: it has no header, and is never
    quoted."""
    id: str | None = None
    """Column or field of the ids; '' for generated ones. Without it: id where there is one, else
    generated ids."""
    invalid_utf8: Policy = "strict"
    """Invalid UTF-8: stop (strict), put U+FFFD in its place (replace) or drop the row (skip)."""
    on_bad_row: Literal["error", "skip"] = "error"
    """A row that is not of its format: stop, or drop the row."""
    max_chars: int = Field(default=MAX_CHARS, gt=0)
    """Longer texts are not used; their rows are dropped as too_long."""

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

    def text_fields(self, defaults: tuple[str, str]) -> tuple[str, ...]:
        """The fields of the texts, one for a corpus and two for a bitext, which has `defaults`."""
        raise TypeError(f"expected a CorpusSpec or BitextSpec, not {type(self).__name__}")


class CorpusSpec(RowRules):
    """One side: a pile of sentences."""

    text: str = "text"
    """Column or field of the text; TMX: language code; gettext: msgid or msgstr."""

    def text_fields(self, defaults: tuple[str, str]) -> tuple[str, ...]:
        """See `RowRules.text_fields`."""
        return (self.text,)


class BitextSpec(RowRules):
    """Aligned pairs. A bitext in plain text is two line-aligned files, ``path: [source file, target
    file]``."""

    source: str | None = None
    """Column or field of the source text (source); TMX: language code; gettext: msgid or msgstr
    (msgid)."""
    target: str | None = None
    """Column or field of the target text (target); TMX: language code; gettext: msgid or msgstr
    (msgstr)."""
    domain: str | None = None
    """Column or field of the domain (TSV, JSON lines, Parquet); without it each file is a
    domain."""
    score: str | None = None
    """Column or field of a number for the quality of a pair, such as the similarity of
    paraphrases."""
    languages: tuple[str, str] | None = None
    """Codes of the languages of source and target."""

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

    def text_fields(self, defaults: tuple[str, str]) -> tuple[str, ...]:
        """See `RowRules.text_fields`."""
        return self.source or defaults[0], self.target or defaults[1]
