"""The demo: which translations in gettext catalogues of installed packages are hidden among
unaligned sentences, how, and how they are mined."""

from __future__ import annotations

import hashlib
import importlib.metadata
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from mining.compiled.cache import folders as kernel_folders
from mining.config.mine import MineConfig
from mining.corpus import BitextSpec, dedup_key, read_rows
from mining.errors import InputError, UsageError
from mining.evaluation import read_gold
from mining.io.atomic import replacing
from mining.io.parquet import read_parquet
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
ROLES = ("aligned", "source_only", "target_only")
#: Least share of letters and spaces among the characters of a sentence.
LETTERS_SHARE = 0.7


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class Task(NamedTuple):
    """Two piles of ``(id, text)`` in which the translations of `gold`, ``(source id, target id)``,
    are hidden."""

    source: list[tuple[str, str]]
    target: list[tuple[str, str]]
    gold: list[tuple[str, str]]


def letters_key(text: str) -> bytes:
    """16 bytes that are equal for texts equal up to case, white space, punctuation, digits and
    symbols.

    >>> from pipelines.demo import letters_key
    >>> letters_key("Delete 3 files?") == letters_key("delete %d files")
    False
    >>> letters_key("Delete 3 files?") == letters_key("delete files")
    True
    """
    words = "".join(char if char.isalpha() else " " for char in text.lower())
    return dedup_key(words)


def clean_pairs(pairs: Iterable[Sequence[str]], max_words: int = 60) -> list[Pair]:
    """Distinct pairs (by `letters_key` of both sides) in order of first occurrence, white space
    runs made one space.

    Left out are pairs with a side that is not mostly words (code, patterns), with a side of more
    than `max_words` words (a paragraph rather than a sentence), and pairs left untranslated (both
    sides equal by `letters_key`).
    """
    kept: dict[tuple[bytes, bytes], Pair] = {}
    for source, target in pairs:
        pair = Pair(" ".join(source.split()), " ".join(target.split()))
        keys = letters_key(pair.source), letters_key(pair.target)
        if keys[0] != keys[1] and all(_is_words(text) and len(text.split()) <= max_words for text in pair):
            kept.setdefault(keys, pair)
    return list(kept.values())


def _is_words(text: str) -> bool:
    return bool(text) and sum(char.isalpha() or char == " " for char in text) >= LETTERS_SHARE * len(text)


def choose_pairs(pairs: Sequence[Pair], count: int, min_words: int, seed: int) -> list[Pair]:
    """At most `count` pairs to hide, in the order of a hash of their text.

    Pairs of at least `min_words` words whose sentences occur in no other pair (compared by
    `letters_key`), so that each hidden sentence has exactly one translation.
    """
    # On either side: a sentence may be the same in both languages.
    met = Counter(letters_key(text) for pair in pairs for text in pair)
    alone = [
        pair for pair in pairs if len(pair.source.split()) >= min_words and all(met[letters_key(t)] == 1 for t in pair)
    ]
    return sorted(alone, key=lambda pair: _draw(pair, seed))[:count]


def hide(pairs: Sequence[Pair], seed: int, source_prefix: str = "en", target_prefix: str = "de") -> Task:
    """Make a mining task: of each three pairs one stays a pair, one leaves only its source, one
    only its target.

    Which one is drawn by a hash of the texts, both sides are shuffled each by its own hash, and ids
    number the shuffled rows: neither order nor ids say what belongs together.
    """
    drawn = sorted(pairs, key=lambda pair: _draw(pair, seed))
    roles = {pair: ROLES[number % len(ROLES)] for number, pair in enumerate(drawn)}
    sides: list[list[tuple[str, str]]] = []
    for side, left_out, prefix in ((0, "target_only", source_prefix), (1, "source_only", target_prefix)):
        texts = [pair[side] for pair, role in roles.items() if role != left_out]
        shuffled = sorted(texts, key=lambda text: _digest(f"{seed} {prefix} {text}"))
        sides.append([(f"{prefix}-{number:06d}", text) for number, text in enumerate(shuffled, 1)])
    source_ids, target_ids = ({text: row_id for row_id, text in rows} for rows in sides)
    gold = [(source_ids[p.source], target_ids[p.target]) for p, role in roles.items() if role == "aligned"]
    return Task(sides[0], sides[1], sorted(gold))


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _draw(pair: Pair, seed: int) -> bytes:
    return _digest(f"{seed}\t{pair.source}\t{pair.target}")


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
    for number, name in enumerate(TASKS):
        task = hide(chosen[number :: len(TASKS)], SEED)
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

    `model` is a model folder; None is the bundled model.
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


def tune(folder: Path, model: Path | None = None) -> float | None:
    """Mine the first task; returns the threshold with the best F1, None when no pair is right."""
    return mine_task(folder, TASKS[0], "tune", model).threshold


def measure(folder: Path, threshold: float | None, model: Path | None = None) -> MineResult:
    """Mine the second task with the threshold of the first."""
    return mine_task(folder, TASKS[1], "none" if threshold is None else threshold, model)


def compiles_first() -> bool:
    """Whether no kernel is on the disk yet, so that a first run compiles them."""
    return not any(file for folder in kernel_folders() for file in folder.glob("*.nbc"))


def own_command(folder: Path, model: Path | None = None) -> str:
    """A command that mines the files of the second task as if they were a user's own."""
    task = folder / TASKS[1]
    called = Path(sys.argv[0])
    words = [str(called) if called.name == "bitext" else "bitext", "mine", "--columns", "id,text"]
    words += ["--source", str(task / "source.tsv"), "--target", str(task / "target.tsv")]
    words += ["--output", str(folder / "own"), *([] if model is None else ["--model", str(model)])]
    return shlex.join(words)


def examples(folder: Path, count: int = 5) -> list[Example]:
    """`count` mined pairs of the second task, evenly spaced from the best score to the worst."""
    task = folder / TASKS[1]
    pairs = read_parquet(task / "run" / "pairs.parquet")
    gold = read_gold(task / "gold.tsv")
    true = set(zip(gold.source, gold.target, strict=True))
    count = min(count, len(pairs))
    rows = [round(i * (len(pairs) - 1) / max(count - 1, 1)) for i in range(count)]
    return [
        Example(row["score"], (row["source_id"], row["target_id"]) in true, row["source_text"], row["target_text"])
        for row in pairs.take(rows).to_pylist()
    ]
