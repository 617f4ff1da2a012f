"""The rules of a row written out for text and TSV, one row after the other: slow and obvious."""

from __future__ import annotations

from mining.corpus import Row

MARK = b"\xef\xbb\xbf"


class FaultError(Exception):
    """The line at which the rows end in an error."""


def reference_rows(
    content: bytes,
    columns: list[str] | None = None,
    texts: tuple[str, ...] = ("text",),
    policy: str = "strict",
    bad: str = "error",
    limit: int = 10_000,
    name: str = "a.txt",
) -> list[Row]:
    """All rows of a file, or FaultError with the line of the first fault.

    Invalid UTF-8 is found block by block, before the rows of a block are looked at: where both
    faults are in a file, either line may be named.
    """
    lines = content.removeprefix(MARK).split(b"\n")
    if not lines[-1]:
        lines.pop()
    strict = policy == "strict"
    invalid = next((number for number, line in enumerate(lines, 1) if strict and not is_utf8(line)), None)
    rows = []
    for number, line in enumerate(lines, 1):
        if number == invalid:
            raise FaultError(number)
        try:
            rows.append(_row(line, number, columns, texts, policy, bad, limit, name))
        except FaultError:
            raise FaultError(number if invalid is None else f"(?:{number}|{invalid})") from None
    return rows


def is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _row(line, number, columns, names, policy, bad, limit, name) -> Row:
    own = f"{name}:{number}"
    faulty = not is_utf8(line)
    text = line.decode(errors="replace").removesuffix("\r")
    cells = text.split("\t") if columns else [text]
    cells = [cell.lstrip("\ufeff") for cell in cells]
    columns = columns or ["text"]
    replaced = faulty and policy == "replace"
    values = tuple(dict(zip(columns, cells, strict=False)).get(wanted, "") for wanted in names)
    wide = len(cells) == len(columns)
    row_id = cells[columns.index("id")] if wide and "id" in columns else own
    skipped = faulty and policy == "skip"
    if skipped and wide:
        row_id = own if not row_id.strip() or "\ufffd" in row_id else row_id
        return Row(row_id, tuple(value[:200] for value in values), name, number, "invalid_utf8")
    if not (wide and row_id.strip()):
        if not "".join(cells).strip() and not skipped:
            return Row(own, ("",) * len(names), name, number, "blank", replaced=replaced)
        if bad == "error":
            raise FaultError(number)
        return Row(own, tuple(value[:200] for value in values), name, number, "bad_row", replaced=replaced)
    if any(len(value) > limit for value in values):
        return Row(row_id, tuple(v[:200] for v in values), name, number, "too_long", replaced=replaced)
    blank = any(not value.strip() for value in values)
    return Row(row_id, values, name, number, "blank" if blank else None, replaced=replaced)
