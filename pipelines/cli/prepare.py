"""``bitext prepare``: filter bitexts, learn the vocabulary and lay the pairs out on disk for
training."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mining.errors import UsageError
from pipelines.cli.bitexts import merge, names
from pipelines.cli.say import say, warn

if TYPE_CHECKING:
    from mining.training.data import PreparedPairs

SHOWN_DOMAINS = 40
"""The table names so many domains, the largest; the others are added up in one line."""

_MANY = "several: repeat the option"


def prepare(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", help="YAML of the settings; flags override it.")
    ] = None,
    bitext: Annotated[
        list[str] | None, typer.Option(help=f"Bitext: path, glob or gettext:NAME:LANG ({_MANY}).")
    ] = None,
    form: Annotated[
        str | None, typer.Option("--format", help="auto, text, tsv, jsonl, parquet, tmx or gettext.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Names of the TSV columns in their order, comma between.")] = None,
    source: Annotated[
        str | None, typer.Option(help="Column, field, tmx language or msgid/msgstr of the source.")
    ] = None,
    target: Annotated[str | None, typer.Option(help="The same of the target.")] = None,
    domain: Annotated[str | None, typer.Option(help="Column or field with the domain (else each file is one).")] = None,
    score: Annotated[str | None, typer.Option(help="Column or field with the similarity of a pair.")] = None,
    languages: Annotated[str | None, typer.Option(help="Codes of source and target language, comma between.")] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Folder to write.")] = None,
    min_tokens: Annotated[int | None, typer.Option(help="Fewest tokens of a side (1; published: 3).")] = None,
    max_tokens: Annotated[int | None, typer.Option(help="Most tokens of a side (100).")] = None,
    max_ratio: Annotated[
        float | None, typer.Option(help="Most tokens of one side per token of the other (off).")
    ] = None,
    language_id: Annotated[
        bool | None, typer.Option("--language-id", help="Drop pairs in other languages than --languages; slow.")
    ] = None,
    duplicates: Annotated[
        bool | None, typer.Option("--drop-duplicates/--keep-duplicates", help="Keep the first of equal pairs (on).")
    ] = None,
    equal_sides: Annotated[
        bool | None, typer.Option("--drop-equal/--keep-equal", help="Drop pairs with equal sides (on).")
    ] = None,
    paraphrases: Annotated[
        bool | None,
        typer.Option(
            "--paraphrases", help="Filters of paraphrases: 5 to 40 tokens, similarity 0.4 to 1.0, overlap at most 0.7."
        ),
    ] = None,
    min_similarity: Annotated[float | None, typer.Option(help="Least similarity of the sides (off).")] = None,
    max_similarity: Annotated[float | None, typer.Option(help="Greatest similarity of the sides (off).")] = None,
    similarity_model: Annotated[
        str | None, typer.Option(help="Model whose cosine is the similarity, where there is no --score.")
    ] = None,
    max_trigram_overlap: Annotated[
        float | None, typer.Option(help="Largest share of common word trigrams (off).")
    ] = None,
    drop: Annotated[list[str] | None, typer.Option(help=f"Leave out the domains of this pattern ({_MANY}).")] = None,
    cap: Annotated[
        int | None, typer.Option(help="Most pairs of a domain, drawn at random, where no other rule fits it.")
    ] = None,
    units: Annotated[
        str | None, typer.Option(help="pieces (default), words, trigrams, ngrams; several: comma between.")
    ] = None,
    vocabulary: Annotated[int | None, typer.Option(help="Tokens of the vocabulary (20000).")] = None,
    types: Annotated[int | None, typer.Option(help="Most words, trigrams or n-grams (200000).")] = None,
    vocabulary_sentences: Annotated[int | None, typer.Option(help="Sentences they are learnt from (500000).")] = None,
    vocabulary_from: Annotated[
        str | None, typer.Option(help="Take the vocabulary of this model or prepared folder.")
    ] = None,
    lowercase: Annotated[
        bool | None, typer.Option("--lowercase/--keep-case", help="Fold case inside the pieces (on).")
    ] = None,
    max_pieces: Annotated[int | None, typer.Option(help="Cut longer sentences (100).")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of all random choices (1).")] = None,
    threads: Annotated[int | None, typer.Option(help="0: all cores (default); the result is the same.")] = None,
    overwrite: Annotated[bool | None, typer.Option("--overwrite", help="Replace pairs prepared otherwise.")] = None,
) -> None:
    """Prepare bitexts for training: filter them, learn the vocabulary, write flat arrays of ids.

    Prints what was kept and dropped, by domain and reason. Killed at any moment, the same command
    takes up what was finished; run again after that it does nothing. Several bitexts, and rules for
    domains (cap, weight, drop), are given in a configuration.

    **Examples**

    `bitext prepare --bitext pairs.tsv.xz --columns source,target --min-tokens 3 --output prepared`

    `bitext prepare --bitext en-de.tsv.xz --columns source,target,domain --domain domain --languages
    en,de --max-ratio 4
    --drop 'tatoeba.*' --cap 20000 --output prepared-en-de`

    `bitext prepare --bitext paraphrases.tsv.gz --columns source,target,score --score score
    --paraphrases --output prepared-paraphrases`

    `bitext prepare --config configs/prepare.yaml --output prepared`
    """
    flags = {f"bitext.{name}": value for name, value in {"path": bitext or None, "format": form}.items()}
    flags |= {"bitext.columns": names(columns), "bitext.source": source, "bitext.target": target}
    flags |= {"bitext.domain": domain, "bitext.score": score, "bitext.languages": names(languages)}
    given = locals()
    flags |= {f"filters.{name}": given[name] for name in _FILTERS}
    flags |= {name: given[name] for name in _PLAIN}
    flags["units"] = names(units)
    _run(config, flags, _Domains(drop or [], cap))


_FILTERS = (
    "min_tokens",
    "max_tokens",
    "max_ratio",
    "language_id",
    "duplicates",
    "equal_sides",
    "paraphrases",
    "min_similarity",
    "max_similarity",
    "similarity_model",
    "max_trigram_overlap",
)
_PLAIN = (
    "output",
    "vocabulary",
    "types",
    "vocabulary_sentences",
    "vocabulary_from",
    "lowercase",
    "max_pieces",
    "seed",
    "threads",
    "overwrite",
)


class _Domains:
    """The rules for domains given by flags."""

    def __init__(self, drop: list[str], cap: int | None) -> None:
        self._drop, self._cap = drop, cap

    def around(self, rules: Any) -> Any:
        """The rules of the configuration with those of the flags: what is dropped first, the cap of
        all others last."""
        if not isinstance(rules, list):
            return rules
        last = [{"match": "*", "cap": self._cap}] if self._cap is not None else []
        return [*({"match": pattern, "drop": True} for pattern in self._drop), *rules, *last]


def _run(config: Path | None, flags: dict[str, Any], domains: _Domains) -> None:
    from mining.config.base import read_yaml, validate
    from mining.training.data import PrepareConfig, is_prepared, open_prepared
    from mining.training.data import prepare as run_preparing

    data = _merged(read_yaml(config) if config else {}, flags)
    data["domains"] = domains.around(data.get("domains") or [])
    settings = validate(PrepareConfig, data, str(config or "bitext prepare"))
    output = Path(settings.output)
    _check_output(output)
    if not settings.overwrite and is_prepared(settings, output):
        pairs = open_prepared(output)
        say(f"already prepared with this configuration and input: nothing to do, {_summary(pairs)} in {output}")
        return
    with shown() as report:
        pairs = run_preparing(settings, output, report, settings.threads, overwrite=settings.overwrite)
    for line in table(pairs):
        say(line)
    for warning in pairs.warnings:
        warn(warning)
    say(f"{_summary(pairs)} of {pairs.rows:,} rows in {output}")


def _merged(data: dict[str, Any], flags: dict[str, Any]) -> dict[str, Any]:
    """The configuration with the flags laid over it."""
    merged = merge(data, flags, "bitext prepare")
    if not merged.get("bitext"):
        raise UsageError("bitext prepare: name the bitext with --bitext, or give --config FILE with a key `bitext`")
    if not merged.get("output"):
        raise UsageError("bitext prepare: name the folder to write with --output")
    return merged


def _check_output(output: Path) -> None:
    """Refuse a folder with anything in it that was not written by this command."""
    from mining.training.data.prepare import PARTIAL_FOLDER
    from mining.training.data.vocabularies import PREPARED_FILE

    if not output.is_dir() or (output / PREPARED_FILE).is_file():
        return
    if not (output / PARTIAL_FOLDER).is_dir() and (foreign := sorted(path.name for path in output.iterdir())):
        raise UsageError(f"{output}: not empty (it holds {foreign[0]}); name another folder with --output")


def _summary(pairs: PreparedPairs) -> str:
    sizes = ", ".join(f"{unit.size:,} {unit.kind}" for unit in pairs.tokenizers)
    return f"{len(pairs):,} pairs, {sizes}"


def table(pairs: PreparedPairs) -> list[str]:
    """Rows kept and dropped, a line for each domain and a column for each reason that occurs."""
    domains = sorted(pairs.domains, key=lambda domain: (-domain.pairs, domain.name))
    reasons = list(pairs.dropped)
    lines = [["domain", "weight", "pairs", *reasons]]
    for domain in domains[:SHOWN_DOMAINS]:
        lines.append([domain.name, f"{domain.weight:g}", *_cells(domain.pairs, domain.dropped, reasons)])
    if others := domains[SHOWN_DOMAINS:]:
        dropped = {reason: sum(domain.dropped.get(reason, 0) for domain in others) for reason in reasons}
        lines.append([f"{len(others)} more", "", *_cells(sum(domain.pairs for domain in others), dropped, reasons)])
    lines.append(["all", "", *_cells(len(pairs), pairs.dropped, reasons)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [_line(cells, widths) for cells in lines]


def _cells(pairs: int, dropped: dict[str, int], reasons: list[str]) -> list[str]:
    return [f"{pairs:,}", *(f"{dropped[reason]:,}" if dropped.get(reason) else "-" for reason in reasons)]


def _line(cells: list[str], widths: list[int]) -> str:
    first = cells[0].ljust(widths[0])
    return "  ".join([first, *(cell.rjust(width) for cell, width in zip(cells[1:], widths[1:], strict=True))])


@contextmanager
def shown() -> Iterator[Callable[[str, int], None]]:
    """Shows stage and pairs on stderr: a live line on a terminal, a line for each stage
    elsewhere."""
    from rich.progress import Progress, TextColumn, TimeElapsedColumn

    from mining.console import SafeConsole

    console = SafeConsole(stderr=True)
    with Progress(
        TextColumn("{task.description}"), TimeElapsedColumn(), console=console, disable=not console.is_terminal
    ) as bar:
        task = bar.add_task("", total=None)
        last = ""

        def report(stage: str, pairs: int) -> None:
            nonlocal last
            if console.is_terminal:
                bar.update(task, description=describe(stage, pairs))
            elif stage != last:
                console.print(describe(stage, 0), highlight=False)
            last = stage

        yield report


_STAGES = {
    "reading": "reading and filtering",
    "vocabulary": "learning the vocabulary",
    "pieces": "splitting into units",
}


def describe(stage: str, pairs: int) -> str:
    """One line on the progress of preparing."""
    text = _STAGES.get(stage, stage)
    return f"{text}: {pairs:,} pairs" if pairs else text
