"""The development set: what tells a better model from a worse one while it is trained."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from mining.config.train import DevelopmentSettings
from mining.corpus import CorpusSpec, list_inputs
from mining.encoder.protocol import Encoder
from mining.errors import UsageError
from mining.evaluation.mining import evaluate_mining, read_mining_task
from mining.evaluation.sts import find_sts, read_sts, sts_correlations
from mining.evaluation.tatoeba import find_aligned, read_aligned, tatoeba_error
from mining.io.files import file_hash
from mining.training.data.prepare import file_hashes

Measure = Callable[[Encoder, Encoder, int], float]


class DevelopmentSet:
    """A metric on texts read once: 0 to 100, higher is better."""

    def __init__(self, name: str, measure: Measure) -> None:
        """`measure` takes the encoders of the source and the target side and the number of
        threads."""
        self.name = name
        self._measure = measure

    @classmethod
    def read(cls, settings: DevelopmentSettings) -> DevelopmentSet:
        """Read what `settings` names; raises UsageError for a missing file and InputError for a
        faulty one."""
        readers = {"mining": _mining, "tatoeba": _tatoeba, "sts": _sts}
        return cls(settings.metric, readers[settings.metric](settings))

    @staticmethod
    def contents(settings: DevelopmentSettings) -> list[str]:
        """The hashes of all files that `read` reads, in their order; raises UsageError for a
        missing one."""
        if settings.metric == "tatoeba":
            specs = find_aligned(settings.paths).values()
            return [digest for spec in specs for file in list_inputs(spec) for digest in file_hashes(file)]
        if settings.metric == "sts":
            return [file_hash(path) for path in find_sts(settings.paths)]
        named = [path for path in (settings.source, settings.target) if path is not None]
        files = [file for path in named for file in list_inputs(_side(settings, path))]
        return [digest for file in files for digest in file_hashes(file)] + [file_hash(str(settings.gold))]

    def measure(self, source: Encoder, target: Encoder, threads: int = 0) -> float:
        """The metric of the encoders of the two sides: one and the same unless the languages are
        kept apart."""
        return round(self._measure(source, target, threads), 6)


def _mining(settings: DevelopmentSettings) -> Measure:
    if settings.source is None or settings.target is None or settings.gold is None:
        raise UsageError("development: metric: mining needs source, target and gold")
    if not Path(settings.gold).is_file():
        raise UsageError(f"{settings.gold}: no such gold file")
    left, right = (_side(settings, path) for path in (settings.source, settings.target))
    task = read_mining_task(left, right, settings.gold)

    def measure(source: Encoder, target: Encoder, threads: int) -> float:
        results = evaluate_mining(task, source, ("ratio",), folds=None, target_encoder=target, threads=threads)
        return 100 * results["ratio"].f1

    return measure


def _side(settings: DevelopmentSettings, path: str) -> CorpusSpec:
    return CorpusSpec(path=path, format="tsv", columns=settings.columns)


def _tatoeba(settings: DevelopmentSettings) -> Measure:
    sets = [read_aligned(name, spec) for name, spec in find_aligned(settings.paths).items()]

    def measure(source: Encoder, target: Encoder, threads: int) -> float:
        errors = [
            tatoeba_error(source, one.source, one.target, target_encoder=target, threads=threads).error for one in sets
        ]
        return 100 - float(np.mean(errors))

    return measure


def _sts(settings: DevelopmentSettings) -> Measure:
    sets = [read_sts(path) for path in find_sts(settings.paths)]
    # A model without any defined correlation is no better than chance.
    return lambda source, _, threads: sts_correlations(source, sets, threads=threads).all.pearson or 0.0
