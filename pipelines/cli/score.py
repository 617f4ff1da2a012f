"""``bitext score``: cosine and margin of given pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mining.errors import UsageError
from pipelines.cli.say import say, warn

_POOL = "text corpus of any format, or vectors written by `bitext encode`"

SCORE_HELP = """Add cosine, and with pools the margin, to a file of aligned pairs.

Every row of the input gives one row, in order, with its texts as they were. A row that cannot be scored (a blank side,
a text too long) has empty scores and a reason.

Examples:

    bitext score pairs.tsv --columns source,target -o scores.tsv

    bitext score --model model pairs.tsv --columns source,target -o scores.tsv

    bitext score -m model corpus.de corpus.en --format text -o scores.parquet

    bitext score -m model pairs.jsonl -o scores.jsonl --source-pool mono.de.txt.xz --target-pool en.npy --k 4
"""


def score(
    pairs: Annotated[
        list[str] | None, typer.Argument(help="File of aligned pairs; for plain text its two line-aligned files.")
    ] = None,
    output: Annotated[str | None, typer.Option("--output", "-o", help="Where to: .tsv, .jsonl or .parquet.")] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model folder written by `bitext train` [the bundled model]."),
    ] = None,
    format: Annotated[str | None, typer.Option(help="Format of the pairs; default: by extension.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of TSV pairs, for example id,source,target.")] = None,
    source: Annotated[str | None, typer.Option(help="Name of the source column or field; TMX: language.")] = None,
    target: Annotated[str | None, typer.Option(help="Name of the target column or field; TMX: language.")] = None,
    id: Annotated[str | None, typer.Option(help="Name of the id column or field.")] = None,
    max_chars: Annotated[int | None, typer.Option(help="Longer texts are kept but not scored [10000].")] = None,
    invalid_utf8: Annotated[str | None, typer.Option(help="strict, replace or skip [strict].")] = None,
    on_bad_row: Annotated[str | None, typer.Option(help="error or skip [error].")] = None,
    source_pool: Annotated[str | None, typer.Option(help=f"Neighbours on the source side: {_POOL}.")] = None,
    target_pool: Annotated[str | None, typer.Option(help=f"Neighbours on the target side: {_POOL}.")] = None,
    pool_format: Annotated[str | None, typer.Option(help="Format of the pools; default: by extension.")] = None,
    pool_columns: Annotated[str | None, typer.Option(help="Columns of TSV pools, for example id,text.")] = None,
    source_pool_text: Annotated[str | None, typer.Option(help="Text column or field of the source pool.")] = None,
    target_pool_text: Annotated[str | None, typer.Option(help="Text column or field of the target pool.")] = None,
    k: Annotated[int | None, typer.Option(help="Neighbours in a mean [4].")] = None,
    margin: Annotated[str | None, typer.Option(help="ratio, distance or absolute [ratio].")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads for encoding; 0: all cores.")] = None,
    device: Annotated[str | None, typer.Option(help="Where to encode [cpu].")] = None,
    dim: Annotated[int | None, typer.Option(help="Keep only so many of the first dimensions.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of the model's tables in memory: float32, float16 or int8 [float32].")
    ] = None,
    source_language: Annotated[
        str | None, typer.Option(help="Language of the source, for a model that keeps its languages apart.")
    ] = None,
    target_language: Annotated[str | None, typer.Option(help="Language of the target, likewise.")] = None,
    config: Annotated[Path | None, typer.Option(help="YAML file with these settings; flags override it.")] = None,
) -> None:
    from mining.config.base import validate
    from mining.io.atomic import refuse_input
    from mining.scoring import ScoreConfig, score_file

    given = {name: value for name, value in locals().items() if name in _FLAGS}
    where = str(config) if config is not None else "bitext score"
    settings = validate(ScoreConfig, _settings(given, config), where)
    of_pools = [name for name in _OF_POOLS if given[name] is not None]
    if of_pools and settings.source_pool is None:
        raise UsageError(
            f"--{of_pools[0].replace('_', '-')} is for the margin against pools: give --source-pool and --target-pool, "
            "or leave it out"
        )
    if config is not None:
        refuse_input(settings.output, [config])
    _report(score_file(settings), settings)


score.__doc__ = SCORE_HELP

_PAIRS_FLAGS = ("format", "columns", "source", "target", "id", "max_chars", "invalid_utf8", "on_bad_row")
_POOL_FLAGS = ("source_pool", "target_pool", "pool_format", "pool_columns", "source_pool_text", "target_pool_text")
_OF_POOLS = ("pool_format", "pool_columns", "source_pool_text", "target_pool_text", "k", "margin")
_TOP_FLAGS = (
    *("output", "model", "k", "margin", "threads", "device"),
    *("dim", "dtype", "source_language", "target_language"),
)
_FLAGS = frozenset(("pairs", *_PAIRS_FLAGS, *_POOL_FLAGS, *_TOP_FLAGS))


def _settings(given: dict[str, Any], config: Path | None) -> dict[str, Any]:
    """The settings of the file with the flags laid over them."""
    from mining.config.base import override, read_yaml

    data = read_yaml(config) if config is not None else {}
    given["columns"], given["pool_columns"] = _names(given["columns"]), _names(given["pool_columns"])
    flags = {name: given[name] for name in _TOP_FLAGS}
    flags |= {f"pairs.{name}": given[name] for name in _PAIRS_FLAGS} | {"pairs.path": given["pairs"] or None}
    for side in ("source", "target"):
        pool = f"{side}_pool"
        if given[pool] is not None or pool in data:
            flags |= {f"{pool}.path": given[pool], f"{pool}.text": given[f"{pool}_text"]}
            flags |= {f"{pool}.format": given["pool_format"], f"{pool}.columns": given["pool_columns"]}
    return override(data, flags)


def _names(text: str | None) -> list[str] | None:
    return [name.strip() for name in text.split(",")] if text else None


def _report(scorer: Any, settings: Any) -> None:
    from mining.scoring import SCORED

    for pool in scorer.pools or ():
        say(
            f"pool {pool.name}: {len(pool.vectors)} distinct sentences of {pool.rows} rows "
            f"({pool.repeated} repeated, {pool.unusable} unusable)",
            err=True,
        )
    if scorer.floored:
        warn(f"{scorer.floored} pairs are far from both pools; their ratio is set to 0")
    left_out = {reason: n for reason, n in sorted(scorer.tally.items()) if reason != SCORED}
    reasons = f" ({', '.join(f'{n} {reason}' for reason, n in left_out.items())})" if left_out else ""
    kind = f"cosine and {settings.margin} margin" if scorer.pools else "cosine"
    say(
        f"{scorer.tally[SCORED]} of {sum(scorer.tally.values())} pairs scored ({kind}), "
        f"{sum(left_out.values())} without a score{reasons}: {settings.output}"
    )
