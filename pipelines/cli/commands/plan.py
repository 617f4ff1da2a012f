"""``bitext plan``: which search is right for so many rows, and what it will take."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mining.errors import UsageError
from pipelines.cli.commands import COMMANDS
from pipelines.cli.commands.mine import chosen_method
from pipelines.cli.options import Call, command
from pipelines.cli.say import say, show_table

if TYPE_CHECKING:
    from mining.config.base import Settings
    from mining.config.corpus import CorpusSpec
    from mining.config.plan import PlanConfig
    from mining.search.planner import Choice


def _known(data: dict[str, Any], call: Call, model: type[Settings]) -> dict[str, Any]:
    """What a configuration of ``bitext mine`` says of the search, and the flags over it."""
    return chosen_method({key: value for key, value in data.items() if key in model.fields()}, call, model)


@COMMANDS.register("plan")
@command(
    "mining.config.plan:PlanConfig",
    "plan --source-rows 1e6 --target-rows 1e6 --memory 24GB --cores 2",
    "plan --config configs/mine-local.yaml --json",
    merge=_known,
    file="YAML file of `bitext mine`: its search is planned, and the rows of its sides are counted.",
    small=True,
)
def plan(settings: PlanConfig, call: Call) -> None:
    """Say which search a run would choose, and the time, memory and disk that each takes.

    Times are reckoned from constants measured on two cores; they are good to a factor of two.
    """
    from mining.search.planner import advice

    choice = _choice(settings)
    notes = [*_device_note(settings.search.device), *advice(choice, settings.memory, settings.disk)]
    if settings.as_json:
        for line in json.dumps({**choice.facts(), "advice": notes}, indent=2, sort_keys=True).split("\n"):
            say(line)
    else:
        _show(choice, notes)


def _choice(settings: PlanConfig) -> Choice:
    from mining.devices import resolve_threads
    from mining.search.methods import Task
    from mining.search.planner import plan_search

    search = settings.search
    dim = settings.dim
    if dim is None:
        from mining.encoder import load_encoder

        dim = load_encoder(settings.model).dim
    task = Task(
        source_rows=settings.source_rows or _count(settings.source, "source"),
        target_rows=settings.target_rows or _count(settings.target, "target"),
        dim=dim,
        k=search.k,
        device=search.device,
        cores=settings.cores or resolve_threads(0),
        shard_rows=settings.shard.rows,
    )
    return plan_search(task, search)


def _count(corpus: CorpusSpec | None, name: str) -> int:
    """The rows of a side of a configuration, read once."""
    from mining.corpus import read_corpus

    if corpus is None:
        raise UsageError(f"nothing given for {name}: use --{name}-rows, or '{name}:' in the file of --config")
    return max(1, sum(table.column("reason").null_count for table in read_corpus(corpus)))


def _device_note(device: str) -> list[str]:
    """The device may be another machine's, so it need not be here; but that is said."""
    from mining.devices import resolve_devices

    try:
        resolve_devices(device)
    except UsageError as error:
        return [f"planned for another machine, since here {error}; times of a GPU are assumed, not measured"]
    return []


def _rows(choice: Choice) -> list[list[str]]:
    from mining.search.planner import duration, size

    given = [choice.expected] if choice.expected and choice.expected not in choice.alternatives else []
    rows = []
    for estimate in [*choice.alternatives, *given]:
        chosen = "* " if estimate == choice.expected else "  "
        cells = duration(estimate.seconds), size(estimate.memory), size(estimate.disk)
        rows.append([chosen + estimate.method, estimate.detail, *cells])
    if choice.expected is None:
        rows.append([f"* {choice.method}", choice.detail, *(3 * ["no estimate"])])
    return rows


def _show(choice: Choice, notes: list[str]) -> None:
    from mining.search.planner import size

    task = choice.task
    show_table("search", ["method", "how", "time", "memory", "disk"], _rows(choice), texts=2, least_width=100)
    shards = [-(-rows // task.shard_rows) for rows in (task.source_rows, task.target_rows)]
    vectors = size(2.0 * task.rows * task.dim)
    say(f"{shards[0]:,} x {shards[1]:,} shards of at most {task.shard_rows:,} rows; vectors {vectors} on disk")
    reason = choice.why if choice.why == "as configured" else f"since {choice.why}"
    say(f"{choice.method}, {reason}")
    for note in notes:
        say(f"note: {note}")
    say(choice.line())
