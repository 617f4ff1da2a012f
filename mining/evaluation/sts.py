"""Semantic textual similarity: correlation of cosines with human judgements, per data set and per
year.

Pearson's r by data set and its mean by year is the measure of the shared tasks (Agirre et al.
2012-2016) and of Wieting et al. 2019, section 3; Spearman's rho over the concatenation of a year is
that of Reimers and Gurevych 2019 (Wieting et al. 2022, section 5.2). A correlation with something
constant does not exist; it is None here, "undefined" on screen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from mining.devices import torch_threads
from mining.encoder.protocol import encode_checked
from mining.errors import InputError, UsageError
from mining.schemas import DECIMALS
from mining.search.vectors import exact_cosines

if TYPE_CHECKING:
    from mining.encoder import Encoder

MAX_LINE_CHARS = 1_000_000
UNENCODED_SIMILARITY = 0.0
"""Similarity of a pair of which a side cannot be encoded."""


@dataclass(frozen=True)
class StsSet:
    """A data set: `gold` (n,) float64 judgements, `left` and `right` the n sentences judged."""

    name: str
    gold: NDArray[np.float64]
    left: list[str]
    right: list[str]

    @property
    def group(self) -> str:
        """What stands before the first dot of the name: ``STS12`` of ``STS12.MSRpar``."""
        return self.name.split(".", 1)[0]


@dataclass(frozen=True)
class StsScore:
    """Correlations of one data set times 100 (None: undefined); `unencoded` pairs have similarity
    0."""

    name: str
    pairs: int
    pearson: float | None
    spearman: float | None
    unencoded: int


@dataclass(frozen=True)
class StsGroup:
    """Means over the data sets of a group, times 100; None where no data set of it has a
    correlation.

    `defined` of the `sets` have one, and the means are over these; the weighted ones count each set
    by its pairs. `concatenated` is Spearman's rho over all pairs of the group at once.
    """

    name: str
    sets: int
    defined: int
    pairs: int
    pearson: float | None
    spearman: float | None
    weighted_pearson: float | None
    weighted_spearman: float | None
    concatenated: float | None


@dataclass(frozen=True)
class StsResult:
    """Outcome of `sts_correlations`: each data set, each group, and all data sets together."""

    sets: list[StsScore]
    groups: list[StsGroup]
    all: StsGroup

    def to_dict(self) -> dict[str, object]:
        """Plain data by name; correlations times 100 with four decimals, null where undefined."""
        return {
            "all": _plain(self.all),
            "groups": {group.name: _plain(group) for group in self.groups},
            "sets": {score.name: _plain(score) for score in self.sets},
        }


def _plain(entry: StsScore | StsGroup) -> dict[str, object]:
    values = {key: round(v, 4) if isinstance(v, float) else v for key, v in asdict(entry).items() if key != "name"}
    return dict(sorted(values.items()))


def pearson(left: ArrayLike, right: ArrayLike) -> float | None:
    """Pearson's r of two (n,) arrays of finite numbers; None for a constant one or fewer than two
    values."""
    centred = []
    for values in (np.asarray(left, np.float64), np.asarray(right, np.float64)):
        # Asked of the values themselves: their mean is rounded, so their deviations need not be
        # zero.
        if len(values) < 2 or values.min() == values.max():
            return None
        values = values / np.abs(values).max()
        values = values - values.mean()
        values = values / np.abs(values).max()
        centred.append(values / np.sqrt((values * values).sum()))
    return float(np.clip((centred[0] * centred[1]).sum(), -1.0, 1.0))


def average_ranks(values: ArrayLike) -> NDArray[np.float64]:
    """Ranks (n,) float64 from 1; equal values share the mean of their ranks."""
    _, group, counts = np.unique(np.asarray(values, np.float64), return_inverse=True, return_counts=True)
    return (np.cumsum(counts) - (counts - 1) / 2)[group]


def spearman(left: ArrayLike, right: ArrayLike) -> float | None:
    """Spearman's rho, Pearson's r of the average ranks; None where that is undefined."""
    return pearson(average_ranks(left), average_ranks(right))


def similarities(
    encoder: Encoder, left: Sequence[str], right: Sequence[str], threads: int = 0
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Cosine of each pair, (n,) float64 with six decimals, and which pairs can be encoded; the
    others get 0."""
    left_vectors, left_valid = encode_checked(encoder, left, threads)
    right_vectors, right_valid = encode_checked(encoder, right, threads)
    usable = left_valid & right_valid
    rows = np.arange(len(left), dtype=np.int64)
    with torch_threads(threads):
        cosines = exact_cosines(left_vectors, right_vectors, rows, rows)
    cosines = np.round(cosines.astype(np.float64), DECIMALS) + 0.0
    return np.where(usable, cosines, UNENCODED_SIMILARITY), usable


def sts_correlations(encoder: Encoder, datasets: Sequence[StsSet], *, threads: int = 0) -> StsResult:
    """Pearson and Spearman correlation of cosine and judgement, per data set and per group.

    Raises ValueError when two data sets have one name or a data set has unequal columns.

    >>> import numpy as np
    >>> from mining import load_encoder
    >>> from mining.evaluation import StsSet, sts_correlations
    >>> left, right = ["A red car.", "Good night."], ["A red car.", "Two dogs swim."]
    >>> judged = StsSet("STS.example", np.array([5.0, 0.5]), left, right)
    >>> round(sts_correlations(load_encoder(), [judged]).all.pearson, 2)
    100.0
    """
    names = [dataset.name for dataset in datasets]
    if len(set(names)) != len(names):
        raise ValueError(f"two data sets have one name: {', '.join(sorted(names))}")
    scores, computed = [], []
    for dataset in datasets:
        if not len(dataset.gold) == len(dataset.left) == len(dataset.right):
            raise ValueError(f"{dataset.name}: {len(dataset.gold)} judgements for {len(dataset.left)} pairs")
        values, usable = similarities(encoder, dataset.left, dataset.right, threads)
        r, rho = pearson(values, dataset.gold), spearman(values, dataset.gold)
        scores.append(StsScore(dataset.name, len(values), _percent(r), _percent(rho), int((~usable).sum())))
        computed.append(values)
    groups = list(dict.fromkeys(dataset.group for dataset in datasets))
    grouped = {group: [i for i, dataset in enumerate(datasets) if dataset.group == group] for group in groups}
    return StsResult(
        sets=scores,
        groups=[_group(name, members, datasets, scores, computed) for name, members in grouped.items()],
        all=_group("all", list(range(len(datasets))), datasets, scores, computed),
    )


def _percent(value: float | None) -> float | None:
    return None if value is None else 100 * value


def _group(
    name: str,
    members: list[int],
    datasets: Sequence[StsSet],
    scores: Sequence[StsScore],
    computed: Sequence[NDArray[np.float64]],
) -> StsGroup:
    # Pearson and Spearman are undefined for the same sets: those with a constant side.
    defined = [scores[i] for i in members if scores[i].pearson is not None]
    weights = [score.pairs for score in defined]
    r = [score.pearson for score in defined if score.pearson is not None]
    rho = [score.spearman for score in defined if score.spearman is not None]
    values = np.concatenate([np.empty(0), *(computed[i] for i in members)])
    gold = np.concatenate([np.empty(0), *(datasets[i].gold for i in members)])
    return StsGroup(
        name=name,
        sets=len(members),
        defined=len(defined),
        pairs=len(values),
        pearson=_mean(r, [1] * len(r)),
        spearman=_mean(rho, [1] * len(rho)),
        weighted_pearson=_mean(r, weights),
        weighted_spearman=_mean(rho, weights),
        concatenated=_percent(spearman(values, gold)),
    )


def _mean(values: list[float], weights: list[int]) -> float | None:
    return math.fsum(v * w for v, w in zip(values, weights, strict=True)) / sum(weights) if values else None


def find_sts(paths: Sequence[str | Path]) -> list[Path]:
    """The files meant by `paths`, a folder standing for its ``.tsv`` files (compressed or not),
    sorted by name.

    Raises UsageError when a path does not exist, a folder has none, or two files give one data
    set's name.
    """
    from mining.corpus.compression import without_compression

    files: list[Path] = []
    for path in map(Path, paths):
        if path.is_dir():
            found = [file for file in sorted(path.iterdir()) if without_compression(file.name).endswith(".tsv")]
            if not found:
                raise UsageError(f"{path}: holds no .tsv files: give those with lines of gold, tab, two sentences")
            files += found
        elif path.is_file():
            files.append(path)
        else:
            raise UsageError(f"{path}: no such file: correct the path")
    files = list({file.resolve(): file for file in files}.values())
    names = [set_name(file) for file in files]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{name}: two of the data sets have this name: evaluate them one by one")
    return files


def set_name(path: Path) -> str:
    """The name of the data set in a file: ``STS12.MSRpar`` for ``STS12.MSRpar.tsv.xz``."""
    from mining.corpus.compression import without_compression

    return without_compression(path.name).removesuffix(".tsv")


def read_sts(path: str | Path) -> StsSet:
    r"""Read lines of gold, tab, sentence, tab, sentence; compressed or not.

    Only ``\n`` ends a line; lines with nothing in them are passed over. Raises InputError with file
    and line for another number of columns, a judgement that is no finite number or invalid UTF-8,
    and when there is no pair."""
    from mining.corpus.lines import FaultyLine, numbered_lines, split_cells

    path = Path(path)
    gold: list[float] = []
    left: list[str] = []
    right: list[str] = []
    for number, line in numbered_lines(str(path), "skip", MAX_LINE_CHARS):
        if isinstance(line, FaultyLine):
            raise InputError(f"{path}, line {number}: {line.reason.words}: correct or remove the line")
        if not line:
            continue
        cells = split_cells(line)
        if len(cells) != 3:
            count = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise InputError(f"{path}, line {number}: {count}: each line holds gold, tab, sentence, tab, sentence")
        gold.append(_judgement(cells[0], path, number))
        left.append(cells[1])
        right.append(cells[2])
    if not gold:
        raise InputError(f"{path}: holds no pairs: give a file with lines of gold, tab, sentence, tab, sentence")
    return StsSet(set_name(path), np.array(gold), left, right)


def _judgement(text: str, path: Path, number: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{path}, line {number}: '{text[:40]}' is no judgement: the first column is a number")
    return value
