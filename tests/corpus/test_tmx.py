from __future__ import annotations

import tracemalloc

import pytest

from mining.corpus import CorpusSpec, Row, list_inputs, read_rows
from mining.corpus.formats import FORMATS
from mining.corpus.formats._tmx import FORBIDDEN, Units, xml_as_utf8
from mining.corpus.formats.tmx import unit_rows
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
        ("en", ["EN_us"], 0),
        ("zh-Hant-TW", ["zh", "zh-Hant"], 1),
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


def test_of_several_texts_in_a_language_the_first_that_says_something(write, texts):
    unit = _tuv("en", " ") + _tuv("en-GB", "two") + _tuv("en", "three") + _tuv("en", "four")
    assert texts(write("a.tmx", _tmx(unit)), text="en") == ["three"]
    assert texts(write("a.tmx", _tmx(_tuv("en", "") + _tuv("en-GB", "two"))), text="en") == ["two"]


def test_unit_without_the_language_is_blank(write, read):
    rows = read(write("a.tmx", _tmx(_tuv("en", "one"), _tuv("en", "two") + _tuv("de", "zwei"))), text="de")
    assert [row.reason for row in rows] == ["blank", None]


def test_inline_mark_up_is_not_text(write, texts):
    seg = (
        'a <bpt i="1">&lt;b&gt;<sub>code</sub></bpt>bold <hi>and <ph>x</ph>high</hi><ept i="1">&lt;/b&gt;</ept> &amp; z'
    )
    assert texts(write("a.tmx", _tmx(_tuv("en", seg))), text="en") == ["a bold and high & z"]


LINE_BREAK = '<ph x="1" type="lb">&lt;br/&gt;</ph>'


@pytest.mark.parametrize(
    ("seg", "text"),
    [
        (f"Save the file{LINE_BREAK}and go.", "Save the file and go."),
        (f"Файл{LINE_BREAK}Правка", "Файл Правка"),
        (f"कि{LINE_BREAK}ताब", "कि ताब"),
        (f"one{LINE_BREAK}{LINE_BREAK}two", "one two"),
        ("one<it pos='begin'/>two<ut>x</ut>three", "one two three"),
        (f"one<hi>{LINE_BREAK}two</hi>", "one two"),
        (f"page{LINE_BREAK}2", "page 2"),
        (f"Saved.{LINE_BREAK}Close it.", "Saved. Close it."),
        (f"one {LINE_BREAK}two", "one two"),
        (f"one{LINE_BREAK} two", "one two"),
        (f"one\n{LINE_BREAK}two", "one\ntwo"),
        ("word<ph/>.", "word."),
        ("word<ph/>, word", "word, word"),
        ("(<ph/>word<ph/>)", "(word)"),
        ("l'<ph/>eau", "l'eau"),
        ("1.<ph/>5", "1.5"),
        ("<ph/>word<ph/>", "word"),
        (f"保存{LINE_BREAK}文件", "保存文件"),
        ("<bpt i='1'/>bold<ept i='1'/>ed and un<bpt i='2'/>bold", "bolded and unbold"),
        ("<bpt i='1'/>A<ept i='1'/><bpt i='2'/>B<ept i='2'/>", "A B"),
        ("<bpt i='1'>&lt;p&gt;</bpt>A<ept i='1'>&lt;/p&gt;</ept>B", "A B"),
        (
            r"one<bpt i='1'>{\par </bpt>two<ept i='1'>}</ept>s <bpt i='2'>&lt;b&gt;</bpt>bold<ept i='2'/>ed",
            "one twos bolded",
        ),
        ("one<br/>two<x id='1'></x>three", "one two three"),
        ("on<hi>ly</hi> <hi/>on<hi/>e <b>bo</b>ld", "only one bold"),
    ],
)
def test_what_is_taken_out_does_not_glue_words(write, texts, seg, text):
    assert texts(write("a.tmx", _tmx(_tuv("en", seg))), text="en") == [text]


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


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-32", "shift_jis", "gb18030", "windows-1251"])
@pytest.mark.parametrize("policy", ["strict", "skip"])
def test_encodings_of_several_bytes(write, texts, encoding, policy):
    content = _tmx(_tuv("ja", "Да")).replace("UTF-8", encoding).encode(encoding)
    assert texts(write("a.tmx", content), text="ja", invalid_utf8=policy) == ["Да"]


@pytest.mark.parametrize("policy", ["strict", "skip"])
def test_ascii_is_read_as_utf8(write, texts, policy):
    content = _tmx(_tuv("de", "Grüße")).replace("UTF-8", "US-ASCII")
    assert texts(write("a.tmx", content), text="de", invalid_utf8=policy) == ["Grüße"]


def test_rows_before_a_fault_are_read(write):
    spec = CorpusSpec(path=write("a.tmx", _tmx(_tuv("de", "eins"), "<x>")), text="de")
    (file,) = list_inputs(spec)
    rows = unit_rows(spec, file, FORMATS["tmx"].layout(spec, file.path))
    assert next(rows).texts == ("eins",)
    with pytest.raises(InputError, match="not well-formed XML"):
        next(rows)


def test_a_unit_of_many_languages_and_long_code_is_bounded():
    units = Units(("de",), 10)
    units.start("tu", {})
    for place in range(1000):
        units.start("tuv", {"lang": f"de-{place}"})
        units.start("seg", {})
        units.start("ph", {})
        for _ in range(10):
            units.data("x" * 1000)
        assert len(units.code) <= 1000
        units.end("ph")
        units.data("text")
        units.end("seg")
    assert (len(units.known), len(units.variants)) == (100, 100)
    units.end("tu")
    assert units.take() == [("", ("text",))]


def test_byte_order_mark(write, texts):
    assert texts(write("a.tmx", b"\xef\xbb\xbf" + _tmx(_tuv("de", "Grüße")).encode()), text="de") == ["Grüße"]


@pytest.mark.parametrize("encoding", ["utf-16", "hex", "idna", "no-such"])
@pytest.mark.parametrize("policy", ["strict", "skip"])
def test_encoding_that_it_does_not_have(write, read, encoding, policy):
    path = write("a.tmx", _tmx(_tuv("de", "a")).replace("UTF-8", encoding))
    with pytest.raises(
        InputError, match=rf"a\.tmx: the XML cannot be decoded \(it is not in the encoding '{encoding}'"
    ):
        read(path, text="de", invalid_utf8=policy)


def test_invalid_utf8(write, read):
    path = write("a.tmx", _tmx(_tuv("de", "a?"), _tuv("de", "b")).encode().replace(b"?</seg>", b"\xff</seg>"))
    with pytest.raises(InputError, match=r"a\.tmx, line 4: .*invalid_utf8: replace or skip"):
        read(path, text="de")
    assert [row.texts[0] for row in read(path, text="de", invalid_utf8="replace")] == ["a\ufffd", "b"]
    assert [row.reason for row in read(path, text="de", invalid_utf8="skip")] == ["invalid_utf8", None]


@pytest.mark.parametrize(
    "control", ["\x01", "\x1f", "\x00", "&#1;", "&#x1F;", "&#0;", "&#xD800;", "&#x110000;", "\ufffe"]
)
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_character_that_xml_does_not_allow(write, read, control, encoding):
    units = [_tuv("en", "one") + _tuv("de", "eins"), _tuv("en", f"a {control} sign") + _tuv("de", "Zeichen")]
    path = write("a.tmx", _tmx(*units, _tuv("de", "drei") + _tuv("en", "three")).encode(encoding))
    with pytest.raises(InputError, match=r"a\.tmx, line 5: not well-formed XML .*set .*invalid_utf8: replace or skip$"):
        read(path, text="en")
    for policy, expected in [
        ({"on_bad_row": "skip"}, "bad_row"),
        ({"on_bad_row": "skip", "invalid_utf8": "skip"}, "bad_row"),
        ({"invalid_utf8": "skip"}, "invalid_utf8"),
        ({"invalid_utf8": "replace", "on_bad_row": "skip"}, None),
    ]:
        rows = read(path, text="en", **policy)
        assert [row.reason for row in rows] == [None, expected, None]
        assert [row.texts[0] for row in rows] == ["one", "a \ufffd sign", "three"]


@pytest.mark.parametrize("control", [b"\x01", b"\xff"])
@pytest.mark.parametrize("place", [b"<tu ", b"<tmx "])
def test_no_hint_at_policies_that_do_not_help(write, read, control, place):
    content = _tmx(_tuv("en", "one")).encode().replace(place, place.replace(b" ", control + b" "))
    with pytest.raises(
        InputError, match=r"line \d: not well-formed XML \(a character .* outside .*\): correct the file$"
    ):
        read(write("a.tmx", content), text="en", invalid_utf8="skip", on_bad_row="skip")


def test_the_other_side_of_a_forbidden_character_is_left_out_too(write, read):
    path = write("a.tmx", _tmx(_tuv("en", "a\x02") + _tuv("de", "b"), _tuv("en", "c") + _tuv("de", "d")))
    assert [row.reason for row in read(path, text="de", on_bad_row="skip")] == [None, None]
    rows = read(path, source="en", target="de", on_bad_row="skip")
    assert [row.reason for row in rows] == ["bad_row", None]


def test_what_looks_like_a_reference_is_none_inside_cdata_and_comments(write, texts):
    units = [_tuv("en", "<![CDATA[&#1; <!-- ]]> &#65;<!-- &#2; -->b"), _tuv("en", "c")]
    assert texts(write("a.tmx", _tmx(*units)), text="en", on_bad_row="skip") == ["&#1; <!--  Ab", "c"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1500])
def test_marks_do_not_depend_on_the_pieces(size):
    content = _tmx(*[_tuv("en", "a\x01b&#2;c&#x41;<![CDATA[&#3;]]>é<!-- &#4; -- -->")] * 30).encode()
    pieces = (content[at : at + size] for at in range(0, len(content), size))
    marked = b"".join(xml_as_utf8(pieces, True, True)).decode()
    expected = content.decode().replace("\x01", FORBIDDEN).replace("&#2;", FORBIDDEN)
    assert marked == expected


def test_a_control_character_in_the_tuid_counts_where_the_tuid_is_the_id(write, read):
    path = write("a.tmx", f'<tmx><body><tu tuid="a&#1;">{_tuv("en", "one")}</tu></body></tmx>')
    assert read(path, text="en", on_bad_row="skip")[0].reason is None
    row = read(path, text="en", id="tuid", on_bad_row="skip")[0]
    assert (row.id, row.reason) == ("a.tmx:1", "bad_row")


def test_invalid_bytes_stay_an_error_where_only_bad_rows_are_skipped(write, read):
    path = write("a.tmx", _tmx(_tuv("de", "a"), _tuv("de", "b?")).encode().replace(b"?</seg>", b"\xff</seg>"))
    with pytest.raises(InputError, match=r"a\.tmx, line 5: .*invalid UTF-8.*: .*set invalid_utf8: replace or skip$"):
        read(path, text="de", on_bad_row="skip")


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
