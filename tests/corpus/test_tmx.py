from __future__ import annotations

import tracemalloc

import pytest

from mining.corpus import CorpusSpec, Row, read_rows
from mining.errors import InputError, UsageError

HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header/><body>\n'
TAIL = "</body></tmx>\n"


def _tuv(language: str, seg: str) -> str:
    return f'<tuv xml:lang="{language}"><seg>{seg}</seg></tuv>'


def _tmx(*units: str) -> str:
    return HEAD + "".join(f'<tu tuid="u{i}">{unit}</tu>\n' for i, unit in enumerate(units)) + TAIL


def test_rows_of_one_language_and_pairs(write, read):
    path = write("a.tmx", _tmx(_tuv("en", "one") + _tuv("de", "eins"), _tuv("en", "two") + _tuv("de", "zwei")))
    assert read(path, text="de") == [
        Row("a.tmx:1", ("eins",), "a.tmx", 1, None),
        Row("a.tmx:2", ("zwei",), "a.tmx", 2, None),
    ]
    pairs = read(path, source="de", target="en", id="tuid")
    assert [(row.id, row.texts) for row in pairs] == [("u0", ("eins", "one")), ("u1", ("zwei", "two"))]


@pytest.mark.parametrize(
    ("asked", "there", "found"),
    [
        ("de", ["DE"], 0),
        ("DE-at", ["de-AT"], 0),
        ("de", ["de-AT"], 0),
        ("de", ["de-AT", "de"], 1),
        ("de-AT", ["de"], 0),
        ("de-AT", ["de", "de-at"], 1),
        ("pt_BR", ["pt-BR"], 0),
    ],
)
def test_language_codes(write, texts, asked, there, found):
    variants = [_tuv(language, f"text {i}") for i, language in enumerate(there)]
    assert texts(write("a.tmx", _tmx("".join(variants) + _tuv("fr", "un"))), text=asked) == [f"text {found}"]


@pytest.mark.parametrize("asked", ["deu", "en-US"])
def test_absent_language_lists_those_there_are(write, read, asked):
    path = write("a.tmx", _tmx(_tuv("en-GB", "one") + _tuv("de", "eins")))
    with pytest.raises(UsageError, match=rf"a\.tmx: no unit has the language '{asked}': name one of de, en-GB"):
        read(path, text=asked)


def test_unit_without_the_language_is_blank(write, read):
    rows = read(write("a.tmx", _tmx(_tuv("en", "one"), _tuv("en", "two") + _tuv("de", "zwei"))), text="de")
    assert [row.reason for row in rows] == ["blank", None]


def test_inline_mark_up_is_not_text(write, texts):
    seg = (
        'a <bpt i="1">&lt;b&gt;<sub>code</sub></bpt>bold <hi>and <ph>x</ph>high</hi><ept i="1">&lt;/b&gt;</ept> &amp; z'
    )
    assert texts(write("a.tmx", _tmx(_tuv("en", seg))), text="en") == ["a bold and high & z"]


def test_old_and_namespaced_files(write, texts):
    content = '<tmx xmlns="http://www.lisa.org/tmx14"><body><tu><tuv lang="EN"><seg>one</seg></tuv></tu></body></tmx>'
    assert texts(write("a.tmx", content), text="en") == ["one"]


def test_file_without_units_has_no_rows(write, read):
    assert read(write("a.tmx", HEAD + TAIL), text="en") == []


def test_faulty_xml_names_file_and_line(write, read):
    path = write("a.tmx", _tmx(_tuv("en", "one"), _tuv("en", "a < b")))
    with pytest.raises(InputError, match=r"a\.tmx, line 5: not well-formed XML"):
        read(path, text="en")


def test_truncated_xml_is_an_error(write, read):
    path = write("a.tmx", _tmx(_tuv("en", "one"))[: -len(TAIL)])
    with pytest.raises(InputError, match=r"a\.tmx, line \d+: not well-formed XML \(no element found|unclosed"):
        read(path, text="en")


@pytest.mark.parametrize("declaration", ['<!ENTITY a "aaaa">', '<!ENTITY a SYSTEM "file:///etc/hostname">'])
def test_entities_are_refused(write, read, declaration):
    content = f"<!DOCTYPE tmx [{declaration}]><tmx><body><tu>{_tuv('en', '&a;')}</tu></body></tmx>"
    with pytest.raises(InputError, match="XML entities are refused"):
        read(write("a.tmx", content), text="en")


def test_undeclared_entity_is_an_error(write, read):
    with pytest.raises(InputError, match="not well-formed XML"):
        read(write("a.tmx", _tmx(_tuv("en", "a&nbsp;b"))), text="en")


def test_other_encodings_that_are_declared(write, texts):
    content = _tmx(_tuv("de", "Grüße"))
    latin = content.replace("UTF-8", "ISO-8859-1").encode("latin-1")
    for policy in ("strict", "replace"):
        assert texts(write("a.tmx", latin), text="de", invalid_utf8=policy) == ["Grüße"]
        assert texts(write("b.tmx", content.replace("UTF-8", "UTF-16").encode("utf-16")), text="de") == ["Grüße"]


def test_invalid_utf8(write, read):
    path = write("a.tmx", _tmx(_tuv("de", "a?"), _tuv("de", "b")).encode().replace(b"?</seg>", b"\xff</seg>"))
    with pytest.raises(InputError, match=r"a\.tmx, line 4: .*invalid_utf8: replace or skip"):
        read(path, text="de")
    assert [row.texts[0] for row in read(path, text="de", invalid_utf8="replace")] == ["a\ufffd", "b"]
    assert [row.reason for row in read(path, text="de", invalid_utf8="skip")] == ["invalid_utf8", None]


def test_missing_tuid_is_a_bad_row(write, read):
    path = write("a.tmx", f"<tmx><body><tu>{_tuv('en', 'one')}</tu></body></tmx>")
    with pytest.raises(InputError, match=r"a\.tmx, unit 1: the translation unit has no tuid"):
        read(path, text="en", id="tuid")
    assert read(path, text="en", id="tuid", on_bad_row="skip")[0].reason == "bad_row"


def test_memory_does_not_depend_on_the_file(write):
    # 30 MB, of which one segment is 20 MB.
    units = [_tuv("en", "x" * 20_000_000), *[_tuv("en", "y" * 2000)] * 5000, _tuv("en", "end")]
    path = write("a.tmx.gz", _tmx(*units))
    spec = CorpusSpec(path=path, text="en")
    tracemalloc.start()
    rows = [(row.line, row.reason) for row in read_rows(spec)]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows[0] == (1, "too_long")
    assert rows[-1] == (5002, None)
    assert peak < 10_000_000
