"""``bitext mine``: from two piles of sentences to scored, aligned pairs."""

from __future__ import annotations

import logging
from typing import Annotated, Any

import typer

from mining.errors import UsageError
from pipelines.cli.say import say, warn


def _corpus(path: list[str] | None, form: str | None, columns: str | None, text: str | None, given: object) -> Any:
    """The corpus of one side from flags laid over that of the configuration file."""
    flags = {"path": path or None, "format": form, "columns": columns.split(",") if columns else None, "text": text}
    flags = {key: value for key, value in flags.items() if value is not None}
    return {**given, **flags} if isinstance(given, dict) else flags or given


def mine(
    config: Annotated[str | None, typer.Option(help="YAML file with the settings below; flags override it.")] = None,
    source: Annotated[list[str] | None, typer.Option(help="Source sentences: path, glob or gettext:NAME:LANG.")] = None,
    target: Annotated[list[str] | None, typer.Option(help="Target sentences, likewise.")] = None,
    model: Annotated[
        str | None, typer.Option(help="Model folder made by `bitext train`; default: the bundled model.")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Run folder; the same command goes on where it was stopped.")
    ] = None,
    gold: Annotated[
        str | None, typer.Option(help="Gold pairs (source id, tab, target id): tune the threshold and evaluate.")
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="Format of both sides: text, tsv, jsonl, parquet, tmx, gettext.")
    ] = None,
    columns: Annotated[str | None, typer.Option(help="Columns of TSV files, for example id,text.")] = None,
    source_text: Annotated[str | None, typer.Option(help="Column, field or language of the source text.")] = None,
    target_text: Annotated[str | None, typer.Option(help="Column, field or language of the target text.")] = None,
    k: Annotated[int | None, typer.Option(help="Nearest neighbours a side (4).")] = None,
    margin: Annotated[str | None, typer.Option(help="ratio, distance or absolute (ratio).")] = None,
    strategy: Annotated[str | None, typer.Option(help="max, intersection, forward or backward (max).")] = None,
    threshold: Annotated[str | None, typer.Option(help="A number, tune (on gold) or none.")] = None,
    candidates: Annotated[bool | None, typer.Option(help="Keep all k candidates (kept anyway with gold).")] = None,
    method: Annotated[
        str | None, typer.Option(help="Search: auto (by rows, see `bitext plan`), exact, clusters or faiss.")
    ] = None,
    clusters: Annotated[int | None, typer.Option(help="Number of clusters (by rows).")] = None,
    nearest: Annotated[int | None, typer.Option(help="Clusters that a row is in (10).")] = None,
    index: Annotated[
        str | None, typer.Option(help="FAISS factory string, for example IVF256,Flat: search by faiss.")
    ] = None,
    parameters: Annotated[str | None, typer.Option(help="FAISS search parameters (nprobe=8 for IVF).")] = None,
    rescore: Annotated[
        int | None, typer.Option(help="How many more than k a FAISS index proposes; their cosines decide (12).")
    ] = None,
    backend: Annotated[str | None, typer.Option(help="Exact search by torch or faiss (torch).")] = None,
    device: Annotated[
        str | None,
        typer.Option(
            help="cpu or cuda, for encoding and search; of several (cuda:0,cuda:1 or cuda:all) the first encodes."
        ),
    ] = None,
    dim: Annotated[int | None, typer.Option(help="Keep only so many of the first dimensions.")] = None,
    dtype: Annotated[
        str | None, typer.Option(help="Of the model's tables in memory: float32 (default), float16 or int8.")
    ] = None,
    source_language: Annotated[
        str | None, typer.Option(help="Language of the source, for a model that keeps its languages apart.")
    ] = None,
    target_language: Annotated[str | None, typer.Option(help="Language of the target, likewise.")] = None,
    shard_rows: Annotated[int | None, typer.Option(help="Rows of a shard (250,000).")] = None,
    runner: Annotated[str | None, typer.Option(help="Beam runner: FnApiRunner, DaskRunner, FlinkRunner, …")] = None,
    workers: Annotated[int | None, typer.Option(help="Steps at a time in this process (1).")] = None,
    threads: Annotated[int | None, typer.Option(help="Threads of a step (all cores / workers).")] = None,
    dask_address: Annotated[str | None, typer.Option(help="Dask scheduler, with --runner DaskRunner.")] = None,
    quiet: Annotated[bool, typer.Option(help="No progress.")] = False,
) -> None:
    """Find the pairs of sentences that translate each other in two piles, score them, and write
    them out.

    **Examples**

    `bitext mine --source news.de.txt --target news.en.txt --model model --output run`

    `bitext mine --source de.tsv --target en.tsv --columns id,text --gold gold.tsv --model model
    --output run`

    `bitext mine --config configs/bucc.yaml --margin distance --strategy intersection`
    """
    from mining.config.base import override, read_yaml, validate
    from mining.config.mine import MineConfig
    from mining.devices import first_device

    data = read_yaml(config) if config else {}
    flags = {
        "source": _corpus(source, format, columns, source_text, data.get("source")),
        "target": _corpus(target, format, columns, target_text, data.get("target")),
        "model": model,
        "output": output,
        "gold": gold,
        "search.k": k,
        "margin": margin,
        "strategy": strategy,
        "threshold": threshold,
        "candidates": candidates,
        "search.method": method or ("faiss" if index else None),
        "search.clusters": clusters,
        "search.nearest": nearest,
        "search.rescore": rescore,
        "search.index": index,
        "search.parameters": parameters,
        "search.backend": backend,
        "search.device": device,
        "encode.device": None if device is None else first_device(device),
        "encode.dim": dim,
        "encode.dtype": dtype,
        "encode.source_language": source_language,
        "encode.target_language": target_language,
        "shard.rows": shard_rows,
        "runner.name": runner,
        "runner.workers": workers,
        "runner.threads": threads,
        "runner.dask_address": dask_address,
    }
    data = override(data, flags)
    for name in ("source", "target", "output"):
        if data.get(name) is None:
            raise UsageError(f"nothing given for {name}: use --{name}, or '{name}:' in the file of --config")
    settings = validate(MineConfig, data, config or "command line")

    from pipelines.cli.summary import closing_line, show_report
    from pipelines.mine import run_mine

    if quiet:
        logging.getLogger("mining.compiled.cache").setLevel(logging.WARNING)
    result = run_mine(settings, quiet)
    if not quiet:
        show_report(result)
    for line in result.changed:
        warn(f"{line} since the run began: the result is of what was there then")
    say(closing_line(result))
