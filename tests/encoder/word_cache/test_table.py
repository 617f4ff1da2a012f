"""The table of words: who reads, who writes, and who waits."""

from __future__ import annotations

import queue
import threading
from typing import Any

import numpy as np
import pytest

from mining.encoder.word_cache import kernels
from mining.encoder.word_cache.table import NewWords, WordTable

SPLITS = np.arange(256) == 0x20
LONG = 600
"""Seconds for what happens at once; only a fault waits so long."""


def new_words(*words: str) -> NewWords:
    """Words with their number as the only piece."""
    data = np.frombuffer("".join(words).encode(), np.uint8)
    starts = np.cumsum([0, *map(len, words)])
    pool = np.array([part for number in range(len(words)) for part in (1 << 2, number)], np.int32)
    return NewWords(data, starts, pool, np.arange(0, len(pool), 2))


class Watched(threading.Condition):
    """Says when somebody waits for it."""

    def __init__(self, happened: queue.Queue[str]) -> None:
        super().__init__()
        self.happened = happened

    def wait(self, timeout: float | None = None) -> bool:
        self.happened.put("waits")
        return super().wait(timeout)


@pytest.fixture
def table() -> WordTable:
    return WordTable(SPLITS, folds=False)


@pytest.fixture
def happened(table: WordTable, monkeypatch: pytest.MonkeyPatch) -> queue.Queue[str]:
    """What a writer of the table does: it waits, it writes."""
    happened: queue.Queue[str] = queue.Queue()
    table._changes = Watched(happened)
    absorb = kernels.absorb

    def watched_absorb(*arguments: Any) -> Any:
        happened.put("writes")
        return absorb(*arguments)

    monkeypatch.setattr(kernels, "absorb", watched_absorb)
    return happened


def start_writer(table: WordTable) -> threading.Thread:
    writer = threading.Thread(target=table.add, args=(new_words("bake", "lomi"),), daemon=True)
    writer.start()
    return writer


def test_a_writer_waits_for_every_reader(table: WordTable, happened: queue.Queue[str]) -> None:
    with table.reading():
        with table.reading():
            writer = start_writer(table)
            assert happened.get(timeout=LONG) == "waits"
        # One of two has left: the writer looks and goes on waiting.
        assert happened.get(timeout=LONG) == "waits"
        assert table.statistics.words == 0
    assert happened.get(timeout=LONG) == "writes"
    writer.join(LONG)
    assert table.statistics.words == 2


def test_a_reader_that_fails_has_left(table: WordTable, happened: queue.Queue[str]) -> None:
    with pytest.raises(KeyError), table.reading():
        raise KeyError
    start_writer(table).join(LONG)
    assert happened.get(timeout=LONG) == "writes"


def test_nobody_begins_to_read_while_one_writes(table: WordTable, monkeypatch: pytest.MonkeyPatch) -> None:
    let_in: list[bool] = []

    def try_to_read(*_: object) -> None:
        reader = threading.Thread(target=lambda: let_in.append(table._changes.acquire(blocking=False)))
        reader.start()
        reader.join()

    monkeypatch.setattr(kernels, "absorb", try_to_read)
    monkeypatch.setattr(kernels, "rehash", try_to_read)
    # So many words that the table grows first, into which its words are put anew.
    table.add(new_words(*(f"w{number}" for number in range(200))))
    assert let_in == [False, False]


@pytest.mark.parametrize("spread", [0, 1 << 40, (1 << 64) - 1])
def test_every_word_is_found_when_the_table_has_grown(spread: int) -> None:
    table = WordTable(SPLITS, folds=False, spread=spread)
    words = [f"{number:x}".rjust(length, "x") for length in range(1, kernels.LONGEST + 1) for number in range(1, 5)]
    for start in range(0, len(words), 20):
        table.add(new_words(*words[start : start + 20]))
        before = words[: start + 20]
        offsets = np.cumsum([0, *map(len, before)])
        found, ends, missed = (np.zeros((len(before), *more), np.int64) for more in [(), (), (3,)])
        with table.reading() as (slots, keys, pool):
            counts = kernels.scan(
                np.frombuffer("".join(before).encode(), np.uint8), offsets, table.splits, table.folds, table.spread,
                slots, keys, found, ends, missed,
            )  # fmt: skip
        assert counts == (len(before), 0)
        assert pool[found].tolist() == [1 << 2] * len(before)
        assert pool[found + 1].tolist() == [number % 20 for number in range(len(before))]
    assert table.statistics.words == len(words)
    assert table.statistics.cleared == 0
