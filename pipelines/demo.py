"""The demo: hide the alignment of translations in gettext catalogues of installed packages, and
mine them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mining.config.mine import MineConfig
from mining.corpus import BitextSpec, read_rows
from mining.errors import InputError, UsageError
from mining.evaluation import read_gold
from mining.io.atomic import replacing
from mining.io.parquet import read_parquet
from pipelines.demo_data import Pair, choose_pairs, clean_pairs, hide
from pipelines.mine import MineResult, run_mine

#: German catalogues of the packages in the extra `demo`: distribution and language folder. The
#: bundled model has not learnt from them; one message in a hundred stands, with its translation, in
#: other programs that it has learnt from.
CATALOGUES = (
    ("Django", "de"),
    ("django-cms", "de"),
    ("jupyterlab-language-pack-de-DE", "de_DE"),
    ("mercurial", "de"),
    ("plone.app.locales", "de"),
    ("Trac", "de"),
    ("wagtail", "de"),
)
HIDDEN_PAIRS = 5700
MIN_WORDS = 4
SEED = 1
#: The threshold is tuned on the first task and applied to the second, which shares no sentence with
#: it.
TASKS = ("dev", "test")


class Sizes(NamedTuple):
    """The sentences of a task on either side, and the translations among them."""

    source: int
    target: int
    gold: int


class Example(NamedTuple):
    """A mined pair; `correct` says whether it is gold."""

    score: float
    correct: bool
    source: str
    target: str


def installed_catalogues(catalogues: Iterable[tuple[str, str]] = CATALOGUES) -> dict[str, str]:
    """``gettext:PACKAGE:LANG`` by package; raises UsageError that names every package that is not
    installed."""
    found, missing = {}, []
    for package, language in catalogues:
        try:
            importlib.metadata.distribution(package)
        except importlib.metadata.PackageNotFoundError:
            missing.append(package)
        found[package] = f"gettext:{package}:{language}"
    if missing:
        raise UsageError(
            f"the demo reads the translations inside {', '.join(missing)}, not installed: "
            "pip install 'bitext-miner[cpu,demo]'"
        )
    return found


def read_pairs(paths: Iterable[str]) -> list[Pair]:
    """The distinct usable pairs of some catalogues, in their order."""
    specs = (BitextSpec(path=path, format="gettext") for path in paths)
    return clean_pairs(row.texts for spec in specs for row in read_rows(spec) if row.reason is None)


def prepare(folder: Path, pairs: Sequence[Pair], hidden: int) -> dict[str, Sizes]:
    """Write ``source.tsv``, ``target.tsv`` and ``gold.tsv`` of each task in the layout of BUCC;
    returns their sizes."""
    chosen = choose_pairs(pairs, hidden, MIN_WORDS, SEED)
    if len(chosen) < hidden:
        raise InputError(
            f"the catalogues give {len(pairs)} pairs, of which {len(chosen)} can be hidden; the demo needs {hidden}"
        )
    sizes = {}
    for place, name in enumerate(TASKS):
        task = hide(chosen[place :: len(TASKS)], SEED)
        for part, rows in zip(task._fields, task, strict=True):
            _write_rows(folder / name / f"{part}.tsv", rows)
        sizes[name] = Sizes(len(task.source), len(task.target), len(task.gold))
    return sizes


def _write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            Path(temporary).write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}): give another --output") from None


def mine_task(folder: Path, name: str, threshold: float | str, model: Path | None = None) -> MineResult:
    """Mine one task into its folder ``run``; `threshold` is a number, ``tune`` or ``none``.

    `model` is a model folder; None is the one that ships with the package.
    """
    task = folder / name
    corpora = {side: {"path": str(task / f"{side}.tsv"), "columns": ["id", "text"]} for side in ("source", "target")}
    config = MineConfig.model_validate(
        {
            **corpora,
            "model": None if model is None else str(model),
            "gold": str(task / "gold.tsv"),
            "output": str(task / "run"),
            "threshold": threshold,
        }
    )
    return run_mine(config, quiet=True)


def tune_and_test(folder: Path, model: Path | None = None) -> MineResult:
    """Tune the threshold on the first task; returns the result of mining the second with it."""
    tuned = mine_task(folder, TASKS[0], "tune", model).threshold
    return mine_task(folder, TASKS[1], "none" if tuned is None else tuned, model)


def examples(folder: Path, count: int = 5) -> list[Example]:
    """`count` mined pairs of the second task, evenly spaced from the best score to the worst."""
    task = folder / TASKS[1]
    pairs = read_parquet(task / "run" / "pairs.parquet")
    gold = read_gold(task / "gold.tsv")
    true = set(zip(gold.source, gold.target, strict=True))
    count = min(count, len(pairs))
    places = [round(i * (len(pairs) - 1) / max(count - 1, 1)) for i in range(count)]
    return [
        Example(row["score"], (row["source_id"], row["target_id"]) in true, row["source_text"], row["target_text"])
        for row in pairs.take(places).to_pylist()
    ]
