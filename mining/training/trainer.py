"""``train``: from a bitext to a model folder, with checkpoints, and safe to kill at any moment."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import sentencepiece
import torch

from mining.corpus import file_hash, list_inputs
from mining.devices import resolve_device, torch_threads
from mining.encoder.model_folder import (
    CONFIG_FILE,
    PIECES_FILE,
    TABLE_FILE,
    read_config,
    replace_file,
    save_model,
)
from mining.errors import UsageError
from mining.training.adam import RowAdam
from mining.training.config import TrainConfig
from mining.training.megabatch import MegaBatchSchedule
from mining.training.prepare import PairPieces, prepare
from mining.training.state import TrainingState, initial_table, load_state, save_state
from mining.training.step import gather, train_minibatch

CHECKPOINT_FOLDER = "checkpoint"
_TRAINING_FILE = "training.json"
_LOSS_MEMORY = 0.99


class Progress(NamedTuple):
    """What a training tells while it runs."""

    stage: str
    """vocabulary, pieces or vectors"""
    pairs: int
    """pairs done in this stage (over all epochs)"""
    step: int = 0
    epoch: int = 0
    loss: float = math.nan
    """running mean"""
    pairs_per_second: float = 0.0
    mega_batch: int = 1
    """mini-batches in the current mega-batch"""
    fraction: float = 0.0
    """0 to 1, of the planned epochs or minutes"""
    seconds_left: float = math.nan


Report = Callable[[Progress], None]


def train(config: TrainConfig, report: Report | None = None) -> Path:
    """Train an SP encoder and return its model folder.

    Killed at any moment and called again with the same settings and bitext, it goes on from the last checkpoint; when
    the schedule is by epochs (and the threads are as many) the model is the same to the last bit as that of an
    undisturbed run. A finished training is left as it is. Raises UsageError for a folder that holds something else
    (mend: ``overwrite``) or in which another training runs, InputError for a bitext without usable pairs.
    """
    folder = Path(config.model)
    identity = _identity(config)
    resolve_device(config.device)
    _make(folder)
    with _lock(folder), torch_threads(config.threads):
        if not _admit(folder, config, identity):
            return folder
        started = time.monotonic()
        checkpoint = folder / CHECKPOINT_FOLDER
        pairs = prepare(config, checkpoint, lambda stage, done: _tell(report, Progress(stage, done)))
        run = _Run(config, pairs, checkpoint, started, report or _silent)
        state = run.to_the_end()
        _finish(folder, config, identity, pairs, run, state)
    return folder


def is_trained(config: TrainConfig) -> bool:
    """Whether the folder holds the finished model of exactly this configuration and bitext."""
    folder = Path(config.model)
    return (folder / CONFIG_FILE).is_file() and _identity_of(folder) == _identity(config)


def _silent(progress: Progress) -> None:
    """Tell nobody."""


def _tell(report: Report | None, progress: Progress) -> None:
    (report or _silent)(progress)


class _Run:
    """The state and the parts of one training, from the first to the last step."""

    def __init__(
        self, config: TrainConfig, pairs: PairPieces, checkpoint: Path, started: float, report: Report
    ) -> None:
        self.config, self.pairs, self.checkpoint, self.report = config, pairs, checkpoint, report
        table = initial_table(pairs.vocabulary, config.dim, config.init, config.seed)
        self.adam = RowAdam(table.to(config.device))
        # The softmax has its negatives in the mini-batch: nothing is sought outside.
        largest = config.mega_batch if config.objective == "margin" else 1
        fresh = TrainingState(MegaBatchSchedule(largest, config.anneal))
        self.state = load_state(checkpoint, self.adam) or fresh
        self.minibatches = -(-len(pairs) // config.batch)
        self._began, self._before = started, self.state.seconds
        self._saved = self._stepping = time.monotonic()
        self._pairs_before = self.state.pairs

    def seconds(self) -> float:
        """Wall-clock seconds of the whole training so far."""
        return self._before + time.monotonic() - self._began

    def fraction(self) -> float:
        """Which part of the plan is done: of the epochs or of the minutes, whichever is further."""
        parts = [0.0]
        if self.config.epochs is not None:
            parts.append(self.state.step / (self.config.epochs * self.minibatches))
        if self.config.minutes is not None:
            parts.append(self.seconds() / (60 * self.config.minutes))
        return min(1.0, max(parts))

    def to_the_end(self) -> TrainingState:
        """Train until the epochs or the minutes are over (one mini-batch at least)."""
        while not self._over():
            chance = np.random.Generator(np.random.Philox(key=[self.config.seed, self.state.epoch]))
            order = chance.permutation(len(self.pairs))
            while (taken := self.state.schedule.refill(self.minibatches)) and not self._over():
                self._mega_batch(order, taken)
            if not taken:
                self._next_epoch()
        return self.state

    def _over(self) -> bool:
        return self.state.step > 0 and self.fraction() >= 1.0

    def _next_epoch(self) -> None:
        self.state.losses.append(self.state.epoch_loss / self.minibatches)
        self.state.epoch_loss = 0.0
        self.state.epoch += 1
        self.state.schedule.restart()

    def _mega_batch(self, order: np.ndarray, taken: range) -> None:
        size = self.config.batch
        mega = gather(self.pairs, order[taken.start * size : taken.stop * size], self.adam.table, self.config)
        for start in range(0, len(mega), size):
            if self._over():
                return
            self._step(mega, slice(start, min(start + size, len(mega))))
        if time.monotonic() - self._saved >= 60 * self.config.checkpoint_minutes:
            self.save()

    def _step(self, mega: Any, rows: slice) -> None:
        state, config = self.state, self.config
        rate = config.learning_rate * (1.0 - self.fraction() if config.schedule == "linear" else 1.0)
        loss = train_minibatch(mega, rows, self.adam, config, rate, state.step)
        state.step += 1
        state.pairs += rows.stop - rows.start
        state.epoch_loss += loss
        memory = min(_LOSS_MEMORY, 1 - 1 / state.step)
        state.loss = memory * state.loss + (1 - memory) * loss
        self._tell(len(mega))

    def _tell(self, mega_pairs: int) -> None:
        state, fraction = self.state, self.fraction()
        spent = max(time.monotonic() - self._stepping, 1e-9)
        rate = (state.pairs - self._pairs_before) / spent
        if self.config.epochs is not None:
            left = (self.config.epochs * len(self.pairs) - state.pairs) / max(rate, 1e-9)
        else:
            left = math.inf
        if self.config.minutes is not None:
            left = min(left, 60 * self.config.minutes - self.seconds())
        mega_batch = -(-mega_pairs // self.config.batch)
        self.report(
            Progress(
                "vectors", state.pairs, state.step, state.epoch, state.loss, rate, mega_batch, fraction, max(left, 0.0)
            )
        )

    def save(self) -> None:
        """Write a checkpoint."""
        self.state.seconds = self.seconds()
        save_state(self.checkpoint, self.state, self.adam)
        self._saved = time.monotonic()


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{folder}: cannot be made: {error.strerror}; name another folder with --model") from None
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{folder}: cannot be written; name another folder with --model")


@contextmanager
def _lock(folder: Path) -> Iterator[None]:
    """Hold the folder for one training; the lock goes with the process, so a killed one leaves none behind."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(
                f"{folder}: another training is at work in this folder; wait for it, or name another with --model"
            ) from None
        yield
    finally:
        os.close(handle)


def _identity(config: TrainConfig) -> str:
    """Names what is learnt from: the settings that decide it and the bytes of the bitext."""
    settings = config.learnt()
    settings["bitext"].pop("path", None)
    paths = [path for file in list_inputs(config.bitext) for path in (file.path, file.target_path) if path]
    inputs = [file_hash(path) for path in paths]
    text = json.dumps({"settings": settings, "inputs": inputs}, sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


def _identity_of(folder: Path) -> str | None:
    training = read_config(folder).get("training")
    return training.get("identity") if isinstance(training, dict) else None


def _admit(folder: Path, config: TrainConfig, identity: str) -> bool:
    """Make the folder ready for this training; False when it is finished already."""
    checkpoint = folder / CHECKPOINT_FOLDER
    begun = _begun(checkpoint)
    finished = (folder / CONFIG_FILE).is_file()
    if finished:
        read_config(folder)  # stops here when it is the folder of another program
    if config.overwrite and (finished or (begun and begun.get("identity") != identity)):
        # An unfinished training of this very configuration is not thrown away: the same command goes on with it.
        _clear(folder)
        begun, finished = {}, False
    mend = "name another folder with --model, or start anew with --overwrite"
    if finished:
        if _identity_of(folder) == identity:
            _tidy(folder, config)
            return False
        raise UsageError(f"{folder}: holds a model of another configuration or bitext; {mend}")
    if begun:
        if begun.get("identity") == identity:
            return True
        if (checkpoint / PIECES_FILE).exists():
            raise UsageError(
                f"{folder}: holds an unfinished training that differs in {_difference(begun, config)}; {mend}"
            )
    foreign = sorted(path.name for path in folder.iterdir() if path.name != CHECKPOINT_FOLDER)
    if foreign:
        raise UsageError(f"{folder}: not empty (it holds {foreign[0]}); name another folder with --model")
    shutil.rmtree(checkpoint, ignore_errors=True)
    checkpoint.mkdir()
    facts = {"identity": identity, "config": config.learnt()}
    replace_file(checkpoint / _TRAINING_FILE, json.dumps(facts, indent=2).encode())
    return True


def _clear(folder: Path) -> None:
    """Remove model and checkpoint; what tells that they are ours goes last."""
    for name in (TABLE_FILE, PIECES_FILE, CONFIG_FILE):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder / CHECKPOINT_FOLDER, ignore_errors=True)


def _begun(checkpoint: Path) -> dict[str, Any]:
    """What the checkpoint folder says about the training begun in it; empty when there is none."""
    try:
        return dict(json.loads((checkpoint / _TRAINING_FILE).read_text(encoding="utf-8")))
    except (OSError, ValueError):
        return {}


def _tidy(folder: Path, config: TrainConfig) -> None:
    """Remove what a finished training no longer needs."""
    for path in folder.glob(".*.tmp"):
        path.unlink(missing_ok=True)
    if not config.keep_checkpoint:
        shutil.rmtree(folder / CHECKPOINT_FOLDER, ignore_errors=True)


def _difference(begun: dict[str, Any], config: TrainConfig) -> str:
    old, new = begun.get("config", {}), config.learnt()
    return ", ".join(key for key in new if old.get(key) != new[key]) or "the contents of the bitext"


def _finish(
    folder: Path, config: TrainConfig, identity: str, pairs: PairPieces, run: _Run, state: TrainingState
) -> None:
    learnt = config.learnt()
    summary = {
        "identity": identity,
        "config": learnt,
        "pairs": len(pairs),
        "dropped": pairs.dropped,
        "truncated_sentences": pairs.truncated,
        "epochs": state.epoch,
        "steps": state.step,
        "loss": round(state.loss, 6),
    }
    versions = {"torch": torch.__version__, "sentencepiece": sentencepiece.__version__}
    save_model(
        folder,
        run.adam.table,
        pairs.model,
        lowercase=config.lowercase,
        languages=config.languages,
        training=summary,
        versions=versions,
    )
    if config.keep_checkpoint:
        run.save()
    _tidy(folder, config)
