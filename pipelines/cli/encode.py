"""``bitext encode``: sentences of any corpus format to a file of unit vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from mining.errors import UsageError
from pipelines.cli.say import say


def encode(
    inputs: Annotated[
        list[str] | None, typer.Argument(metavar="INPUT...", help="Files, globs or gettext:NAME:LANG.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model folder, as `bitext train` writes it; default: the bundled model."),
    ] = None,
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="File to write: .npy (with two companions) or .parquet.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML with the keys input, model, out, ...; flags win.")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="auto, text, tsv, jsonl, parquet, tmx or gettext.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the TSV columns in their order, comma between.")] = None,
    text: Annotated[
        str | None, typer.Option(help="Column or field of the text; language code (tmx); msgid or msgstr.")
    ] = None,
    id_: Annotated[
        str | None,
        typer.Option("--id", help="Column or field of the id; otherwise (or if it is '') FILE:LINE is the id."),
    ] = None,
    invalid_utf8: Annotated[str | None, typer.Option(help="strict, replace or skip.")] = None,
    on_bad_row: Annotated[str | None, typer.Option(help="error or skip.")] = None,
    max_chars: Annotated[int | None, typer.Option(help="Longer texts are invalid rows (10000).")] = None,
    dtype: Annotated[str | None, typer.Option(help="Of the vectors written: float32 (default) or float16.")] = None,
    dim: Annotated[int | None, typer.Option(help="Keep only so many of the first dimensions.")] = None,
    table_dtype: Annotated[
        str | None, typer.Option(help="Of the model's tables in memory: float32 (default), float16 or int8.")
    ] = None,
    language: Annotated[
        str | None, typer.Option(help="Language of the text, for a model that keeps its languages apart.")
    ] = None,
    threads: Annotated[int | None, typer.Option(help="0: all cores (default).")] = None,
    device: Annotated[str | None, typer.Option(help="cpu (default) or cuda.")] = None,
) -> None:
    """Encode sentences into unit vectors, one row for each row of the input.

    A row that cannot be used (blank, too long, without pieces) is a zero vector marked invalid.
    Memory does not grow with the input.

    **Examples**

    `bitext encode news.txt.gz -o news.npy`

    `bitext encode --model model-en-de news.txt.gz -o news.npy --dim 128 --table-dtype int8`

    `bitext encode -m model-en-de corpus.de --format tsv --columns id,text -o corpus.parquet --dtype
    float16`

    `bitext encode -m model-en-de gettext:django:de --text msgstr -o django.npy`
    """
    from mining.config.base import override, read_yaml, validate
    from mining.encoder.corpus_vectors import EncodeConfig, encode_corpus

    names = [name.strip() for name in columns.split(",")] if columns is not None else None
    flags: dict[str, Any] = {"model": model, "out": out, "dtype": dtype, "threads": threads, "device": device}
    flags |= {"dim": dim, "table_dtype": table_dtype, "language": language}
    flags |= {"input.path": inputs or None, "input.format": form, "input.columns": names, "input.id": id_}
    flags |= {"input.text": text, "input.invalid_utf8": invalid_utf8, "input.on_bad_row": on_bad_row}
    flags |= {"input.max_chars": max_chars}
    data = override(read_yaml(config) if config else {}, flags)
    _require(data)
    settings = validate(EncodeConfig, data, str(config or "bitext encode"))
    with _shown() as advance:
        written, reasons, replaced, words = encode_corpus(settings, advance)
    why = "".join(f", {count} {reason}" for reason, count in reasons.items())
    invalid = f"{written.invalid} invalid{' (' + why[2:] + ')' if why else ''}"
    if replaced:
        invalid += f", {replaced} with U+FFFD for bytes that are no UTF-8"
    if words is not None:
        known = f"{words.looked_up:,} words, {words.hit_rate:.1%} found in the table"
        say(f"{known}; {words.words:,} distinct ones kept in {words.memory / (1 << 20):.0f} MiB", err=True)
    say(f"{written.rows} rows, {invalid}, dimension {written.dim}, in {settings.out}")


def _require(data: dict[str, Any]) -> None:
    for key, mend in (
        ("input", "name the files to encode"),
        ("out", "name the file to write with -o, ending in .npy or .parquet"),
    ):
        if not data.get(key):
            raise UsageError(f"bitext encode: {mend}")


@contextmanager
def _shown() -> Iterator[Callable[[int], None]]:
    """Shows rows and rows per second on stderr, if that is a terminal."""
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    from mining.console import SafeConsole

    rows = TextColumn("encoded {task.completed:,.0f} rows, {task.fields[speed]} rows/s")
    console = SafeConsole(stderr=True)
    columns = SpinnerColumn(), rows, TimeElapsedColumn()
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None, speed="0")
        yield lambda count: bar.update(task, advance=count, speed=f"{bar.tasks[0].speed or 0:,.0f}")
