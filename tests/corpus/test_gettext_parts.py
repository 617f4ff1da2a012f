"""The parts of the gettext reader: .po files, plural forms, catalogues inside packages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mining.corpus import BitextSpec, list_inputs, read_rows
from mining.corpus.formats._gettext import Fault, Message, parse_po, plural_forms
from mining.corpus.formats.gettext import _by_language, _module_folders, _walk, package_catalogues, prefer_po
from mining.errors import UsageError

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


PLURALS = "Content-Type: text/plain\nPlural-Forms: {}\nX: y\n"


def test_singular_and_plural() -> None:
    assert plural_forms(PLURALS.format("nplurals=2; plural=(n != 1);")) == (2, 0, 1)
    assert plural_forms(PLURALS.format("nplurals = 2 ;plural = n>1")) == (2, 0, 1)
    assert plural_forms(PLURALS.format("nplurals=2; plural=n > 100;")) == (2, 0, 1)
    romanian = "nplurals=3; plural=(n==1?0:(((n%100>19)||((n%100==0)&&(n!=0)))?2:1));"
    assert plural_forms(PLURALS.format(romanian)) == (3, 0, 2)
    spanish = "nplurals=3; plural=n == 1 ? 0 : n != 0 && n % 1000000 == 0 ? 1 : 2;"
    assert plural_forms(PLURALS.format(spanish)) == (3, 0, 2)


@pytest.mark.parametrize(
    "rule",
    [
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=;",
        "nplurals=2; plural=(n != 1;",
        "nplurals=2; plural=n;",
        "nplurals=2; plural=1/(n-5);",
        "nplurals=2; plural=n%0;",
        "nplurals=0; plural=0;",
        "nplurals=2; plural=-1;",
        "nplurals=2; plural=__import__('os').getpid();",
        "nplurals=2; plural=n**n**n;",
        f"nplurals=2; plural={'(' * 400}n{')' * 400};",
        f"nplurals=2; plural={'n+' * 2000}n;",
        "plural=n != 1; nplurals=2;",
    ],
)
def test_broken_rules(rule: str) -> None:
    assert plural_forms(PLURALS.format(rule)) is None


def test_only_the_header_line_counts() -> None:
    assert plural_forms("X-Plural-Forms: nplurals=2; plural=n != 1;\n") is None
    assert plural_forms("") is None


PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{}"\nmsgstr "x"\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder of installed packages: `sampleapp`, the namespace package `samplespace.sub`, and a
    distribution."""
    site = tmp_path / "site"
    files = [
        "sampleapp/__init__.py",
        "sampleapp/locale/de/LC_MESSAGES/django.po",
        "sampleapp/locale/de/LC_MESSAGES/django.mo",
        "sampleapp/locale/pt_BR/LC_MESSAGES/django.po",
        "sampleapp/admin/locale/de/LC_MESSAGES/djangojs.po",
        "sampleapp/admin/locale/de/LC_MESSAGES/notes.txt",
        "samplespace/sub/locales/locales/de/LC_MESSAGES/sub.po",
        "samplespace/other/locales/de/LC_MESSAGES/other.po",
        "bareapp/__init__.py",
        "odd_module/locale/de/LC_MESSAGES/odd.po",
    ]
    for name in files:
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise ImportError('imported')" if name.endswith(".py") else PO.format(name))
    info = site / "Sample_Dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Sample-Dist\nVersion: 1.0\n")
    (info / "RECORD").write_text("odd_module/locale/de/LC_MESSAGES/odd.po,,\n")
    monkeypatch.syspath_prepend(str(site))
    return site


def test_all_catalogues_of_a_language_without_import(site):
    names = [file.name for file in list_inputs(BitextSpec(path="gettext:sampleapp:de"))]
    assert names == ["admin/locale/de/LC_MESSAGES/djangojs.po", "locale/de/LC_MESSAGES/django.po"]
    assert "sampleapp" not in sys.modules


def test_rows_and_ids(site, read):
    rows = read("gettext:samplespace.sub:de", bitext=True)
    assert [(row.id, row.texts[1]) for row in rows] == [("sub.po:1", "x")]


def test_parents_of_dotted_names_are_not_imported(site):
    assert len(package_catalogues("gettext:samplespace:de")) == 2
    assert "samplespace" not in sys.modules


@pytest.mark.parametrize("language", ["pt_BR", "pt-br", "PT_BR"])
def test_language_is_compared_without_case(site, language):
    assert len(package_catalogues(f"gettext:sampleapp:{language}")) == 1


@pytest.mark.parametrize("name", ["Sample-Dist", "sample_dist"])
def test_name_of_a_distribution(site, name):
    (file,) = package_catalogues(f"gettext:{name}:de")
    assert file.endswith("odd.po")


@pytest.mark.parametrize("name", ["no_such_package", "no.such.package", "sampleapp.nothing"])
def test_absent_package_says_how_to_install_it(site, name):
    with pytest.raises(UsageError, match=rf"'{name}' is not installed: pip install {name}$"):
        package_catalogues(f"gettext:{name}:de")


def test_absent_language_lists_those_there_are(site):
    with pytest.raises(UsageError, match="'sampleapp' has no catalogue in 'fr'; its languages are: de, pt_BR"):
        package_catalogues("gettext:sampleapp:fr")


def test_package_without_catalogues(site):
    with pytest.raises(UsageError, match="'bareapp' has no gettext catalogues"):
        package_catalogues("gettext:bareapp:de")


@pytest.mark.parametrize("path", ["gettext:", "gettext:django", "gettext::de", "gettext:a/b:de", "gettext:.a:de"])
def test_malformed_path(path):
    with pytest.raises(UsageError, match="expected gettext:PACKAGE:LANG, for example"):
        package_catalogues(path)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["django", "cms", "mercurial", "plone.app.locales", "trac", "wagtail"])
def test_every_installed_catalogue_is_read(package):
    files = [file for files in _by_language(_walk(_module_folders(package))).values() for file in files]
    if not files:
        pytest.skip("not installed")
    for file in files:
        rows = list(read_rows(BitextSpec(path=file)))
        assert {row.reason for row in rows} <= {None, "blank", "too_long"}, file


def test_format_must_fit(site):
    with pytest.raises(UsageError, match="is gettext, not tsv"):
        list_inputs(BitextSpec(path="gettext:sampleapp:de", format="tsv", columns=["source", "target"]))


def test_po_is_preferred_only_to_its_own_mo():
    files = ["a/x.mo", "a/x.po", "b/x.mo", "a/y.mo", "a/z.mo.gz", "a/z.po.xz"]
    assert prefer_po(files) == ["a/x.po", "b/x.mo", "a/y.mo", "a/z.po.xz"]
