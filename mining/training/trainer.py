"""``train``: from a bitext to a model folder, with checkpoints, and safe to kill at any moment."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import numpy as np
import sentencepiece
import torch
from pydantic import ValidationError

from mining.config.base import explain
from mining.config.network import NetworkSettings
from mining.config.train import TrainConfig
from mining.devices import resolve_device, torch_threads
from mining.encoder.encoder import SentenceEncoder
from mining.encoder.model_folder import CONFIG_FILE, save_model
from mining.errors import InputError, UsageError
from mining.training.adam import Adam
from mining.training.curves import Curves, Point, check_tensorboard
from mining.training.data import DataConfig, PreparedPairs, prepare
from mining.training.development import DevelopmentSet
from mining.training.folder import (
    CHECKPOINT_FOLDER,
    CURVES_FOLDER,
    PAIRS_FOLDER,
    BestMeasure,
    DataSummary,
    TrainingSummary,
    admit,
    chosen_pairs,
    contents,
    identity,
    identity_of,
    lock,
    make,
    tidy,
)
from mining.training.sampling import MegaBatchSchedule, Sampler
from mining.training.start import half, start_network
from mining.training.state import TrainingState, load_best, load_state, save_best, save_state
from mining.training.step import MegaBatch, gather, train_minibatch

_LOSS_MEMORY = 0.99


class Progress(NamedTuple):
    """What a training tells while it runs."""

    stage: str
    """reading, vocabulary, pieces or vectors"""
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
    development: float | None = None
    """last value of the development metric"""
    best: float | None = None
    """best value of the development metric"""


Report = Callable[[Progress], None]


Inspect = Callable[[PreparedPairs], None]


def train(config: TrainConfig, report: Report | None = None, inspect: Inspect | None = None) -> Path:
    """Train an encoder and return its model folder. `inspect` is shown the prepared pairs before
    the first step.

    Killed at any moment and called again with the same settings and bitext, it goes on from the
    last checkpoint; when the schedule is by epochs (and the threads are as many) the model is the
    same to the last bit as that of an undisturbed run. A finished training is left as it is. Raises
    UsageError for a folder that holds something else (mend: ``overwrite``) or in which another
    training runs, InputError for a bitext without usable pairs.
    """
    folder = Path(config.model)
    name, read = identity(config), contents(config)
    resolve_device(config.device)
    if config.tensorboard:
        check_tensorboard()
    development = DevelopmentSet.read(config.development) if config.development is not None else None
    make(folder)
    with lock(folder), torch_threads(config.threads):
        if not admit(folder, config, name):
            return folder
        started = time.monotonic()
        pairs = training_pairs(config, folder, report or _silent)
        if inspect is not None:
            inspect(pairs)
        run = _Run(config, pairs, folder, started, report or _silent, development)
        if contents(config) != read:
            raise InputError("the initial vectors or the development set changed while they were read; train again")
        if run.objective.learns:
            run.to_the_end()
        _finish(folder, config, name, run)
    return folder


def is_trained(config: TrainConfig) -> bool:
    """Whether the folder holds the finished model of exactly this configuration and bitext."""
    folder = Path(config.model)
    return (folder / CONFIG_FILE).is_file() and identity_of(folder) == identity(config)


def training_pairs(config: TrainConfig, folder: Path, report: Report) -> PreparedPairs:
    """The prepared pairs of the configuration, or those of its bitexts, prepared in the
    checkpoint."""
    if config.prepared is not None:
        pairs = chosen_pairs(config)
    else:
        data = DataConfig.model_validate(config.model_dump(include=set(DataConfig.fields())))
        inside = folder / CHECKPOINT_FOLDER / PAIRS_FOLDER
        # What lies there is of a training that ended before its pairs were prepared: `admit` let
        # this one in.
        pairs = prepare(data, inside, lambda stage, done: report(Progress(stage, done)), config.threads, overwrite=True)
    _check_fitting(config, pairs)
    return pairs


def _check_fitting(config: TrainConfig, pairs: PreparedPairs) -> None:
    """Raise UsageError when the encoder cannot be trained on these pairs."""
    try:
        config.network(list(pairs.kinds))
    except ValidationError as error:
        reason = explain(error, NetworkSettings, str(pairs.folder))
        raise UsageError(f"{reason}; of the tokens {', '.join(pairs.kinds)} choose with --tokens") from None
    languages = _languages(pairs) or config.languages
    if not config.shared and len(languages) != 2:
        raise UsageError(
            f"shared: false keeps two languages apart, and the bitexts name {len(languages)}: train on bitexts of two "
            "languages, and name them (languages: [CODE, CODE])"
        )


def _languages(pairs: PreparedPairs) -> list[str]:
    """The languages of the bitexts, in their order."""
    return list(dict.fromkeys(code for domain in pairs.domains for code in domain.languages or ()))


def _silent(progress: Progress) -> None:
    """Tell nobody."""


class _Run:
    """The state and the parts of one training, from the first to the last step."""

    def __init__(
        self,
        config: TrainConfig,
        pairs: PreparedPairs,
        folder: Path,
        started: float,
        report: Report,
        development: DevelopmentSet | None,
    ) -> None:
        self.config, self.pairs, self.report, self.development = config, pairs, report, development
        self.checkpoint = folder / CHECKPOINT_FOLDER
        self.network = start_network(config, pairs)
        self.objective = config.build_objective()
        initial = {name: table.clone() for name, table in self.network.tables.items()} if config.pull else None
        self.adam = Adam(self.network, l2=config.l2, pull=config.pull, initial=initial)
        # Without negatives from outside the mini-batch nothing is sought there.
        largest = config.mega_batch if self.objective.negatives else 1
        fresh = TrainingState(MegaBatchSchedule(largest, config.anneal))
        self.state = load_state(self.checkpoint, self.adam) or fresh
        self.sampler = Sampler(pairs, config.seed)
        self.curves = Curves(folder / CURVES_FOLDER, self.state.curve, tensorboard=config.tensorboard)
        self._began, self._before = started, self.state.seconds
        self._saved = self._stepping = time.monotonic()
        self._pairs_before = self.state.pairs
        measures = [point["development"] for point in self.state.curve if "development" in point]
        self._measure: float | None = measures[-1] if measures else None

    def seconds(self) -> float:
        """Wall-clock seconds of the whole training so far."""
        return self._before + time.monotonic() - self._began

    def fraction(self) -> float:
        """Which part of the plan is done: of the epochs or of the minutes, whichever is further."""
        parts = [0.0]
        if self.config.epochs is not None:
            parts.append(self.state.pairs / (self.config.epochs * self.sampler.expected))
        if self.config.minutes is not None:
            parts.append(self.seconds() / (60 * self.config.minutes))
        return min(1.0, max(parts))

    def to_the_end(self) -> None:
        """Train until the epochs or the minutes are over (one mini-batch at least), or nothing gets
        better."""
        while not self._over():
            order = self.sampler.epoch(self.state.epoch)
            minibatches = -(-len(order) // self.config.batch)
            while not self._over() and (taken := self.state.schedule.refill(minibatches)):
                self._mega_batch(order, taken)
            if not self._over():
                self._next_epoch()
        self._measure_development()
        self._record()

    def _over(self) -> bool:
        state, config = self.state, self.config
        if config.epochs is not None and state.epoch >= config.epochs:
            return True
        patience = config.development.patience if config.development is not None else None
        if patience is not None and state.stale >= patience:
            return True
        return config.minutes is not None and state.step > 0 and self.seconds() >= 60 * config.minutes

    def _next_epoch(self) -> None:
        self.state.losses.append(self.state.epoch_loss / max(1, self.state.epoch_steps))
        self.state.epoch_loss, self.state.epoch_steps = 0.0, 0
        self.state.epoch += 1
        self.state.schedule.restart()

    def _mega_batch(self, order: np.ndarray, taken: range) -> None:
        size = self.config.batch
        rows = order[taken.start * size : taken.stop * size]
        mega = gather(self.pairs, rows, self.network, self.config, self.state.mega_batches, self.objective)
        self.state.mega_batches += 1
        for start in range(0, len(mega), size):
            if self._over():
                return
            self._step(mega, slice(start, min(start + size, len(mega))))
        settings = self.config.development
        if settings is not None and self.state.step - self.state.measured >= settings.every:
            self._measure_development()
        if time.monotonic() - self._saved >= 60 * self.config.checkpoint_minutes:
            self.save()

    def _step(self, mega: MegaBatch, rows: slice) -> None:
        state = self.state
        rate = self._learning_rate()
        loss = train_minibatch(mega, rows, self.adam, self.objective, self.config, rate, state.step)
        state.step += 1
        state.pairs += rows.stop - rows.start
        state.epoch_loss += loss
        state.epoch_steps += 1
        memory = min(_LOSS_MEMORY, 1 - 1 / state.step)
        state.loss = memory * state.loss + (1 - memory) * loss
        if state.step % CURVE_STEPS == 0:
            self._record()
        self._tell(len(mega))

    def _learning_rate(self) -> float:
        left = 1.0 - self.fraction() if self.config.schedule == "linear" else 1.0
        return self.config.learning_rate * left

    def _record(self, **more: float) -> None:
        """Add a point to the curves; of a step there is one."""
        state = self.state
        point: Point = {"step": state.step, "pairs": state.pairs, "loss": round(state.loss, 6)}
        point |= {"learning_rate": self._learning_rate(), "mega_batch": state.schedule.current, **more}
        if state.curve and state.curve[-1]["step"] == state.step:
            point = state.curve.pop() | more
        state.curve.append(point)
        self.curves.add(point)

    def _measure_development(self) -> None:
        """Measure the model on the development set, and keep it if it is the best so far."""
        state = self.state
        if self.development is None or (state.measured == state.step and state.measured):
            return
        value = self.development.measure(*self.encoders(), self.config.threads)
        state.measured, self._measure = state.step, value
        if state.best is None or value > state.best:
            state.best, state.best_step, state.stale = value, state.step, 0
            save_best(self.checkpoint, self.network)
        else:
            state.stale += 1
        self._record(development=value)
        # What is measured is measured once: the point of the curve and the best model are kept
        # together.
        self.save()

    def encoders(self) -> tuple[SentenceEncoder, SentenceEncoder]:
        """The model as it is now, for the source and the target side."""
        tokenizers = self.pairs.tokenizers
        apart = [] if self.config.shared else [half(self.network, tokenizers, number) for number in (0, 1)]
        source, target = (SentenceEncoder(side, tokenizers, "unfinished") for side in apart or [self.network] * 2)
        return source, target

    def _tell(self, mega_pairs: int) -> None:
        state, fraction = self.state, self.fraction()
        spent = max(time.monotonic() - self._stepping, 1e-9)
        rate = (state.pairs - self._pairs_before) / spent
        left = math.inf
        if self.config.epochs is not None:
            left = (self.config.epochs * self.sampler.expected - state.pairs) / max(rate, 1e-9)
        if self.config.minutes is not None:
            left = min(left, 60 * self.config.minutes - self.seconds())
        self.report(
            Progress(
                stage="vectors",
                pairs=state.pairs,
                step=state.step,
                epoch=state.epoch,
                loss=state.loss,
                pairs_per_second=rate,
                mega_batch=-(-mega_pairs // self.config.batch),
                fraction=fraction,
                seconds_left=max(left, 0.0),
                development=self._measure,
                best=state.best,
            )
        )

    def save(self) -> None:
        """Write a checkpoint."""
        self.state.seconds = self.seconds()
        save_state(self.checkpoint, self.state, self.adam)
        self._saved = time.monotonic()


CURVE_STEPS = 100
"""Mini-batches between two points of the curves."""


def _finish(folder: Path, config: TrainConfig, name: str, run: _Run) -> None:
    pairs, state = run.pairs, run.state
    if state.best is not None:
        load_best(run.checkpoint, run.network)
    summary = TrainingSummary(
        identity=name,
        config=config.learnt(),
        data=DataSummary.of(pairs),
        pairs=len(pairs),
        truncated_sentences=pairs.truncated,
        epochs=state.epoch,
        steps=state.step,
        pairs_seen=state.pairs,
        loss=round(state.loss, 6),
        development=BestMeasure(state.best, state.best_step) if state.best is not None else None,
    )
    versions = {"torch": torch.__version__, "sentencepiece": sentencepiece.__version__}
    languages = config.languages or _languages(pairs)
    run.curves.finish(state.curve)
    save_model(folder, run.network, pairs.tokenizers, languages=languages, training=asdict(summary), versions=versions)
    if config.keep_checkpoint:
        run.save()
    tidy(folder, config)
