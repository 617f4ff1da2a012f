from __future__ import annotations

import pytest

from mining.corpus.lines import text_encoding


@pytest.mark.parametrize(
    ("name", "encoding"),
    [
        ("UTF-8", "utf-8"),
        ("utf8", "utf-8"),
        ("ISO_8859-1", "iso8859-1"),
        ("Windows-1251", "cp1251"),
        ("KOI8-R", "koi8-r"),
        ("Shift_JIS", "shift_jis"),
        ("GB18030", "gb18030"),
        ("euc-kr", "euc_kr"),
        ("ascii", "ascii"),
    ],
)
def test_encodings_of_text(name: str, encoding: str) -> None:
    assert text_encoding(name) == encoding


OTHERS = "hex rot13 base64 bz2 zlib uu quopri idna punycode unicode_escape raw_unicode_escape undefined utf-7 utf-16"


@pytest.mark.parametrize("name", [*OTHERS.split(), "utf-16-le", "utf-32", "cp037", "hz", "CHARSET", "", "a\0b", "os"])
def test_what_is_none(name: str) -> None:
    assert text_encoding(name) is None
