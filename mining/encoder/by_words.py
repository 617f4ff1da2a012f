"""Encoding word by word: for models that average pieces, on the processor or on another device."""

from __future__ import annotations

import functools
import queue
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np
import torch

from mining.compiled import in_ranges
from mining.devices import resolve_threads
from mining.encoder.averaging import bag_sums
from mining.encoder.networks import AverageNetwork
from mining.encoder.stored import StoredNetwork, StoredTable
from mining.encoder.tokens import Tokens
from mining.encoder.word_cache import WordPieces
from mining.encoder.word_cache.sums import unit_sums
from mining.encoder.word_cache.texts import BLOCK_TEXTS, Texts, blocks

_FEWEST_TEXTS = 256
"""Texts that are worth a block of their own."""
_BLOCKS_A_THREAD = 4
"""Blocks for each thread when there are few texts, so that the threads end together."""
_AHEAD = 3
"""Blocks whose pieces wait for the device, and blocks whose vectors wait to be fetched from it."""
T = TypeVar("T")


def piece_table(network: object) -> StoredTable | None:
    """The table of a network that does no more than average pieces; None for every other
    network."""
    if isinstance(network, StoredNetwork):
        plain, tables = network.kind == AverageNetwork.kind, network.tables
    elif isinstance(network, AverageNetwork):
        plain, tables = True, {name: StoredTable(table) for name, table in network.tables.items()}
    else:
        return None
    return tables["pieces"] if plain and list(tables) == ["pieces"] and not network.weights else None


def encode_by_words(
    texts: Texts, finder: WordPieces, table: StoredTable, threads: int, vectors: np.ndarray, valid: np.ndarray
) -> None:
    """Write the unit vectors of `texts` to `vectors`, (n, dim) float32, and which have one to
    `valid`, (n,) bool.

    On the processor a vector is the same to the last bit as `averaging.bag_sums` and
    `averaging.unit_rows` give from the same pieces. On another device a thread finds the pieces of
    the next blocks meanwhile.
    """
    if table.values.device.type == "cpu":
        _on_processor(texts, finder, table, threads, vectors, valid)
    else:
        on_device(texts, finder, table, threads, vectors, valid)


def _on_processor(
    texts: Texts, finder: WordPieces, table: StoredTable, threads: int, vectors: np.ndarray, valid: np.ndarray
) -> None:
    """Each thread takes one block after the other: while one gathers strings, the others are in
    compiled code."""
    values, scales = _arrays(table)
    workers = max(1, min(resolve_threads(threads), len(texts) // _FEWEST_TEXTS))
    each = -(-len(texts) // (_BLOCKS_A_THREAD * workers))
    taken, waiting = threading.Lock(), blocks(texts, min(BLOCK_TEXTS, max(each, _FEWEST_TEXTS)))

    def add_up(start: int, first: int, pieces: Tokens) -> None:
        rows, count = start + first, len(pieces.offsets) - 1
        unit_sums(pieces.ids, pieces.offsets, 0, count, values, scales, vectors[rows:], valid[rows:])

    def work(_first: int, _last: int) -> None:
        while True:
            with taken:
                start, block = next(waiting, (0, None))
            if block is None:
                return
            finder.each(block, 1, functools.partial(add_up, start))

    in_ranges(work, workers, workers)


def _arrays(table: StoredTable) -> tuple[np.ndarray, np.ndarray]:
    """Values and scales as compiled code takes them: float16 as its bits."""
    values = table.values.detach().contiguous()
    bits = values.view(torch.int16).numpy().view(np.uint16) if values.dtype == torch.float16 else values.numpy()
    return bits, np.ones(1, np.float32) if table.scales is None else table.scales.numpy()


class _Waiting(NamedTuple):
    """Vectors on their way from the device."""

    start: int
    rows: torch.Tensor
    usable: torch.Tensor
    arrived: torch.cuda.Event | None


def on_device(
    texts: Texts, finder: WordPieces, table: StoredTable, threads: int, vectors: np.ndarray, valid: np.ndarray
) -> None:
    """The same by torch on the table's device, which gathers while a thread finds pieces.

    Numbers travel through pinned memory, and nothing waits for the device until its answers are old
    enough.
    """
    device, waiting = table.values.device, deque[_Waiting]()

    def fetch(most: int) -> None:
        while len(waiting) > most:
            start, rows, usable, arrived = waiting.popleft()
            if arrived is not None:
                arrived.synchronize()
            vectors[start : start + len(rows)] = rows.numpy()
            valid[start : start + len(rows)] = usable.numpy()

    for start, pieces in ahead(((start, finder(block, threads)) for start, block in blocks(texts)), _AHEAD):
        ids, offsets = (_sent(part, device) for part in (pieces.ids, pieces.offsets.astype(np.int32)))
        rows, usable = _unit_means(table, ids, offsets, vectors.shape[1])
        fetched = [_fetched(part) for part in (rows, usable)]
        arrived = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
        waiting.append(_Waiting(start, fetched[0], fetched[1], arrived))
        fetch(_AHEAD)
    fetch(0)


def _sent(numbers: np.ndarray, device: torch.device) -> torch.Tensor:
    tensor = torch.from_numpy(numbers)
    return tensor.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else tensor


def _fetched(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type != "cuda":
        return tensor
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True).copy_(tensor, non_blocking=True)


def _unit_means(
    table: StoredTable, ids: torch.Tensor, offsets: torch.Tensor, dim: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors (n, dim) float32 of bags of rows, and which have a direction."""
    if table.dtype == "float32":
        sums = bag_sums(table.values, ids, offsets)
    else:
        sums = bag_sums(table.take(ids), torch.arange(len(ids), dtype=ids.dtype, device=ids.device), offsets)
    counts = offsets.diff()[:, None]
    means = (sums * counts.clamp(min=1).float().reciprocal())[:, :dim].double()
    norms = means.square().sum(1, keepdim=True).sqrt()
    usable = (counts > 0) & torch.isfinite(norms) & (norms > 0)
    return torch.where(usable, means / norms, 0.0).float(), usable[:, 0]


def ahead(items: Iterable[T], most: int) -> Iterator[T]:
    """The items in order, made by another thread that is at most so many ahead; its error is raised
    here."""
    ready: queue.Queue[tuple[T | None, BaseException | None]] = queue.Queue()
    room, stopped = threading.Semaphore(most), threading.Event()

    def make() -> None:
        try:
            for item in items:
                ready.put((item, None))
                room.acquire()
                if stopped.is_set():
                    return
            ready.put((None, StopIteration()))
        except BaseException as error:
            ready.put((None, error))

    maker = threading.Thread(target=make, daemon=True)
    maker.start()
    try:
        while True:
            item, error = ready.get()
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            room.release()
            yield item  # type: ignore[misc]
    finally:
        stopped.set()
        room.release()
        maker.join()
