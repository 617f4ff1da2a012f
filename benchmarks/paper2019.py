"""The comparisons of Wieting et al. 2019 on up to a million English-German pairs, as one table.

    python benchmarks/paper2019.py --output runs/paper2019
    python benchmarks/paper2019.py --output runs/paper2019 --only sp,word,trigram

trains every row of `paper2019_rows.py` on ``$BITEXT_DATA/bitext/en-de.tsv.xz`` (default
``../shared/data``), all on the same number of pairs seen, measures it, and prints ``table.md``.
Killed, the same command goes on: a finished row is in ``rows/NAME.json`` and is not trained again,
an unfinished one is taken up from its checkpoint. A folder keeps to the settings it was begun with.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from paper2019_data import Data
from paper2019_rows import ROWS, Row
from paper2019_table import write_table
from report import Model, measure_sts, measure_tatoeba, say, shortened

from mining.corpus import CorpusSpec
from mining.devices import keep_freed_memory
from mining.encoder.model_folder import replace_file
from mining.errors import BitextError, UsageError
from mining.evaluation.mining import MiningTask, evaluate_mining, read_mining_task
from mining.training import Progress, TrainConfig, train
from pipelines.cli.say import write_json

MARGINS = ("ratio", "absolute")
SPEED_SENTENCES, SPEED_TRIES, SLOW_SENTENCES = 20_000, 3, 1000
#: Seconds between two lines on the progress of a training.
EVERY = 30.0


def model_folder(output: Path, row: Row) -> Path:
    """Where the model of a row lies."""
    return output / "models" / row.name


class Monitor:
    """Passes on the progress of a training now and then, and keeps the last of it."""

    def __init__(self, name: str) -> None:
        self._name, self._next = name, 0.0
        self.last: Progress | None = None

    def __call__(self, progress: Progress) -> None:
        self.last = progress
        if time.monotonic() < self._next:
            return
        self._next = time.monotonic() + EVERY
        say(
            f"  {self._name}: {progress.fraction:.0%}, loss {progress.loss:.4f}, mega-batch {progress.mega_batch}, "
            f"{progress.pairs_per_second:,.0f} pairs/s, {progress.seconds_left:,.0f} s left"
        )


def train_row(row: Row, data: Data, output: Path, threads: int) -> dict[str, Any]:
    """Train a row in its model folder, if that is not done; what is known of the training, its
    speed among it."""
    known = output / "trained" / f"{row.name}.json"
    if known.is_file():
        return dict(json.loads(known.read_text("utf-8")))
    prepared, epochs = data.prepared(row)
    folder = model_folder(output, row)
    settings = {
        "prepared": str(prepared.folder),
        "model": str(folder),
        "languages": ["en", "de"],
        "epochs": epochs,
        "threads": threads,
        **row.settings,
    }
    monitor = Monitor(row.name)
    train(TrainConfig.model_validate(settings), monitor)
    training = json.loads((folder / "config.json").read_text("utf-8"))["training"]
    speed = monitor.last.pairs_per_second if monitor.last is not None and monitor.last.step else None
    facts = {name: training[name] for name in ("pairs", "epochs", "steps", "pairs_seen", "loss")}
    facts["pairs_per_second"] = round(speed) if speed else None
    write_json(known, facts)
    return facts


def read_task(data: Path, quick: bool) -> MiningTask:
    """The German-English mining task."""
    stem = data / "bucc" / ("de-en.sample" if quick else "de-en.training")
    specs = [CorpusSpec(path=f"{stem}.{side}", columns=["id", "text"]) for side in ("de", "en")]
    return read_mining_task(specs[0], specs[1], f"{stem}.gold")


def encoding_speed(model: Model, texts: list[str], threads: int) -> float:
    """English sentences encoded a second, tokenisation included; the best of some tries, for a slow
    encoder one."""
    encoder, best = model.encoder("en"), 0.0
    encoder.encode(texts[:100], threads)
    started = time.perf_counter()
    encoder.encode(texts[:SLOW_SENTENCES], threads)
    best = SLOW_SENTENCES / (time.perf_counter() - started)
    if best < SLOW_SENTENCES:
        return round(best)
    for _ in range(SPEED_TRIES):
        started = time.perf_counter()
        encoder.encode(texts[:SPEED_SENTENCES], threads)
        best = max(best, len(texts[:SPEED_SENTENCES]) / (time.perf_counter() - started))
    return round(best)


def measure_row(folder: Path, data: Path, task: MiningTask, threads: int) -> dict[str, Any]:
    """Mining, Tatoeba, STS and speed of a trained row."""
    model = Model(str(folder), {}, ["de", "en"])
    encoder = model.encoder("de")
    results = evaluate_mining(task, encoder, MARGINS, target_encoder=model.encoder("en"), threads=threads)
    return {
        "mining": {name: shortened(result.to_dict()) for name, result in results.items()},
        "tatoeba": measure_tatoeba(model, data, threads),
        "sts": measure_sts(model, data, threads),
        "sentences_per_second": encoding_speed(model, task.target, threads),
    }


def chosen_rows(names: str | None) -> list[Row]:
    """The rows that are asked for, in the order of the table."""
    if names is None:
        return list(ROWS)
    wanted = [name.strip() for name in names.split(",")]
    unknown = [name for name in wanted if name not in {row.name for row in ROWS}]
    if unknown:
        raise UsageError(f"no row is called '{unknown[0]}'; there are {', '.join(row.name for row in ROWS)}")
    return [row for row in ROWS if row.name in wanted]


def keep_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """Settings all rows of a folder share; raises UsageError when it was begun with others."""
    names = ("pairs", "epochs", "mpairs", "small_pairs", "quick")
    settings = {name: getattr(arguments, name) for name in names}
    path = arguments.output / "settings.json"
    if path.is_file():
        begun = json.loads(path.read_text("utf-8"))
        if begun != settings:
            differing = ", ".join(name for name in names if begun.get(name) != settings[name])
            raise UsageError(f"{path}: the folder was begun with other settings ({differing}); name another --output")
    for name in ("rows", "trained"):
        (arguments.output / name).mkdir(parents=True, exist_ok=True)
    write_json(path, settings)
    return settings


def run(arguments: argparse.Namespace) -> None:
    """Train and measure what is not done yet, then write the table."""
    rows, settings, output = chosen_rows(arguments.only), keep_settings(arguments), arguments.output
    source = Path(os.environ.get("BITEXT_DATA", "../shared/data"))
    data = Data(source / "bitext/en-de.tsv.xz", output / "data", settings, arguments.threads)
    task = read_task(source, arguments.quick)
    for number, row in enumerate(rows, 1):
        result = output / "rows" / f"{row.name}.json"
        if result.is_file():
            say(f"[{number}/{len(rows)}] {row.name}: done before")
            continue
        started = time.perf_counter()
        say(f"[{number}/{len(rows)}] {row.name}: {row.title}")
        facts = {"name": row.name, "training": train_row(row, data, output, arguments.threads)}
        facts |= measure_row(model_folder(output, row), source, task, arguments.threads)
        write_json(result, facts)
        ratio, cosine = (100 * facts["mining"][name]["f1"] for name in MARGINS)
        say(f"  {row.name}: F1 {ratio:.1f} by ratio, {cosine:.1f} by cosine ({time.perf_counter() - started:.0f} s)")
    done = [(row, output / "rows" / f"{row.name}.json") for row in ROWS]
    measured = [(row, json.loads(path.read_text("utf-8"))) for row, path in done if path.is_file()]
    table = write_table(measured, settings)
    replace_file(output / "table.md", table.encode())
    sys.stdout.write(table)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", type=Path, required=True, help="folder of data, models, results and table.md")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="pairs of the bitext, if it has as many")
    parser.add_argument("--mpairs", type=float, default=2.0, help="millions of pairs seen, to the next whole epoch")
    parser.add_argument("--epochs", type=int, help="epochs of every row, in place of --mpairs")
    parser.add_argument("--small-pairs", type=int, default=50_000, help="pairs of BLSTM-SP, seen once")
    parser.add_argument("--only", metavar="NAME,...", help="these rows: " + ", ".join(row.name for row in ROWS))
    parser.add_argument("--quick", action="store_true", help="mine the small sample in place of the whole task")
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    keep_freed_memory()
    try:
        run(parser.parse_args())
    except (BitextError, OSError, json.JSONDecodeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
