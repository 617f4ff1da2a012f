"""Our training against the published algorithm in plain torch (`plain_psp.py`), in turn in one
process.

    python benchmarks/training.py --pairs 200000 --seconds 240

prepares the pairs once (20,000 pieces, 300 dimensions) and trains both from the same table on the
same mini-batches of 128 with the margin loss: first as the mega-batch grows from one mini-batch,
one more every 150 of them, then at its full size of 60, where most of a long training is spent.
Prints pairs per second of both, medians over the turns; how far the losses lie apart; and the speed
of the softmax objective with batches of 1,024.

Two things keep the curves from being equal to the last bit: sums in another order, and Adam.
Published: Adam on all rows, so that a row moves on for some steps after its last gradient. Ours:
Adam on the rows of the step, the others rest; at the same learning rate its loss falls a little
later. A third training, plain with `torch.optim.SparseAdam`, tells these apart: it has our Adam and
everything else from the plain one.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import torch
from plain_psp import Minibatch, PlainPsp
from subsets import bitext_spec, is_sentence, write_subset

from mining.config.train import TrainConfig
from mining.devices import keep_freed_memory, torch_threads
from mining.errors import BitextError
from mining.training.adam import Adam
from mining.training.data import DataConfig, PreparedPairs, prepare
from mining.training.sampling import MegaBatchSchedule, Sampler
from mining.training.start import start_network
from mining.training.step import gather, train_minibatch

BATCH, LARGEST, ANNEAL = 128, 60, 150
PUBLISHED_RATE = 1e-3
SOFTMAX_BATCH, SOFTMAX_SECONDS = 1024, 10
OURS, PLAIN, PLAIN_ROWS = "ours", "plain", "plain, Adam on rows"


@dataclass
class Trial:
    """One of the trainings: its losses by step, and its pairs per second by turn."""

    name: str
    training: Any
    losses: list[float] = field(default_factory=list)
    speeds: list[float] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Median pairs per second."""
        return statistics.median(self.speeds)

    def turn(self, mega_batches: Sequence[np.ndarray]) -> None:
        """Train on the rows of these mega-batches."""
        started = time.perf_counter()
        for rows in mega_batches:
            self.losses += self.training(rows)
        self.speeds.append(sum(map(len, mega_batches)) / (time.perf_counter() - started))


class Ours:
    """The steps of `bitext train`."""

    def __init__(self, pairs: PreparedPairs, config: TrainConfig) -> None:
        self.pairs, self.config = pairs, config
        self.network = start_network(config, pairs)
        self.objective = config.build_objective()
        self.adam = Adam(self.network)
        self._mega_batches = 0

    def __call__(self, rows: np.ndarray) -> list[float]:
        """Train on one mega-batch; the loss of each step."""
        mega = gather(self.pairs, rows, self.network, self.config, self._mega_batches, self.objective)
        self._mega_batches += 1
        rate, batch = self.config.learning_rate, self.config.batch
        slices = [slice(start, min(start + batch, len(mega))) for start in range(0, len(mega), batch)]
        return [
            train_minibatch(mega, part, self.adam, self.objective, self.config, rate, self.adam.steps)
            for part in slices
        ]


class Plain:
    """The published steps."""

    def __init__(self, pairs: PreparedPairs, config: TrainConfig, *, rows_only: bool = False) -> None:
        table = next(iter(start_network(config, pairs).tables.values()))
        self.pairs, self.batch = pairs, config.batch
        self.psp = PlainPsp(table, config.learning_rate, config.delta, rows_only=rows_only)

    def __call__(self, rows: np.ndarray) -> list[float]:
        """Train on one mega-batch; the loss of each step."""
        minibatches = [self._minibatch(rows[start : start + self.batch]) for start in range(0, len(rows), self.batch)]
        return [self.psp.step(batch) for batch in self.psp.mega_batch(minibatches)]

    def _minibatch(self, rows: np.ndarray) -> Minibatch:
        return self._sentences(self.pairs.source[0], rows), self._sentences(self.pairs.target[0], rows)

    @staticmethod
    def _sentences(pieces: Any, rows: np.ndarray) -> list[torch.Tensor]:
        bounds = [pieces.offsets[row : row + 2].tolist() for row in rows]
        return [torch.from_numpy(pieces.ids[start:stop].astype(np.int64)) for start, stop in bounds]


def mega_batches(pairs: PreparedPairs, config: TrainConfig) -> Iterator[np.ndarray]:
    """Rows of one mega-batch after another, over as many epochs as are asked for."""
    sampler, schedule = Sampler(pairs, config.seed), MegaBatchSchedule(config.mega_batch, config.anneal)
    epoch = 0
    while True:
        # The last, short mini-batch is left out: alone in a mega-batch it would have few or no
        # negatives.
        order = sampler.epoch(epoch)[: len(pairs) // config.batch * config.batch]
        while taken := schedule.refill(len(order) // config.batch):
            yield order[taken.start * config.batch : taken.stop * config.batch]
        epoch += 1
        schedule.restart()


def alternate(trials: list[Trial], rows: Iterator[np.ndarray], steps: int, seconds: float) -> None:
    """Let all trials train on the same mega-batches, `steps` mini-batches or more a turn, until the
    time is over.

    Each turn begins with another trial. The first turn warms up and its speed is not counted, if
    there is a second.
    """
    started, turn = time.monotonic(), 0
    while turn < 2 or time.monotonic() - started < seconds:
        part: list[np.ndarray] = []
        while sum(map(len, part)) < steps * BATCH:
            part.append(next(rows))
        for first in range(len(trials)):
            trials[(first + turn) % len(trials)].turn(part)
        turn += 1
        say(f"  turn {turn}: " + ", ".join(f"{trial.name} {trial.speeds[-1]:,.0f} pairs/s" for trial in trials))
    for trial in trials:
        del trial.speeds[0]


def largest_difference(one: list[float], other: list[float], window: int) -> float:
    """Largest relative difference of the mean losses over windows of steps."""
    return max(abs(a / b - 1) for a, b in zip(means(one, window), means(other, window), strict=True))


def means(losses: list[float], window: int) -> list[float]:
    """Mean losses of whole windows."""
    whole = max(1, len(losses) // window)
    return [statistics.fmean(losses[i * window : (i + 1) * window]) for i in range(whole)]


def print_curves(trials: list[Trial], window: int) -> None:
    """Losses side by side, and how far they lie apart."""
    curves = [means(trial.losses, window) for trial in trials]
    print("  loss (mean of", window, "steps): " + ", ".join(trial.name for trial in trials))
    shown = np.unique(np.linspace(0, len(curves[0]) - 1, 10).astype(int)).tolist()
    for i in shown:
        print(f"    to step {(i + 1) * window:6d}: " + "  ".join(f"{curve[i]:.4f}" for curve in curves))
    for trial in trials[1:]:
        difference = largest_difference(trials[0].losses, trial.losses, window)
        print(f"  largest relative difference of ours and {trial.name}: {difference:.2%}")


def compare(pairs: PreparedPairs, config: TrainConfig, title: str, turn_steps: int, seconds: float) -> float:
    """Train in turn, print speeds and losses; returns the ratio of speeds."""
    say(title)
    published = config.model_copy(update={"learning_rate": PUBLISHED_RATE})
    trials = [
        Trial(OURS, Ours(pairs, config)),
        Trial(PLAIN, Plain(pairs, published)),
        Trial(PLAIN_ROWS, Plain(pairs, config, rows_only=True)),
    ]
    alternate(trials, mega_batches(pairs, config), turn_steps, seconds)
    ratio = trials[0].speed / trials[1].speed
    print(f"\n{title}: {len(trials[0].losses)} steps of {BATCH} pairs, {len(trials[0].speeds)} turns measured")
    for trial in trials:
        print(f"  {trial.name}: {trial.speed:,.0f} pairs/s")
    print(f"  ours / plain: {ratio:.1f}")
    print_curves(trials, max(1, min(50, len(trials[0].losses) // 4)))
    return ratio


def softmax_speed(pairs: PreparedPairs, config: TrainConfig, seconds: float = SOFTMAX_SECONDS) -> float:
    """Pairs per second with the softmax objective: median over turns of eight steps."""
    trial = Trial("softmax", Ours(pairs, config))
    rows, started = mega_batches(pairs, config), time.monotonic()
    while len(trial.speeds) < 3 or time.monotonic() - started < seconds:
        trial.turn([next(rows) for _ in range(8)])
    return statistics.median(trial.speeds[1:])


def prepared_pairs(arguments: argparse.Namespace, folder: Path) -> PreparedPairs:
    """The pairs of the benchmark, cut into pieces."""
    bitext = arguments.bitext or Path(os.environ.get("BITEXT_DATA", "../shared/data")) / "bitext/en-de.tsv.xz"
    subset = folder / "pairs.tsv"
    written = write_subset(bitext_spec(bitext), subset, arguments.pairs, is_sentence)
    say(f"{written} pairs of {bitext}")
    data = {"path": str(subset), "columns": ["source", "target"]}
    config = DataConfig.model_validate({"bitext": data, "filters": {"min_tokens": 3}, "vocabulary": 20_000})
    return prepare(config, folder / "prepared", lambda stage, done: None)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def describe_machine() -> str:
    """Processor, threads and versions."""
    processor = platform.machine()
    cpus = Path("/proc/cpuinfo")
    if cpus.is_file():
        names = [
            line.partition(":")[2].strip() for line in cpus.read_text().split("\n") if line.startswith("model name")
        ]
        processor = names[0] if names else processor
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "torch"))
    load = os.getloadavg()[0]
    return (
        f"{processor}, {os.cpu_count()} cores, {torch.get_num_threads()} threads, load {load:.1f} at the start; "
        f"Python {platform.python_version()}, {versions}"
    )


def run(arguments: argparse.Namespace) -> None:
    """Prepare, train, print."""
    with tempfile.TemporaryDirectory() as name, torch_threads(arguments.threads):
        print(describe_machine())
        pairs = prepared_pairs(arguments, Path(name))
        lengths = [float(pieces.lengths.mean()) for pieces in (pairs.source[0], pairs.target[0])]
        vocabulary = pairs.tokenizers[0].size
        print(
            f"{len(pairs)} pairs of {lengths[0]:.1f} and {lengths[1]:.1f} pieces; {vocabulary} pieces, 300 dimensions"
        )
        common: dict[str, Any] = {"prepared": str(pairs.folder), "model": name, "dim": 300, "schedule": "constant"}
        rate = arguments.learning_rate
        margin = {**common, "batch": BATCH, "mega_batch": LARGEST, "mask_duplicates": False, "learning_rate": rate}
        growing = TrainConfig(**margin, anneal=ANNEAL)
        ratios = [compare(pairs, growing, "growing mega-batches", 20, arguments.seconds / 2)]
        full = TrainConfig(**margin, anneal=0)
        ratios.append(compare(pairs, full, f"mega-batches of {LARGEST}", LARGEST, arguments.seconds / 2))
        softmax = TrainConfig(**common, batch=SOFTMAX_BATCH, objective="softmax", mega_batch=1)
        speed = softmax_speed(pairs, softmax)
        print(f"\nsoftmax objective, batches of {SOFTMAX_BATCH:,}: {speed:,.0f} pairs/s")
        print(f"ours / plain: {ratios[0]:.1f} with growing, {ratios[1]:.1f} with full mega-batches (goal: at least 5)")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bitext", type=Path, help="TSV of source, target, domain; default: en-de of $BITEXT_DATA")
    parser.add_argument("--pairs", type=int, default=200_000, help="sentence pairs taken from it")
    parser.add_argument("--seconds", type=float, default=240, help="time for both comparisons")
    parser.add_argument(
        "--learning-rate",
        type=float,
        default=PUBLISHED_RATE,
        help=f"of Adam on rows (default {PUBLISHED_RATE}, that of the dense one)",
    )
    parser.add_argument("--threads", type=int, default=0, help="0: all cores")
    keep_freed_memory()
    try:
        run(parser.parse_args())
    except (BitextError, OSError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
