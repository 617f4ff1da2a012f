"""JSON: read with care, written whole, hashed in one canonical form."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

from mining.io.atomic import replace_file
from mining.shown import visible_surrogates


def parse_json(data: bytes | str) -> Any:
    """What JSON in UTF-8 says; raises ValueError with the reason when it is faulty or nested too
    deeply."""
    try:
        return json.loads(data.decode("utf-8") if isinstance(data, bytes) else data)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def read_json(path: str | os.PathLike[str]) -> Any:
    """What a JSON file of our own says; raises OSError, and ValueError as `parse_json` does."""
    return parse_json(Path(path).read_bytes())


def json_text(data: object, *, indent: int = 2, sort_keys: bool = True) -> str:
    """Plain data as readable JSON; a lone surrogate, as in names of files, stands there as an
    escape."""
    return visible_surrogates(json.dumps(data, indent=indent, sort_keys=sort_keys, ensure_ascii=False))


def write_json(
    path: str | os.PathLike[str], data: object, *, indent: int = 2, sort_keys: bool = True, durable: bool = True
) -> None:
    """Write `json_text` and a line feed as a file; `durable` as for `put_in_place`."""
    text = json_text(data, indent=indent, sort_keys=sort_keys) + "\n"
    replace_file(path, text.encode("utf-8"), durable=durable)


def json_digest(data: object) -> str:
    """Names plain data: the BLAKE2b digest (32 hexadecimal digits) of its JSON with sorted keys."""
    return hashlib.blake2b(json.dumps(data, sort_keys=True).encode(), digest_size=16).hexdigest()
