"""The grammar of .po files: what it takes and refuses was compared with GNU msgfmt 0.21."""

from __future__ import annotations

import pytest

from mining.corpus.formats._gettext import Fault, Message, parse_po

HEADER = 'msgid ""\nmsgstr ""\n#\n'


def _parsed(text: str, charset: str = "utf-8") -> list[Message | Fault]:
    return list(parse_po(HEADER + text, charset))[1:]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('msgid"a"msgstr"b"', ("a", "b")),
        ('msgid\n"a"\n\nmsgstr\n\n"b"\n\n"c"', ("a", "bc")),
        ('  msgid \t"a" "b"\r\n\fmsgstr\v"c""d"\r', ("ab", "cd")),
        (r'msgid "\a\b\f\v\r\n\t\"\\"' + '\nmsgstr "x"', ('\a\b\f\v\r\n\t"\\', "x")),
        (r'msgid "\x41g\101\x0041"' + '\nmsgstr "x"', ("AgAA", "x")),
        (r'msgid "\477"' + '\nmsgstr "x"', ("?", "x")),
        (r'msgid "\303\274\xc3\xbc"' + '\nmsgstr "x"', ("üü", "x")),
        ('msgid "\\303"\n"\\274"\nmsgstr "x"', ("ü", "x")),
        ('msgid "\\xff"\nmsgstr "x"', ("\udcff", "x")),
        ('msgid "a\\\nb"\nmsgstr "x"', ("ab", "x")),
        ('#. a comment \\\nmsgid "a"\nmsgstr "x"', ("a", "x")),
        ('msgid "a\u2028\u0085\x1cb"\nmsgstr "x"', ("a\u2028\u0085\x1cb", "x")),
        ('domain "other"\nmsgid "a"\nmsgstr "b"', ("a", "b")),
    ],
)
def test_strings(text: str, expected: tuple[str, str]) -> None:
    (message,) = _parsed(text)
    assert isinstance(message, Message)
    assert (message.source, *message.forms) == expected


def test_bytes_written_as_escapes_are_of_the_charset() -> None:
    (message,) = _parsed(r'msgid "\xe9\xff"' + '\nmsgstr "x"', "koi8-r")
    assert isinstance(message, Message)
    assert message.source == b"\xe9\xff".decode("koi8-r")


def test_everything_of_a_message() -> None:
    text = """
# Translator's.
#.First.
#.  Second.
#, fuzzy
#, c-format
msgctxt "c"
msgid "a"
msgid_plural "as"
msgstr [ 0 ] "b"
msgstr[01] "bs"
"""
    assert _parsed(text) == [Message(11, "c", "a", "as", ("b", "bs"), ("First.", "Second."), True, False)]


FAULTS = [
    ('msgid "Save.\nmsgstr "b"', 4, "a string without its closing quotation mark"),
    ('msgid "a"\nmsgstr "b\\"', 5, "a string without its closing quotation mark"),
    ('msgid Save."\nmsgstr "b"', 4, "text outside of quotation marks (Save)"),
    ('msgid "a"\nmsgstr "b" c', 5, "text outside of quotation marks (c)"),
    ('msgid "a"\nmsgstr "b"c"', 5, "text outside of quotation marks (c)"),
    ('msgid "a"\nmsgstr "b";', 5, "text outside of quotation marks (;)"),
    ('msgid\u00a0"a"\nmsgstr "b"', 4, 'text outside of quotation marks (\u00a0"a")'),
    ('msgid "a"\nmsgstr "b"\nnonsense', 6, "text outside of quotation marks (nonsense)"),
    ('MSGID "a"\nmsgstr "b"', 4, "text outside of quotation marks (MSGID)"),
    ('msgid "a"\nmsgstr "b\\q"', 5, "an unknown escape sequence (\\q)"),
    ('msgid "a"\nmsgstr "b\\xg"', 5, "an unknown escape sequence (\\x)"),
    ('msgid "a"\nmsgstr "b\\0c"', 5, "a NUL character"),
    ('msgid "a"\nmsgstr "b\0c"', 5, "a NUL character"),
    ('msgid "a"\nmsgstr', 4, "msgstr without a string"),
    ('msgid\nmsgstr "b"', 4, "msgid without a string"),
    ('msgid "a"', 4, "a message without its msgstr"),
    ('msgid "a"\n# c\nmsgstr "b"', 4, "a message without its msgstr"),
    ('msgctxt "c"\nmsgstr "b"', 5, "msgstr where msgid should stand"),
    ('msgid "a"\nmsgstr[0] "b"', 5, "msgstr[0] where msgid_plural or msgstr should stand"),
    ('msgid "a"\nmsgid_plural "as"\nmsgstr "b"', 6, "msgstr where msgstr[0] should stand"),
    ('msgid "a"\nmsgid_plural "as"', 4, "a message with a plural but without msgstr[0]"),
    ('msgid "a"\nmsgid_plural "as"\nmsgstr[0] "b"\nmsgstr[2] "c"', 7, "msgstr[2] where msgstr[1] should stand"),
    ('msgid "a"\nmsgid_plural "as"\nmsgstr[1] "b"', 6, "msgstr[1] where msgstr[0] should stand"),
    ('msgid "a"\nmsgid_plural "as"\nmsgstr[0 "b"', 6, "msgstr where msgstr[0] should stand"),
    ('msgid "a"\nmsgstr "b"\nmsgstr "c"', 6, "msgstr where msgctxt or msgid or domain should stand"),
    ('msgid "a"\n#~ msgstr "b"', 5, "a message of which only a part is marked as obsolete (#~)"),
    ('msgctxt "c\nmsgid "a"\nmsgstr "b"', 4, "a string without its closing quotation mark"),
]


@pytest.mark.parametrize(("text", "line", "problem"), FAULTS)
def test_faults(text: str, line: int, problem: str) -> None:
    fault, message = _parsed(f'{text}\n\nmsgid "ok"\nmsgstr "gut"')
    assert isinstance(fault, Fault)
    assert (fault.line, fault.problem) == (line, problem)
    assert isinstance(message, Message)
    assert (message.source, message.forms) == ("ok", ("gut",))


def test_string_before_any_keyword() -> None:
    (fault,) = parse_po('"a"\n"b"', "utf-8")
    assert fault == Fault(1, "a string without a keyword", '"a"')


def test_msgctxt_at_the_end() -> None:
    assert _parsed('msgctxt "c"') == [Fault(4, "a msgctxt without its msgid", "c")]


def test_second_definition() -> None:
    same = 'msgid "a"\nmsgstr "b"\n'
    others = f'msgctxt "c"\n{same}#~ msgid "a"\n#~ msgstr "b"\ndomain "d"\n{same}'
    assert all(isinstance(item, Message) for item in _parsed(same + others))
    fault = _parsed(same + same)[1]
    assert fault == Fault(6, "a message is defined a second time (first in line 4)", "a")


def test_header_is_no_message_with_a_context() -> None:
    header, message = parse_po('msgid ""\nmsgstr "x"\nmsgctxt "c"\nmsgid ""\nmsgstr "y"', "utf-8")
    assert isinstance(header, Message)
    assert isinstance(message, Message)
    assert (header.is_header, message.is_header) == (True, False)
