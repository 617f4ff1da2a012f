"""Formats of corpora, one a module: which files have it, what settings it takes, and its reader.

A format is known by the name of its module, which is what ``format`` and ``--format`` say. A new
module with a registered `Format` is all that a new format needs::

    class Csv(Format):
        extensions = (".csv",)

        def read(self, spec, file, digest=None): ...

    FORMATS.register("csv")(Csv())
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from mining.errors import UsageError
from mining.registry import Registry

if TYPE_CHECKING:
    import pyarrow as pa

    from mining.config.corpus import RowRules
    from mining.corpus.compression import Digest
    from mining.corpus.inputs import InputFile

NO_ID = "set id: '' for generated ids"
"""The mend where a column happens to be called ``id`` and holds none."""


class Layout(NamedTuple):
    """What is read from a file: the names of the text fields (one for a corpus, two for a bitext),
    and of further fields whose values go along with a row."""

    fields: tuple[str, ...]
    extra: tuple[str, ...] = ()


class Format(ABC):
    """One format of files, without state. The rules below are those of a format with named fields;
    others override them."""

    extensions: ClassVar[tuple[str, ...]] = ()
    """How its files end, in lower case, before the extension of a compression."""
    pair_fields: ClassVar[tuple[str, str]] = ("source", "target")
    """The text fields of a bitext whose settings name none."""
    takes_columns: ClassVar[bool] = False
    """Whether ``columns`` declares the columns of its files."""
    aligned: ClassVar[bool] = False
    """Whether a bitext is two files, aligned by line."""
    own_paths: ClassVar[bool] = False
    """Whether ``NAME:...``, with the name of the format, is a path that `expand` understands."""

    def expand(self, path: str) -> list[str]:
        """The files meant by a path ``NAME:...``; raises UsageError where there are none."""
        return [path]

    def chosen(self, files: list[str]) -> list[str]:
        """Those of the files of a spec that are read, where one says all that another says."""
        return files

    def layout(self, spec: RowRules, path: str) -> Layout:
        """The fields to be read of one file; raises UsageError for what the settings and the format
        do not agree on."""
        fields = spec.text_fields(self.pair_fields)
        self.check(spec, fields, path)
        if len(set(fields)) != len(fields):
            raise UsageError(f"{path}: source and target are both '{fields[0]}': name two different ones")
        return Layout(fields, spec.extra_fields)

    def check(self, spec: RowRules, fields: tuple[str, ...], path: str) -> None:  # noqa: B027 (most have nothing to check)
        """Raise UsageError where the settings ask for what files of this format do not have."""

    @abstractmethod
    def read(self, spec: RowRules, file: InputFile, digest: Digest | None = None) -> Iterator[pa.Table]:
        """The rows of one file as tables of `TableForm`; see `mining.corpus.read_tables`."""


FORMATS: Registry[Format] = Registry("format", "mining.corpus.formats")


def name_of(spec: RowRules, path: str) -> str:
    """The name of the format of a file, by the settings or else by its extension; raises UsageError
    where neither tells."""
    from mining.corpus.compression import without_compression

    if spec.format != "auto":
        return spec.format
    extension = os.path.splitext(without_compression(path))[1].lower()
    extensions = {end: name for name in FORMATS for end in FORMATS[name].extensions}
    name = extensions.get(extension)
    if spec.columns is not None and name in (None, "text"):
        return "tsv"
    if name is None:
        raise UsageError(
            f"{path}: cannot tell the format from the extension '{extension}' (known: {', '.join(extensions)}): "
            "set format: text, or format: tsv with the columns, for example columns: [id, text]"
        )
    return name


def format_of(spec: RowRules, path: str) -> Format:
    """The format of a file; see `name_of`."""
    return FORMATS[name_of(spec, path)]


def refuse_fields(spec: RowRules, name: str, path: str, only_id: str | None = None) -> None:
    """Raise UsageError where settings ask for a domain or score, or for another id than `only_id`,
    in a format that has no such fields."""
    if spec.extra_fields:
        raise UsageError(
            f"{path}: {name} has no column '{spec.extra_fields[0]}': leave out `domain` and `score` (without a domain, "
            "the file is the domain), or write TSV, JSON lines or Parquet"
        )
    if spec.id and spec.id != only_id:
        missing = f"{name} has no column '{spec.id}' for ids: leave out `id`, ids are generated"
        other = f"the only id in {name.upper()} is `{only_id}`: set id: {only_id} or leave it out"
        raise UsageError(f"{path}: {other if only_id else missing}")
