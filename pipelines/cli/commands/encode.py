"""``bitext encode``: sentences of any corpus format to a file of unit vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pipelines.cli.commands import COMMANDS
from pipelines.cli.options import Call, command
from pipelines.cli.say import say
from pipelines.progress import counting

if TYPE_CHECKING:
    from mining.config.encode import EncodeConfig


@COMMANDS.register("encode")
@command(
    "mining.config.encode:EncodeConfig",
    "encode news.txt.gz -o news.npy",
    "encode --model model-en-de news.txt.gz -o news.npy --dim 128 --table-dtype int8",
    "encode -m model-en-de corpus.de --format tsv --columns id,text -o corpus.parquet --dtype float16",
    "encode -m model-en-de gettext:django:de --text msgstr -o django.npy",
)
def encode(settings: EncodeConfig, call: Call) -> None:
    """Encode sentences into unit vectors, one row for each row of the input.

    A row that cannot be used (blank, too long, without pieces) is a zero vector marked invalid.
    Memory does not grow with the input.
    """
    from mining.encoder.vector_file import encode_corpus

    with counting("encoded") as advance:
        written, reasons, replaced, words = encode_corpus(settings, advance)
    why = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
    invalid = f"{written.invalid} invalid{f' ({why})' if why else ''}"
    if replaced:
        invalid += f", {replaced} with U+FFFD for bytes that are no UTF-8"
    if words is not None:
        known = f"{words.looked_up:,} words, {words.hit_rate:.1%} found in the table"
        say(f"{known}; {words.words:,} distinct ones kept in {words.memory / (1 << 20):.0f} MiB", err=True)
    say(f"{written.rows} rows, {invalid}, dimension {written.dim}, in {settings.out}")
