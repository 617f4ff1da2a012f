from __future__ import annotations

import json

import pytest

from mining.corpus import Row
from mining.corpus.lines import MIN_LINE_LIMIT
from mining.errors import InputError


def test_rows_and_ids(write, read):
    path = write("a.jsonl", '{"id": "x", "text": "a\\tb\\nc"}\n{"text": "d", "id": 7, "more": null}\n')
    assert read(path) == [Row("x", ("a\tb\nc",), "a.jsonl", 1, None), Row("7", ("d",), "a.jsonl", 2, None)]


def test_without_id_field_ids_are_generated(write, read):
    assert read(write("a.jsonl", '{"text": "a"}\n{"text": "b", "id": "late"}\n'))[1].id == "a.jsonl:2"


def test_named_fields(write, read):
    path = write("a.jsonl", '{"key": "k", "en": "one", "de": "eins"}\n')
    assert read(path, id="key", source="en", target="de") == [Row("k", ("one", "eins"), "a.jsonl", 1, None)]


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", r"not valid JSON \(Expecting property name"),
        ('{"id": "1", "text": "a"', "not valid JSON"),
        ('["a"]', "a JSON object was expected, not an array"),
        ('{"id": "1", "txt": "a"}', r"no field 'text' \(fields found: id, txt\)"),
        ('{"id": "1", "text": null}', "field 'text' is null, not a string"),
        ('{"id": "1", "text": 3}', "field 'text' is a number, not a string"),
        ('{"text": "a"}', "field 'id' holds no id"),
        ('{"id": "", "text": "a"}', "field 'id' holds no id"),
        ('{"id": true, "text": "a"}', "field 'id' holds no id"),
        ('{"id": null, "text": "a"}', "field 'id' holds no id .*set id: '' for generated ids"),
        ('{"id": 1.0, "text": "a"}', "field 'id' holds no id"),
        ('{"id": NaN, "text": "a"}', "field 'id' holds no id"),
        ('{"id": ["1"], "text": "a"}', "field 'id' holds no id"),
        ('{"id": "1", "text": {"en": "a", "de": "b"}}', r"field 'text' is an object.*name one of text\.en, text\.de"),
        ('{"id": "1", "text": {}}', "field 'text' is an object.*name another field"),
        ('{"id": "1", "text": "a", "text": "b"}', "field 'text' stands twice"),
        ('{"id": "1", "text": "a", "id": "2"}', "field 'id' stands twice"),
        ("[" * 200_000, "JSON"),
        ('{"text":' * 200_000, "JSON"),
        ('{"id": ' + "9" * 5000 + ', "text": "a"}', "JSON"),
    ],
)
def test_bad_rows(write, read, line, problem):
    path = write("a.jsonl", '{"id": "0", "text": "good"}\n' + line + "\n")
    with pytest.raises(InputError, match=rf"a\.jsonl, line 2: .*{problem}.*on_bad_row: skip"):
        read(path)
    row = read(path, on_bad_row="skip")[1]
    assert (row.id, row.line, row.reason) == ("a.jsonl:2", 2, "bad_row")
    assert len(row.texts[0]) <= 200


def test_ids_are_generated_where_that_is_asked_for(write, read):
    path = write("a.jsonl", '{"id": 1.5, "text": "a"}\n{"id": null, "text": "b"}\n')
    assert [row.id for row in read(path, id="")] == ["a.jsonl:1", "a.jsonl:2"]


def test_fields_that_stand_twice_elsewhere_are_no_fault(write, texts):
    line = '{"x": 1, "x": 2, "text": "a", "note": "text", "inner": {"text": "b"}}\n'
    assert texts(write("a.jsonl", line + '{"text": "text"}\n')) == ["a", "text"]


def test_fields_of_inner_objects_by_dotted_names(write, read):
    lines = [
        '{"t": {"en": "one", "de": "eins"}, "m": {"id": 4}}',
        '{"t.en": "two", "t": {"en": "x", "de": "zwei"}, "m": {"id": 5}}',
    ]
    rows = read(write("a.jsonl", "\n".join(lines)), source="t.en", target="t.de", id="m.id")
    assert [(row.id, row.texts) for row in rows] == [("4", ("one", "eins")), ("5", ("two", "zwei"))]
    for line in ('{"t": {"de": "x"}}', '{"t": null}', '{"t": "en"}'):
        with pytest.raises(InputError, match=r"no field 't\.en'"):
            read(write("b.jsonl", line), text="t.en")


def test_long_integers_as_ids(write, read):
    assert read(write("a.jsonl", '{"id": 1' + "0" * 40 + ', "text": "a"}'))[0].id == "1" + "0" * 40


def test_blank_lines_and_blank_texts(write, read):
    rows = read(write("a.jsonl", '{"id": "0", "text": " "}\n\n  \n'))
    assert [(row.id, row.reason) for row in rows] == [("0", "blank"), ("a.jsonl:2", "blank"), ("a.jsonl:3", "blank")]


def test_invalid_utf8(write, read):
    path = write("a.jsonl", b'{"id": "0", "text": "a\xff"}\n')
    with pytest.raises(InputError, match="line 1: invalid UTF-8"):
        read(path)
    assert read(path, invalid_utf8="replace") == [Row("0", ("a\ufffd",), "a.jsonl", 1, None, replaced=True)]
    assert read(path, invalid_utf8="skip")[0].reason == "invalid_utf8"


@pytest.mark.parametrize("escape", ["\\ud800", "\\uDFFFx", "\\udc00\\ud800"])
def test_lone_surrogates_follow_the_policy(write, read, escape):
    path = write("a.jsonl", f'{{"id": "0", "text": "a{escape}"}}\n')
    with pytest.raises(InputError, match=r"line 1: invalid UTF-8 \(a lone surrogate"):
        read(path)
    (replaced,) = read(path, invalid_utf8="replace")
    assert replaced.reason is None
    assert "\ufffd" in replaced.texts[0]
    (skipped,) = read(path, invalid_utf8="skip")
    assert (skipped.id, skipped.reason) == ("0", "invalid_utf8")
    assert replaced.replaced
    assert not skipped.replaced
    for row in (replaced, skipped):
        row.texts[0].encode("utf-8")


def test_lone_surrogate_in_an_id(write, read):
    path = write("a.jsonl", '{"id": "\\ud800", "text": "a"}\n')
    assert read(path, invalid_utf8="replace")[0].id == "\ufffd"
    assert read(path, invalid_utf8="skip")[0].id == "a.jsonl:1"


def test_lone_surrogate_in_the_names_of_a_bad_row(write, read):
    path = write("a.jsonl", '{"\\ud800": "a"}\n')
    with pytest.raises(InputError) as caught:
        read(path)
    str(caught.value).encode("utf-8")


def test_paired_surrogates_are_a_character(write, texts):
    assert texts(write("a.jsonl", '{"text": "\\ud83d\\ude00"}\n')) == ["\U0001f600"]


def test_line_beyond_the_limit_is_too_long(write, read):
    path = write("a.jsonl", json.dumps({"id": "x", "text": "a" * MIN_LINE_LIMIT}) + '\n{"id": "y", "text": "b"}\n')
    assert [(row.id, row.reason) for row in read(path)] == [("a.jsonl:1", "too_long"), ("y", None)]
