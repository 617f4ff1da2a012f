"""The sentence encoder: texts to tokens, their vectors combined by a network, rows of length one.

A model that averages the pieces of a sentencepiece model takes a shorter way: pieces come from a
table of words (`word_cache`), and their vectors are added up by compiled code, or by torch on
another device. Threads take blocks of texts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar

import numpy as np
import pyarrow as pa
import torch

from mining.devices import resolve_threads, share, torch_threads
from mining.encoder.averaging import unit_rows, unit_sums
from mining.encoder.bags import bag_sums
from mining.encoder.model import StoredNetwork, StoredTable
from mining.encoder.networks.average import AverageNetwork
from mining.encoder.tokenizers import Tokenizer
from mining.encoder.tokenizers.pieces import PieceTokenizer
from mining.encoder.tokens import Tokens, check_texts
from mining.encoder.word_cache.table import WORD_MEMORY, CachedPieces, WordStatistics
from mining.text_arrays import Texts, check_arrow, strings, utf8_blocks

if TYPE_CHECKING:
    from mining.encoder.model_folder import ModelDescription

NETWORK_TEXTS = 8192
"""Texts that a network encodes at a time: beyond the result itself, memory does not grow with the
number of texts."""
BLOCK_TEXTS = 32_768
"""Texts that a thread takes at a time where vectors are only averaged."""
_FEWEST_TEXTS = 256
"""Texts that are worth a block of their own."""
_BLOCKS_A_THREAD = 4
"""Blocks for each thread when there are few texts, so that the threads end together."""
_AHEAD = 3
"""Blocks whose pieces wait for the device, and blocks whose vectors wait to be fetched from it."""
T = TypeVar("T")
U = TypeVar("U")


class Vectoriser(Protocol):
    """The part of a network that encoding needs: `Network`, or `StoredNetwork` with its small
    tables."""

    dim: int

    def vectors(self, tokens: Sequence[Tokens]) -> np.ndarray:
        """(n, dim) float32 from the ids of each tokenizer; a row's bytes do not depend on the other
        rows."""
        ...


class SentenceEncoder:
    """Cuts texts into tokens, looks up and combines their vectors, and brings them to length one.

    ``tokenizers`` and ``network`` are the parts; ``hash`` names the model; ``description`` is the
    model folder's ``config.json``. The result is the same to the last bit for any batch size and
    number of threads.

    A model that averages pieces is applied word by word, much faster, when that is proved to be
    right for its sentencepiece model (see `word_cache.proof`). `plain` says why it is not, or is
    None.
    """

    def __init__(
        self,
        network: Vectoriser,
        tokenizers: Sequence[Tokenizer],
        hash: str,
        description: ModelDescription | None = None,
        *,
        dim: int | None = None,
        word_memory: int = WORD_MEMORY,
    ) -> None:
        """`dim`: keep only so many of the first dimensions; `word_memory`: bytes for the words
        already segmented."""
        self.network = network
        self.tokenizers = list(tokenizers)
        self.hash = hash
        self.description = description
        self.dim = network.dim if dim is None else dim
        self._word_memory = word_memory

    @property
    def plain(self) -> str | None:
        """Why this model is not applied word by word; None when it is."""
        return self._cached if isinstance(self._cached, str) else None

    @property
    def statistics(self) -> WordStatistics | None:
        """How often words were already known; None for a model that is not applied word by word."""
        return None if isinstance(self._cached, str) else self._cached.statistics

    @cached_property
    def _cached(self) -> CachedPieces | str:
        if averaged_table(self.network) is None or len(self.tokenizers) != 1:
            return "it does more than average pieces"
        (tokenizer,) = self.tokenizers
        if not isinstance(tokenizer, PieceTokenizer):
            return "its pieces are not sentencepiece's"
        return CachedPieces.of(tokenizer, self._word_memory)

    def encode(self, texts: Texts, threads: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors of `texts`, a sequence of ``str`` or an Arrow array of strings.

        Returns (n, dim) float32 C-contiguous and (n,) bool validity. Unknown tokens are left out; a
        text of unknown tokens only is one unknown token; a text for which no tokenizer finds any is
        a zero row and invalid. ``threads`` 0: all cores. Raises TypeError for a plain ``str`` or an
        element that is no ``str``.
        """
        if isinstance(texts, (pa.Array, pa.ChunkedArray)):
            check_arrow(texts)
        else:
            check_texts(texts)
        vectors, valid = np.empty((len(texts), self.dim), np.float32), np.empty(len(texts), bool)
        table, cached = averaged_table(self.network), self._cached
        with torch_threads(threads), torch.inference_mode():
            if table is None or isinstance(cached, str):
                self._by_network(texts, threads, vectors, valid)
            elif table.values.device.type == "cpu":
                average(texts, cached, table, threads, vectors, valid)
            else:
                average_on_device(texts, cached, table, threads, vectors, valid)
        return vectors, valid

    def _by_network(self, texts: Texts, threads: int, vectors: np.ndarray, valid: np.ndarray) -> None:
        for start in range(0, len(texts), NETWORK_TEXTS):
            block = slice(start, min(start + NETWORK_TEXTS, len(texts)))
            listed = strings(texts[block])
            tokens = [tokenizer(listed, threads) for tokenizer in self.tokenizers]
            filled = np.any([one.lengths > 0 for one in tokens], axis=0)
            vectors[block], usable = unit_rows(self.network.vectors(tokens)[:, : self.dim])
            vectors[block][~filled] = 0.0
            valid[block] = usable & filled


def averaged_table(network: object) -> StoredTable | None:
    """The table of a network that does no more than average pieces; None for every other
    network."""
    if isinstance(network, StoredNetwork):
        plain, tables = network.kind == AverageNetwork.kind, network.tables
    elif isinstance(network, AverageNetwork):
        plain, tables = True, {name: StoredTable(table) for name, table in network.tables.items()}
    else:
        return None
    plain = plain and list(tables) == [PieceTokenizer.kind] and not network.weights
    return tables[PieceTokenizer.kind] if plain else None


def average(
    texts: Texts, cached: CachedPieces, table: StoredTable, threads: int, vectors: np.ndarray, valid: np.ndarray
) -> None:
    """Write the unit vectors of `texts` to `vectors`, (n, dim) float32, and which have one to
    `valid`, (n,) bool.

    A vector is the same to the last bit as `averaging.bag_sums` and `averaging.unit_rows` give from
    the same pieces.
    """
    workers = max(1, min(resolve_threads(threads), len(texts) // _FEWEST_TEXTS))
    size = min(BLOCK_TEXTS, max(-(-len(texts) // (_BLOCKS_A_THREAD * workers)), _FEWEST_TEXTS))
    values, scales = _arrays(table)

    def add_up(first: int) -> None:
        for start, block in utf8_blocks(texts, first, min(first + size, len(texts))):
            ids, offsets = cached(block)
            unit_sums(ids, offsets, values, scales, vectors[start:], valid[start:])

    share(range(0, len(texts), size), [lambda: add_up] * workers)


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


def average_on_device(
    texts: Texts, cached: CachedPieces, table: StoredTable, threads: int, vectors: np.ndarray, valid: np.ndarray
) -> None:
    """The same by torch on the table's device, while threads find the pieces of the next blocks.

    Numbers travel through pinned memory, and nothing waits for the device until its answers are old
    enough.
    """
    device, waiting = table.values.device, deque[_Waiting]()

    def pieces(first: int) -> tuple[int, Tokens]:
        blocks = utf8_blocks(texts, first, min(first + BLOCK_TEXTS, len(texts)))
        return first, Tokens.joined([cached(block) for _, block in blocks])

    def fetch(most: int) -> None:
        while len(waiting) > most:
            start, rows, usable, arrived = waiting.popleft()
            if arrived is not None:
                arrived.synchronize()
            vectors[start : start + len(rows)] = rows.numpy()
            valid[start : start + len(rows)] = usable.numpy()

    for start, tokens in in_order(pieces, range(0, len(texts), BLOCK_TEXTS), resolve_threads(threads), _AHEAD):
        ids, offsets = (_sent(part, device) for part in (tokens.ids, tokens.offsets.astype(np.int32)))
        rows, usable = _unit_means(table, ids, offsets, vectors.shape[1])
        fetched = [_fetched(part) for part in (rows, usable)]
        arrived = torch.cuda.current_stream(device).record_event() if device.type == "cuda" else None
        waiting.append(_Waiting(start, fetched[0], fetched[1], arrived))
        fetch(_AHEAD)
    fetch(0)


def in_order(work: Callable[[T], U], items: Iterable[T], threads: int, ahead: int) -> Iterator[U]:
    """What `work` makes of the items, in their order, by `threads` threads that begin at most so
    many items more than they are threads; an error is raised where its item comes."""
    begun = deque[Future[U]]()
    pool = ThreadPoolExecutor(threads)
    try:
        for item in items:
            begun.append(pool.submit(work, item))
            if len(begun) >= threads + ahead:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


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
