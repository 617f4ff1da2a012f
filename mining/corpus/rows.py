"""What a reader yields: one row, usable or with the reason why it is not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mining.corpus.spec import RowRules
from mining.errors import InputError
from mining.schemas import Reason

PREVIEW_CHARS = 200
"""An unusable row keeps at most so many characters of each text, enough to recognise it in the
ledger."""

LONGEST_TEXT = 1 << 28
"""Characters beyond which a text is too long whatever `max_chars` says: the bytes of one table are
below 2 GiB."""


class Row(NamedTuple):
    """One row of a corpus or bitext.

    ``texts`` holds one text for a corpus and two for a bitext; for an unusable row previews of at
    most 200 characters. ``file`` is the display name of the file, ``line`` the 1-based line (text,
    TSV, JSON lines) or record number (Parquet row, TMX unit, gettext entry). ``reason`` is None for
    a usable row, else one of ``blank``, ``too_long``, ``invalid_utf8``, ``bad_row``. ``extra``
    holds the values of ``spec.extra_fields`` (the domain and the score of a pair), and is empty
    where there are none or where the row is too faulty to tell. ``replaced`` says that bytes of it
    were no UTF-8 and are U+FFFD now.
    """

    id: str
    texts: tuple[str, ...]
    file: str
    line: int
    reason: str | None
    extra: tuple[str, ...] = ()
    replaced: bool = False


def make_row(
    row_id: str, texts: tuple[str, ...], name: str, line: int, max_chars: int, extra: tuple[str, ...] = ()
) -> Row:
    """A row of well-formed texts, which may still be too long or blank (nothing but white
    space)."""
    for text in texts:
        if len(text) > min(max_chars, LONGEST_TEXT):
            return dropped(row_id, texts, name, line, Reason.TOO_LONG, extra)
    for text in texts:
        if not text or text.isspace():
            # Whole texts, since the other side of a pair may be wanted as it is.
            return Row(row_id, texts, name, line, Reason.BLANK, extra)
    return Row(row_id, texts, name, line, None, extra)


def dropped(row_id: str, texts: tuple[str, ...], name: str, line: int, reason: str, extra: tuple[str, ...] = ()) -> Row:
    """A row that cannot be used; only previews of its texts are kept."""
    return Row(row_id, tuple(text[:PREVIEW_CHARS] for text in texts), name, line, reason, extra)


def row_blocks(rows: Iterable[Row], max_rows: int, max_chars: int) -> Iterator[list[Row]]:
    """Rows in blocks bounded in rows and (but for one row) in characters."""
    block: list[Row] = []
    chars = 0
    for row in rows:
        block.append(row)
        chars += sum(map(len, row.texts))
        if len(block) >= max_rows or chars >= max_chars:
            yield block
            block, chars = [], 0
    if block:
        yield block


def generated_id(name: str, line: int) -> str:
    """The id of a row that brings none: display name of the file and line or record number."""
    return f"{name}:{line}"


def bad_row(
    rules: RowRules, path: str, name: str, line: int, texts: tuple[str, ...], problem: str, where: str = "line"
) -> Row:
    """A row that does not have the declared form: an InputError, or a dropped row under
    ``on_bad_row: skip``.

    `where` says what `line` counts. The id is generated, since what stands at the place of the id
    cannot be trusted.
    """
    if rules.on_bad_row == "error":
        raise InputError(f"{path}, {where} {line}: {problem}, or set on_bad_row: skip")
    return dropped(generated_id(name, line), texts, name, line, Reason.BAD_ROW)


def invalid_utf8_error(path: str, line: int, detail: str = "", where: str = "line") -> InputError:
    """The error of the policy ``strict``."""
    found = f"invalid UTF-8{f' ({detail})' if detail else ''}"
    mend = "convert the file to UTF-8, or set invalid_utf8: replace or invalid_utf8: skip"
    return InputError(f"{path}, {where} {line}: {found}: {mend}")
