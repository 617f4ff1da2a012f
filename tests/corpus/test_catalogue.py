from __future__ import annotations

from pathlib import Path

import polib
import pytest

from mining.corpus import Row
from mining.errors import InputError, UsageError

HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n"Plural-Forms: nplurals=3; plural=n;\\n"\n\n'

ENTRIES = """
msgid "Save"
msgstr "Speichern"

#, fuzzy
msgid "Guess"
msgstr "Vermutung"

msgid "Nothing"
msgstr ""

msgid "one file"
msgid_plural "%d files"
msgstr[0] "eine Datei"
msgstr[1] "wenige Dateien"
msgstr[2] "%d Dateien"

msgid "half"
msgid_plural "halves"
msgstr[0] "Hälfte"
msgstr[1] ""
msgstr[2] ""

msgctxt "verb"
msgid "Open"
msgstr "Öffnen\\n\\tjetzt"

#~ msgid "Old"
#~ msgstr "Alt"
"""

PAIRS = [
    ("Save", "Speichern"),
    ("one file", "eine Datei"),
    ("%d files", "%d Dateien"),
    ("Open", "Öffnen\n\tjetzt"),
]


def _po(entries: str = ENTRIES, charset: str = "UTF-8") -> bytes:
    return (HEADER.format(charset) + entries).encode(charset)


@pytest.fixture
def mo(tmp_path: Path):
    def mo(content: bytes) -> str:
        source = tmp_path / "source.po"
        source.write_bytes(content)
        polib.pofile(str(source)).save_as_mofile(str(tmp_path / "a.mo"))
        return str(tmp_path / "a.mo")

    return mo


def test_po_gives_translated_messages_only(write, read):
    rows = read(write("a.po", _po()), bitext=True)
    assert [row.texts for row in rows] == PAIRS
    assert rows[1] == Row("a.po:2", PAIRS[1], "a.po", 2, None)


def test_mo_gives_the_same_pairs(mo, read):
    rows = read(mo(_po()), bitext=True)
    assert sorted(row.texts for row in rows) == sorted(PAIRS)


def test_one_side(write, texts):
    path = write("a.po", _po())
    assert texts(path, text="msgid") == [source for source, _ in PAIRS]
    assert texts(path, text="msgstr") == [translation for _, translation in PAIRS]
    assert texts(path, source="msgstr", target="msgid") == [translation for _, translation in PAIRS]


def test_side_must_be_named(write, read):
    with pytest.raises(UsageError, match=r"a\.po: gettext has no 'text': set text: msgid .* or text: msgstr"):
        read(write("a.po", _po()))


def test_default_in_the_comment_stands_for_a_symbolic_msgid(write, texts):
    entries = """
#. Default: "Show \\"all\\" items"
#: a.pt:3
msgid "label_show"
msgstr "Alle"

#. Used in the menu.
#. Default: ""
#. "First, "
#. "second."
#. Not this.
msgid "label_long"
msgstr "Erstens, zweitens."

#. Default: "[${a}] \\d"
msgid "label_odd"
msgstr "Seltsam"

#. Nothing said.
msgid "Plain"
msgstr "Einfach"
"""
    expected = ['Show "all" items', "First, second.", "[${a}] \\d", "Plain"]
    assert texts(write("a.po", _po(entries)), text="msgid") == expected


def test_line_separators_inside_messages_are_text(write, texts):
    message = "a\u2028b\u0085c\vd"
    assert texts(write("a.po", _po(f'msgid "{message}"\nmsgstr "x"\n')), text="msgid") == [message]


def test_declared_charset_is_used(write, mo, texts):
    content = _po(charset="ISO-8859-1")
    assert texts(write("b.po", content), text="msgstr")[-1] == "Öffnen\n\tjetzt"
    assert "Öffnen\n\tjetzt" in texts(mo(content), text="msgstr")


def test_unknown_charset_means_utf8(write, texts):
    content = _po().replace(b"UTF-8", b"CHARSET")
    assert texts(write("b.po", content), text="msgstr")[-1] == "Öffnen\n\tjetzt"


def test_byte_order_mark(write, texts):
    assert len(texts(write("a.po", b"\xef\xbb\xbf" + _po()), text="msgid")) == len(PAIRS)


def test_empty_po_has_no_rows(write, read):
    assert read(write("a.po", ""), bitext=True) == []


@pytest.mark.parametrize("binary", [False, True])
def test_invalid_utf8(write, mo, read, binary):
    content = _po('msgid "a"\nmsgstr "x"\n\nmsgid "b"\nmsgstr "y?"\n')
    if binary:
        path = Path(mo(content))
        path.write_bytes(path.read_bytes().replace(b"y?", b"y\xff"))
        where = "entry 2"
    else:
        path, where = Path(write("a.po", content.replace(b"y?", b"y\xff"))), "line 9"
    with pytest.raises(InputError, match=rf"a\.[mp]o, {where}: invalid UTF-8"):
        read(str(path), bitext=True)
    assert read(str(path), bitext=True, invalid_utf8="replace")[1].texts == ("b", "y\ufffd")
    assert [row.reason for row in read(str(path), bitext=True, invalid_utf8="skip")] == [None, "invalid_utf8"]


def test_faulty_po_names_file_and_line(write, read):
    with pytest.raises(InputError, match=r"a\.po: not a sound gettext catalogue \(.*line 8\)"):
        read(write("a.po", _po('msgid "a"\nmsgstr "x"\nnonsense\n')), bitext=True)


@pytest.mark.parametrize("kept", [0, 3, 10, 30, 60, -1])
def test_truncated_mo_is_an_error(mo, read, kept):
    path = Path(mo(_po()))
    data = path.read_bytes().rstrip(b"\0")
    path.write_bytes(data[:kept])
    with pytest.raises(InputError, match=r"a\.mo: not a sound gettext catalogue"):
        read(str(path), bitext=True)


def test_blank_and_long_messages(write, read):
    entries = 'msgid "a"\nmsgstr " "\n\nmsgid "abcdef"\nmsgstr "x"\n'
    assert [row.reason for row in read(write("a.po", _po(entries)), bitext=True, max_chars=5)] == ["blank", "too_long"]
