from __future__ import annotations

import struct
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
    other = b"\xef\xbb\xbf" + _po().replace(b"UTF-8", b"latin1")
    assert texts(write("b.po", other), text="msgstr")[-1] == "Öffnen\n\tjetzt"


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


def test_faulty_message_names_file_and_line(write, read):
    content = _po('msgid "ok"\nmsgstr "gut"\n\nmsgid "Save.\nmsgstr "b"\n\nmsgid "fine"\nmsgstr "fein"\n')
    path = write("a.po", content)
    problem = r"a\.po, line 9: not a sound gettext catalogue \(a string without its closing quotation mark\): correct"
    with pytest.raises(InputError, match=rf"{problem} it or fetch it again, or set on_bad_row: skip$"):
        read(path, bitext=True)
    rows = read(path, bitext=True, on_bad_row="skip")
    assert [row.reason or row.texts for row in rows] == [("ok", "gut"), "bad_row", ("fine", "fein")]
    assert rows[1] == Row("a.po:2", ('msgid "Save.',) * 2, "a.po", 2, "bad_row")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le"])
def test_utf16_is_named(write, read, encoding):
    with pytest.raises(InputError, match=r"a\.po: gettext catalogues are not written in UTF-16: convert it to UTF-8"):
        read(write("a.po", _po().decode().encode(encoding)), bitext=True)


COMMENTS = """
#no space here
#.Default: "Welcome to the site"
#:a.pt:3
msgid "front-title"
msgstr "Willkommen"

#,fuzzy
msgid "one"
msgstr "eins"

#, c-format,fuzzy
msgid "two"
msgstr "zwei"

#,python-format fuzzy
msgid "three"
msgstr "drei"

#!fuzzy
msgid "four"
msgstr "vier"

#, no-fuzzy, fuzzy-not
#| msgid "unclosed
msgid "five"
msgstr "fünf"

#~| msgid "old"
#~ msgid "six"
#~ msgstr "sechs"
#~ #, fuzzy
#~msgid "seven"
#~msgstr "sieben"
"""


def test_comments_need_no_space(write, read):
    rows = read(write("a.po", _po(COMMENTS)), bitext=True)
    assert [row.texts for row in rows] == [("Welcome to the site", "Willkommen"), ("five", "fünf")]


ARABIC = (
    "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n%100>=3 && n%100<=10 ? 3 : n%100>=11 && n%100<=99 ? 4 : 5;"
)
RUSSIAN = (
    "nplurals=4; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 && (n%100<12 || n%100>14) ? 1 : "
    "n%10==0 || (n%10>=5 && n%10<=9) || (n%100>=11 && n%100<=14)? 2 : 3);"
)


@pytest.mark.parametrize(
    ("rule", "forms", "expected"),
    [
        ("nplurals=2; plural=(n != 1);", 2, "01"),
        ("nplurals=1; plural=0;", 1, "00"),
        (ARABIC, 6, "14"),
        ("nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n != 0 ? 1 : 2);", 3, "01"),
        (RUSSIAN, 4, "02"),
        ("nplurals=4; plural=(n==1) ? 0 : (n==2) ? 1 : (n != 8 && n != 11) ? 2 : 3;", 4, "02"),
        ("nplurals=4; plural=(n%100==1 ? 1 : n%100==2 ? 2 : n%100==3 || n%100==4 ? 3 : 0);", 4, "10"),
        # A form that is missing is of no row; forms beyond the rule's are of none either.
        ("nplurals=2; plural=(n != 1);", 1, "0"),
        (ARABIC, 4, "1"),
        ("nplurals=2; plural=(n != 1);", 3, "01"),
        # No rule: the first and the last.
        ("nplurals=INTEGER; plural=EXPRESSION;", 3, "02"),
    ],
)
@pytest.mark.parametrize("binary", [False, True])
def test_plural_forms_by_the_rule_of_the_header(write, mo, read, rule, forms, expected, binary):
    header = HEADER.format("UTF-8").replace("nplurals=3; plural=n;", rule)
    entry = 'msgid "one"\nmsgid_plural "many"\n' + "".join(f'msgstr[{i}] "form {i}"\n' for i in range(forms))
    content = (header + entry).encode()
    rows = read(mo(content) if binary else write("a.po", content), bitext=True)
    assert [row.texts for row in rows] == [
        (source, f"form {form}") for source, form in zip(("one", "many"), expected, strict=False)
    ]


DEFAULTS = """
#. Default: "Connexion refusée"
msgid "Login failed"
msgstr "a"

#. Default: "Enregistrer"
msgid "Save"
msgstr "b"

#. Default: "If selected, nobody is asked, since the
#. well-
#. known answer is \\"yes\\"
#. here."
#. Not this.
msgid "description_always"
msgstr "c"

#. Default: "Cut off, since there is no
#. end"?
msgid "label_cut"
msgstr "d"

#. Default: "Save" (button)
#. used in the "menu"
msgid "label_more"
msgstr "d"

#. Default: "Click "Save" now"
msgid "label_quotes"
msgstr "d"

#. Default: "Read network"
msgid "readNetwork"
msgstr "e"

#. Default: "Back\\\\"
#. "slash"
msgid "Label.two"
msgstr "f"

#. Default: "One file"
msgid "num_files"
msgid_plural "num_files_plural"
msgstr[0] "eine Datei"
msgstr[1] ""
msgstr[2] "%d Dateien"
"""


def test_default_stands_for_identifiers_only(write, texts):
    assert texts(write("a.po", _po(DEFAULTS)), text="msgid") == [
        "Login failed",
        "Save",
        'If selected, nobody is asked, since the well-known answer is "yes" here.',
        "label_cut",
        "label_more",
        'Click "Save" now',
        "Read network",
        "Back\\slash",
        "One file",
        "num_files_plural",
    ]


def test_default_of_what_is_too_long_for_an_identifier(write, texts):
    entries = "".join(f'#. Default: "Save"\nmsgid "{"a_" * half}"\nmsgstr "b"\n' for half in (100, 101))
    assert texts(write("a.po", _po(entries)), text="msgid") == ["Save", "a_" * 101]


NO_TEXT = ["hex", "rot13", "idna", "punycode", "unicode_escape", "utf-7", "utf-16", "undefined", "CHARSET"]


@pytest.mark.parametrize("charset", NO_TEXT)
def test_charset_that_is_no_text_encoding_means_utf8(write, texts, charset):
    content = _po().replace(b"UTF-8", charset.encode())
    assert texts(write("a.po", content), text="msgstr")[-1] == "Öffnen\n\tjetzt"


def test_charset_of_mo_that_is_no_text_encoding_means_utf8(mo, texts):
    path = Path(mo(_po()))
    path.write_bytes(path.read_bytes().replace(b"charset=UTF-8", b"charset=hex  "))
    assert "Öffnen\n\tjetzt" in texts(str(path), text="msgstr")


@pytest.mark.parametrize("written", ["utf8", "Utf-8", '"UTF-8"', " UTF-8", "iso-8859-1", "LATIN1"])
def test_charset_however_it_is_written(write, texts, written):
    encoding = "latin-1" if "1" in written else "utf-8"
    content = _po().decode().replace("=UTF-8", "=" + written.replace('"', '\\"')).encode(encoding)
    assert texts(write("a.po", content), text="msgstr")[-1] == "Öffnen\n\tjetzt"


def test_charset_is_that_of_the_header_not_of_a_message(write, texts):
    message = '#. Content-Type: text/html; charset=koi8-r\nmsgid "Content-Type: a; charset=koi8-r"\nmsgstr "ö"\n\n'
    obsolete = '#~ msgid ""\n#~ msgstr "Content-Type: a; charset=koi8-r"\n\n'
    content = (obsolete + message).encode() + _po('msgid "b"\nmsgstr "ü"\n')
    assert texts(write("a.po", content), text="msgstr") == ["ö", "ü"]


def test_message_without_source_text_is_blank(write, read):
    rows = read(write("a.po", _po('msgctxt "c"\nmsgid ""\nmsgstr "x"\n')), bitext=True)
    assert [row.reason for row in rows] == ["blank"]


def test_one_form_is_unfinished(write, read):
    entry = 'msgid "a"\nmsgid_plural "as"\nmsgstr[0] ""\nmsgstr[1] "b"\nmsgstr[2] "c"\n'
    assert read(write("a.po", _po(entry)), bitext=True) == []


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


def test_small_mo_does_not_become_a_large_one(write, read):
    count = 1000
    tables = b"".join(struct.pack("<2I", 9000, 28) for _ in range(count)) * 2
    data = struct.pack("<7I", 0x950412DE, 0, count, 28, 28 + 8 * count, 0, 0) + tables
    with pytest.raises(InputError, match=r"a\.mo: not a sound gettext catalogue \(its strings overlap\)"):
        read(write("a.mo", data), bitext=True)


def test_unknown_revision_of_mo(write, read):
    data = struct.pack("<7I", 0x950412DE, 2 << 16, 0, 28, 28, 0, 28)
    with pytest.raises(InputError, match=r"\(its revision 2 is unknown\)"):
        read(write("a.mo", data), bitext=True)
