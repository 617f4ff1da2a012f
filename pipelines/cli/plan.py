"""``bitext plan``: which search is right for so many rows, and what it will take."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from mining.errors import UsageError
from pipelines.cli.say import say


def _rows(text: str | None, name: str) -> int | None:
    """``1000000``, ``1e6`` or ``1_000_000``."""
    if text is None:
        return None
    try:
        number = float(text.replace("_", "").replace(",", ""))
    except ValueError:
        number = -1.0
    if not 1 <= number < 1e15:
        raise UsageError(f"--{name} {text}: give a number of rows from 1 to 1e15, for example 1e6")
    return int(number)


def _bytes(text: str | None, name: str) -> int | None:
    from mining.config.mine import parse_size

    if text is None:
        return None
    try:
        count = int(str(parse_size(text)))
    except ValueError as error:
        raise UsageError(f"--{name}: {error}") from None
    if count < 1_000_000:
        raise UsageError(f"--{name} {text}: {count} bytes hold nothing; write it like 24GB")
    return count


def _device_note(device: str) -> list[str]:
    """The device may be another machine's, so it need not be here; but that is said."""
    from mining.devices import resolve_devices

    try:
        resolve_devices(device)
    except UsageError as error:
        return [f"planned for another machine, since here {error}; times of a GPU are assumed, not measured"]
    return []


def _count(spec: Any, name: str) -> int:
    """The rows of a side of a configuration, read once."""
    from mining.config.base import validate
    from mining.config.mine import CorpusSpec
    from mining.corpus import read_corpus

    if spec is None:
        raise UsageError(f"nothing given for {name}: use --{name}-rows, or '{name}:' in the file of --config")
    corpus = validate(CorpusSpec, spec if isinstance(spec, dict) else {"path": spec}, f"{name} of --config")
    return max(1, sum(table.column("reason").null_count for table in read_corpus(corpus)))


def _table(choice: Any) -> Any:
    from rich.table import Table

    from mining.search.planner import duration, size

    table = Table(title="search", title_justify="left")
    for column, side in (
        ("method", "left"),
        ("how", "left"),
        ("time", "right"),
        ("memory", "right"),
        ("disk", "right"),
    ):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    given = [choice.expected] if choice.expected and choice.expected not in choice.alternatives else []
    for estimate in [*choice.alternatives, *given]:
        chosen = "* " if estimate == choice.expected else "  "
        cells = duration(estimate.seconds), size(estimate.memory), size(estimate.disk)
        table.add_row(chosen + estimate.method, estimate.detail, *cells)
    if choice.expected is None:
        table.add_row(f"* {choice.method}", choice.detail, *(3 * ["no estimate"]))
    return table


def plan(
    source_rows: Annotated[str | None, typer.Option(help="Sentences of the source, for example 1e6.")] = None,
    target_rows: Annotated[str | None, typer.Option(help="Sentences of the target.")] = None,
    dim: Annotated[int | None, typer.Option(help="Dimensions (those of the model).", min=1)] = None,
    k: Annotated[int | None, typer.Option(help="Nearest neighbours a side (4).")] = None,
    method: Annotated[str | None, typer.Option(help="auto (default), exact, clusters or faiss.")] = None,
    index: Annotated[str | None, typer.Option(help="FAISS factory string: search by faiss.")] = None,
    parameters: Annotated[str | None, typer.Option(help="FAISS search parameters (nprobe=8 for IVF).")] = None,
    memory: Annotated[str | None, typer.Option(help="Memory at hand, for example 24GB.")] = None,
    disk: Annotated[str | None, typer.Option(help="Disk at hand, for example 100GB.")] = None,
    device: Annotated[str | None, typer.Option(help="cpu (default) or cuda.")] = None,
    cores: Annotated[int | None, typer.Option(help="Cores of a machine (those of this one).", min=1)] = None,
    config: Annotated[str | None, typer.Option(help="Configuration of `bitext mine`; rows are counted.")] = None,
    model: Annotated[str | None, typer.Option(help="Model folder, for its dimensions.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object: seconds and bytes.")] = False,
) -> None:
    """Say which search a mining run would choose, and the time, memory and disk to expect of each.

    Times are reckoned from constants measured on two cores; they are good to a factor of two.

    **Examples**

    `bitext plan --source-rows 1e6 --target-rows 1e6 --memory 24GB --cores 2`

    `bitext plan --config configs/mine-local.yaml --json`
    """
    from mining.config.base import override, read_yaml, validate
    from mining.config.mine import SearchSettings, ShardSettings
    from mining.devices import resolve_threads
    from mining.search.methods import Task
    from mining.search.planner import advice, plan_search

    data = read_yaml(config) if config else {}
    flags = {
        "search.k": k,
        "search.method": method or ("faiss" if index else None),
        "search.device": device,
        "search.index": index,
        "search.parameters": parameters,
    }
    data = override(data, flags)
    search = validate(SearchSettings, data.get("search") or {}, config or "command line")
    shard = validate(ShardSettings, data.get("shard") or {}, config or "command line")
    if dim is None:
        from mining.encoder import load_encoder

        dim = load_encoder(model or data.get("model")).dim
    rows = {
        f"{name}_rows": _rows(given, f"{name}-rows") or _count(data.get(name), name)
        for name, given in (("source", source_rows), ("target", target_rows))
    }
    available = _bytes(memory, "memory"), _bytes(disk, "disk")
    task = Task(
        **rows,
        dim=dim,
        k=search.k,
        device=search.device,
        cores=cores or resolve_threads(0),
        shard_rows=shard.rows,
    )
    choice = plan_search(task, search)
    notes = [*_device_note(search.device), *advice(choice, *available)]
    if as_json:
        for line in json.dumps({**choice.facts(), "advice": notes}, indent=2, sort_keys=True).split("\n"):
            say(line)
        return
    _show(choice, notes)


def _show(choice: Any, notes: list[str]) -> None:
    from mining.console import SafeConsole
    from mining.search.planner import size

    task = choice.task
    console = SafeConsole(width=max(100, SafeConsole().width))
    console.print(_table(choice))
    shards = [-(-rows // task.shard_rows) for rows in (task.source_rows, task.target_rows)]
    vectors = size(2.0 * task.rows * task.dim)
    console.print(
        f"{shards[0]:,} x {shards[1]:,} shards of at most {task.shard_rows:,} rows; vectors {vectors} on disk"
    )
    console.print(
        f"{choice.method}, since {choice.why}" if choice.why != "as configured" else f"{choice.method}, {choice.why}"
    )
    for note in notes:
        console.print(f"note: {note}")
    say(choice.line())
