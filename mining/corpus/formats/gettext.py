"""gettext catalogues (.po and .mo): translated messages as rows; also those inside installed Python
packages, found without importing the package."""

from __future__ import annotations

import codecs
import importlib.metadata
import importlib.util
import os
import re
import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from mining.config.corpus import CorpusSpec, RowRules
from mining.corpus.compression import Digest, read_all, without_compression
from mining.corpus.formats import FORMATS, Format, Layout, refuse_fields
from mining.corpus.formats._gettext import Fault, Message, PluralForms, parse_mo, parse_po, plural_forms
from mining.corpus.inputs import InputFile
from mining.corpus.lines import text_encoding
from mining.corpus.rows import Row, TableForm, dropped, generated_id, invalid_utf8_error, make_row
from mining.errors import InputError, UsageError
from mining.schemas import Reason

_CHARSET = re.compile(r"\bcharset\s*=\s*[\"']?([\w.:-]+)", re.IGNORECASE)  # wherever in the header, as for msgfmt
_ESCAPED = re.compile("[\udc80-\udcff]")
_ESCAPE = re.compile(r"\\([nt\"\\])")
_IDENTIFIER = re.compile(r"[a-z0-9][!-~]*|[!-~]*(?:_|\w[.:]\w|[a-z][A-Z])[!-~]*", re.ASCII)
_LONGEST_IDENTIFIER = 200
_QUOTE = re.compile(r'(?<!\\)(?:\\\\)*"')
_CLOSING = re.compile(r'(?<!\\)(?:\\\\)*"$')
_HYPHENATED = re.compile(r"\w-$")
_MEND = "correct it or fetch it again"


class _Pair(NamedTuple):
    """Line (.po) or position (.mo) of a message, its source text and its translation."""

    position: int
    source: str
    translation: str


class GettextFormat(Format):
    """gettext: the text fields are ``msgid`` and ``msgstr``."""

    extensions = (".po", ".mo")
    pair_fields = ("msgid", "msgstr")
    own_paths = True

    def expand(self, path: str) -> list[str]:
        """See `package_catalogues`."""
        return package_catalogues(path)

    def chosen(self, files: list[str]) -> list[str]:
        """See `prefer_po`."""
        return prefer_po(files)

    def check(self, spec: RowRules, fields: tuple[str, ...], path: str) -> None:
        """See `Format.check`."""
        if not set(fields) <= set(self.pair_fields):
            mend = "set source: msgid and target: msgstr, or the reverse"
            if isinstance(spec, CorpusSpec):
                mend = "set text: msgid (what the program says) or text: msgstr (its translation)"
            raise UsageError(f"{path}: gettext has no '{fields[0]}': {mend}")
        refuse_fields(spec, "gettext", path)

    def read(self, spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
        """Rows of one catalogue, which is read whole: catalogues are small."""
        return TableForm(spec).tables(message_rows(spec, file, self.layout(spec, file.path), digest))


FORMATS.register("gettext")(GettextFormat())


def message_rows(spec: RowRules, file: InputFile, layout: Layout, digest: Digest | None = None) -> Iterator[Row]:
    """Rows of one catalogue; the record number counts the rows.

    The header and obsolete, fuzzy and untranslated messages are no rows. A message with plural
    forms gives two: the singular and the plural, each with the form that the rule in the header
    gives it; without a rule, the first form and the last. A form that is missing gives no row.
    Where the msgid is a key and the extracted comment says ``Default: "..."`` (Plone's convention),
    that default is the source text; .mo files have no comments. What ``msgfmt`` refuses is a bad
    row.
    """
    for number, item in enumerate(_rows(file.path, digest), 1):
        row_id = generated_id(file.name, number)
        if isinstance(item, Fault):
            if spec.on_bad_row == "error":
                problem = f"not a sound gettext catalogue ({item.problem}): {_MEND}, or set on_bad_row: skip"
                raise InputError(f"{file.path}, line {item.line}: {problem}")
            texts = (_ESCAPED.sub("\ufffd", item.content),) * len(layout.fields)
            yield dropped(row_id, texts, file.name, number, Reason.BAD_ROW)
            continue
        texts = tuple(item.source if field == "msgid" else item.translation for field in layout.fields)
        cleaned = tuple(_ESCAPED.sub("\ufffd", text) for text in texts)
        if cleaned != texts and spec.invalid_utf8 == "strict":
            where = "entry" if _is_mo(file.path) else "line"
            raise invalid_utf8_error(file.path, item.position, "or not of the charset that the header declares", where)
        if cleaned != texts and spec.invalid_utf8 == "skip":
            yield dropped(row_id, cleaned, file.name, number, Reason.INVALID_UTF8)
        else:
            row = make_row(row_id, cleaned, file.name, number, spec.max_chars)
            yield row._replace(replaced=cleaned != texts)


def _is_mo(path: str) -> bool:
    return without_compression(path).lower().endswith(".mo")


def _rows(path: str, digest: Digest | None) -> Iterator[_Pair | Fault]:
    """What the messages of a catalogue give; undecodable bytes are surrogate escapes."""
    messages, header = _catalogue(path, digest)
    rule = plural_forms(header)
    for message in messages:
        if isinstance(message, Fault):
            yield message
        elif not (message.is_header or message.obsolete or message.fuzzy):
            yield from _pairs(message, rule)


def _catalogue(path: str, digest: Digest | None) -> tuple[Iterable[Message | Fault], str]:
    """The messages, and the header as far as ASCII goes. It is looked for first, since it names the
    charset."""
    data = read_all(path, digest)
    if _is_mo(path):
        try:
            header = _header(parse_mo(data, "latin-1"))
            return list(parse_mo(data, _charset(header))), header
        except (ValueError, struct.error) as error:
            raise InputError(f"{path}: not a sound gettext catalogue ({error}): {_MEND}") from None
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in data[:4]:
        raise InputError(f"{path}: gettext catalogues are not written in UTF-16: convert it to UTF-8")
    text = data.removeprefix(codecs.BOM_UTF8)
    header = _header(parse_po(text.decode("latin-1"), "latin-1"))
    charset = _charset(header) if text is data else "utf-8"
    return parse_po(text.decode(charset, "surrogateescape"), charset), header


def _header(messages: Iterable[Message | Fault]) -> str:
    for message in messages:
        if isinstance(message, Message) and message.is_header and not message.obsolete:
            return message.forms[0]
    return ""


def _charset(header: str) -> str:
    """The charset that the header declares; UTF-8 where it declares none that exists."""
    found = _CHARSET.search(header)
    return (text_encoding(found[1]) if found else None) or "utf-8"


def _pairs(message: Message, rule: PluralForms | None) -> Iterator[_Pair]:
    forms = message.forms
    wanted = [(_source_text(message), 0)]
    if message.plural is not None:
        singular, plural = (rule.singular, rule.plural) if rule else (0, len(forms) - 1)
        wanted = [(wanted[0][0], singular), (message.plural, plural)]
    found = [_Pair(message.line, source, forms[form]) for source, form in wanted if form < len(forms)]
    if all(pair.translation for pair in found):
        yield from found


def _source_text(message: Message) -> str:
    """The msgid; where it is a key, the default that the comment gives for it.

    Beside a msgid that is itself a text, the default is of another language or of another message.
    """
    if message.comment and len(message.source) <= _LONGEST_IDENTIFIER and _IDENTIFIER.fullmatch(message.source):
        return _default(message.comment) or message.source
    return message.source


def _default(comment: tuple[str, ...]) -> str:
    r"""The text after ``Default:``: one quoted string or several, of which each may be wrapped over
    lines.

    Without a closing quotation mark the text is cut, and none; with other text after that mark it
    is unclear where it ends."""
    strings: list[str] = []
    wrapped: list[str] = []
    for line in comment:
        if not strings and not wrapped:
            line = line[len("Default:") :].lstrip() if line.startswith("Default:") else ""
        if not wrapped and not line.startswith('"'):
            if strings:
                break
            continue
        wrapped.append(line if wrapped else line[1:])
        if _CLOSING.search(wrapped[-1]):
            strings.append(_unwrapped(wrapped)[:-1])
            wrapped = []
        elif _QUOTE.search(wrapped[-1]):
            return ""
    return "" if wrapped else "".join(strings)


def _unwrapped(lines: list[str]) -> str:
    """Lines were wrapped at a space, which is put back, or after a hyphen inside a word."""
    text = "".join(f"{line}{'' if _HYPHENATED.search(line) else ' '}" for line in lines[:-1]) + lines[-1]
    return _ESCAPE.sub(lambda escape: {"n": "\n", "t": "\t"}.get(escape[1], escape[1]), text)


_NAME = re.compile(r"gettext:([A-Za-z0-9_](?:[A-Za-z0-9._-]*[A-Za-z0-9_])?):([A-Za-z0-9_@.-]+)")


def package_catalogues(path: str) -> list[str]:
    """The catalogue files meant by ``gettext:PACKAGE:LANG``, sorted; of a .po and .mo of one name
    only the .po.

    PACKAGE is a module (``django``, ``plone.app.locales``) or the name of a distribution
    (``djangorestframework``); LANG is the folder above ``LC_MESSAGES``, compared without case and
    with ``-`` equal to ``_``. Raises UsageError if the package is not installed, or has no
    catalogue of that language (naming those it has).
    """
    parsed = _NAME.fullmatch(path)
    if parsed is None:
        raise UsageError(f"{path}: expected gettext:PACKAGE:LANG, for example gettext:django:de")
    package, language = parsed.groups()
    folders = _module_folders(package)
    by_language = _by_language(_walk(folders)) or _by_language(_distribution_files(package, bool(folders)))
    if not by_language:
        raise UsageError(f"{path}: the package '{package}' has no gettext catalogues (LANG/LC_MESSAGES/*.po or *.mo)")
    files = [file for name in by_language if _folded(name) == _folded(language) for file in by_language[name]]
    if not files:
        languages = ", ".join(sorted(by_language))
        raise UsageError(f"{path}: '{package}' has no catalogue in '{language}'; its languages are: {languages}")
    return sorted(prefer_po(files))


def prefer_po(files: Iterable[str]) -> list[str]:
    """The files without each .mo whose .po, of the same folder and stem, is there too: it says
    more."""
    files = list(files)
    stems = {stem for stem, extension in map(_split, files) if extension == ".po"}
    return [file for file in files if _split(file)[1] != ".mo" or _split(file)[0] not in stems]


def _split(file: str) -> tuple[str, str]:
    stem, extension = os.path.splitext(without_compression(file))
    return stem, extension.lower()


def _folded(language: str) -> str:
    return language.lower().replace("-", "_")


def _module_folders(package: str) -> list[str]:
    """The folders of a module. Only its top level goes through the import system, since more would
    import parents."""
    top, *rest = package.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    roots = list(spec.submodule_search_locations or []) if spec else []
    folders = [os.path.join(root, *rest) for root in roots]
    return [folder for folder in folders if os.path.isdir(folder)]


def _walk(folders: list[str]) -> Iterator[str]:
    for folder in folders:
        for parent, _, names in os.walk(folder):
            yield from (os.path.join(parent, name) for name in names)


def _distribution_files(package: str, is_module: bool) -> Iterator[str]:
    try:
        distribution = importlib.metadata.distribution(package)
    except importlib.metadata.PackageNotFoundError:
        if is_module:
            return
        raise UsageError(f"gettext: the Python package '{package}' is not installed: pip install {package}") from None
    for file in distribution.files or []:
        yield str(distribution.locate_file(file))


def _by_language(files: Iterable[str]) -> dict[str, list[str]]:
    languages: dict[str, list[str]] = {}
    for file in files:
        folder = os.path.dirname(file)
        is_catalogue = _split(file)[1] in (".po", ".mo") and os.path.basename(folder) == "LC_MESSAGES"
        if is_catalogue and os.path.isfile(file):
            languages.setdefault(os.path.basename(os.path.dirname(folder)), []).append(file)
    return languages
