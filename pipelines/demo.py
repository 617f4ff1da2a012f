"""The demo: train on gettext catalogues of installed packages, hide the alignment of other pairs, mine them."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from mining.config import MineConfig
from mining.corpus import BitextSpec, read_rows
from mining.errors import InputError, UsageError
from mining.evaluation import read_gold
from mining.pairs import read_parquet, replacing
from mining.training import Progress, TrainConfig, is_trained, train
from pipelines.demo_data import Pair, clean_pairs, hide, split_pairs
from pipelines.mine import MineResult, run_mine

#: German catalogues of the packages in the extra `demo`: distribution and language folder.
CATALOGUES = (
    ("Django", "de"),
    ("django-cms", "de"),
    ("gramps", "de"),
    ("jupyterlab-language-pack-de-DE", "de_DE"),
    ("mercurial", "de"),
    ("plone.app.locales", "de"),
    ("Trac", "de"),
    ("wagtail", "de"),
)
#: A small model for short texts. By epochs and on one thread, so that it is the same however busy the machine is.
TRAINING: Mapping[str, Any] = {"vocabulary": 4000, "dim": 300, "epochs": 30, "dropout": 0.1, "threads": 1}
HIDDEN_PAIRS = 6000
MIN_WORDS = 4
SEED = 1
#: The threshold is tuned on the first task and applied to the second, which shares no sentence with it.
TASKS = ("dev", "test")


class Prepared(NamedTuple):
    """What was written: the number of training pairs and, by task, of source sentences, target sentences and gold."""

    training: int
    tasks: dict[str, tuple[int, int, int]]


class Example(NamedTuple):
    """A mined pair; `correct` says whether it is gold."""

    score: float
    correct: bool
    source: str
    target: str


def installed_catalogues(catalogues: Iterable[tuple[str, str]] = CATALOGUES) -> dict[str, str]:
    """``gettext:PACKAGE:LANG`` by package; raises UsageError that names every package that is not installed."""
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


def prepare(folder: Path, pairs: Sequence[Pair], hidden: int) -> Prepared:
    """Write ``train.tsv`` and, for each task, ``source.tsv``, ``target.tsv`` and ``gold.tsv`` in the layout of BUCC."""
    training, held_out = split_pairs(pairs, hidden, MIN_WORDS, SEED)
    if not training or len(held_out) < hidden:
        raise InputError(
            f"the catalogues give {len(pairs)} pairs, of which {len(held_out)} can be hidden; the demo needs {hidden} "
            "to hide and others to train on"
        )
    _write_rows(folder / "train.tsv", training)
    sizes = {}
    for place, name in enumerate(TASKS):
        task = hide(held_out[place :: len(TASKS)], SEED)
        for part, rows in zip(task._fields, task, strict=True):
            _write_rows(folder / name / f"{part}.tsv", rows)
        sizes[name] = len(task.source), len(task.target), len(task.gold)
    return Prepared(len(training), sizes)


def _write_rows(path: Path, rows: Iterable[Sequence[str]]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            Path(temporary).write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8", newline="\n")
    except OSError as error:
        raise UsageError(f"{path}: cannot be written ({error.strerror}): give another --output") from None


def train_model(folder: Path, settings: Mapping[str, Any], report: Callable[[Progress], None]) -> Path:
    """Train on ``train.tsv``; a model of the same settings and pairs is kept, another is replaced."""
    bitext = BitextSpec(path=str(folder / "train.tsv"), columns=["source", "target"])
    config = TrainConfig(bitext=[bitext], model=str(folder / "model"), languages=["en", "de"], **settings)
    if is_trained(config):
        return Path(config.model)
    return train(config.model_copy(update={"overwrite": True}), report)


def mine_task(folder: Path, name: str, threshold: float | str) -> MineResult:
    """Mine one task with the trained model into its folder ``run``; `threshold` is a number, ``tune`` or ``none``."""
    task = folder / name
    corpora = {side: {"path": str(task / f"{side}.tsv"), "columns": ["id", "text"]} for side in ("source", "target")}
    config = MineConfig.model_validate(
        {
            **corpora,
            "model": str(folder / "model"),
            "gold": str(task / "gold.tsv"),
            "output": str(task / "run"),
            "threshold": threshold,
        }
    )
    return run_mine(config, quiet=True)


def tune_and_test(folder: Path) -> MineResult:
    """Tune the threshold on the first task; returns the result of mining the second with it."""
    tuned = mine_task(folder, TASKS[0], "tune").threshold
    return mine_task(folder, TASKS[1], "none" if tuned is None else tuned)


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
