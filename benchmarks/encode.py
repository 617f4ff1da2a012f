"""From raw text to unit vectors: word by word against plain encoding, two other libraries and the
bare look-up.

    BITEXT_DATA=../shared/data python benchmarks/encode.py

All hold the same table of random vectors for the pieces of a vocabulary learnt beforehand. Every
step counts, from a list of Python strings to an array of vectors of length one. The bounds are
`embedding_bag` over pieces already known. Medians of repeats taken in turn in one process;
sentences a second, and processor time a sentence.
"""

from __future__ import annotations

import argparse
import gc
import lzma
import os
import platform
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from mining.devices import keep_freed_memory, resolve_threads, torch_threads
from mining.encoder import PieceTokenizer, SentenceEncoder
from mining.encoder.averaging import unit_rows
from mining.encoder.bags import bag_sums
from mining.encoder.model import StoredNetwork, StoredTable
from mining.encoder.networks.average import AverageNetwork
from mining.encoder.proto import read_facts
from mining.encoder.tokenizers.pieces import PieceSettings

GOALS = {"StaticEmbedding": 25.0, "model2vec": 25.0, "plain": 6.0, "bound float32": 0.5}
Encode = Callable[[list[str]], Any]


def english(data: Path) -> Iterator[str]:
    """Distinct English sentences of the training pairs."""
    paths = sorted((data / "bitext").glob("en-*.tsv.xz"))
    if not paths:
        raise SystemExit(f"no training pairs in {data / 'bitext'}: set BITEXT_DATA to the folder of the data")
    seen = set()
    for path in paths:
        with lzma.open(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                text = line.split("\t", 1)[0]
                key = hash(text)
                if key not in seen:
                    seen.add(key)
                    yield text


def of_length(texts: list[str], tokenizer: PieceTokenizer, count: int) -> list[str]:
    """The first sentences of 14 to 28 pieces: 21 in the middle."""
    lengths = tokenizer(texts).lengths
    return [texts[index] for index in np.flatnonzero((lengths >= 14) & (lengths <= 28))[:count]]


def plain(tokenizer: PieceTokenizer, table: torch.Tensor, threads: int) -> Encode:
    """sentencepiece, `embedding_bag`, length one."""

    def encode(texts: list[str]) -> np.ndarray:
        pieces = tokenizer(texts, threads)
        sums = bag_sums(table, torch.from_numpy(pieces.ids.astype(np.int64)), torch.from_numpy(pieces.offsets))
        return unit_rows(sums.numpy())[0]

    return encode


def fast_tokenizer(tokenizer: PieceTokenizer) -> Any:
    """The same vocabulary and normalisation for the library `tokenizers`."""
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

    facts = read_facts(tokenizer.model)
    vocabulary = [(piece.text.decode(), piece.score) for piece in facts.pieces]
    made = Tokenizer(models.Unigram(vocabulary, unk_id=tokenizer.unknown, byte_fallback=False))
    made.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(facts.charsmap),
            normalizers.Strip(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    made.pre_tokenizer = pre_tokenizers.Metaspace(replacement="\u2581", prepend_scheme="always")
    return made


def static_embedding(tokenizer: PieceTokenizer, table: torch.Tensor) -> Encode:
    """sentence-transformers."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import StaticEmbedding

    module = StaticEmbedding(fast_tokenizer(tokenizer), embedding_weights=table.numpy())
    model = SentenceTransformer(modules=[module], device="cpu")
    return lambda texts: model.encode(texts, batch_size=1024, normalize_embeddings=True, show_progress_bar=False)


def model2vec(tokenizer: PieceTokenizer, table: torch.Tensor) -> Encode:
    """model2vec."""
    from model2vec import StaticModel

    model = StaticModel(table.numpy(), fast_tokenizer(tokenizer), normalize=True)
    return lambda texts: model.encode(texts, batch_size=1024, max_length=None, use_multiprocessing=False)


def by_words(tokenizer: PieceTokenizer, table: torch.Tensor, dtype: str) -> SentenceEncoder:
    """Ours, with an empty table of words."""
    if dtype == "float32":
        return SentenceEncoder(AverageNetwork({"pieces": table}), [tokenizer], "benchmark")
    stored = {"pieces": StoredTable(table).converted(dtype)}
    network = StoredNetwork({"kind": "average", "combine": "sum"}, stored, {})
    return SentenceEncoder(network, [tokenizer], "benchmark")


class Measured:
    """Speeds by name, in the order of their first measurement."""

    def __init__(self) -> None:
        self.wall: dict[str, list[float]] = {}
        self.work: dict[str, list[float]] = {}

    def run(self, name: str, encode: Callable[[Any], Any], texts: Any, *, cold: bool = False) -> None:
        """One repeat, after the garbage of the last is gone and, unless `cold`, after a repeat
        without a clock."""
        if not cold:
            encode(texts)
        gc.collect()
        wall, work = time.perf_counter(), time.process_time()
        encode(texts)
        self.wall.setdefault(name, []).append(len(texts) / (time.perf_counter() - wall))
        self.work.setdefault(name, []).append((time.process_time() - work) / len(texts) * 1e6)

    def show(self, names: list[str]) -> None:
        """Medians, and how much faster ours is."""
        ours = statistics.median(self.wall["words, warm"])
        for name in names:
            speed, work = statistics.median(self.wall[name]), statistics.median(self.work[name])
            goal = f" (goal {GOALS[name]:g})" if name in GOALS else ""
            print(
                f"{name:22} {speed:11,.0f} /s {work:8.2f} us of processor   ours warm / this {ours / speed:6.2f}{goal}"
            )


def peers(tokenizer: PieceTokenizer, table: torch.Tensor) -> dict[str, Encode]:
    """The other libraries, as far as they are installed."""
    found: dict[str, Encode] = {}
    for name, make in (("StaticEmbedding", static_embedding), ("model2vec", model2vec)):
        try:
            found[name] = make(tokenizer, table)
        except ImportError as error:
            print(f"{name}: left out, {error.name} is not installed")
    return found


def compare(measured: Measured, texts: list[str], tokenizer: PieceTokenizer, table: torch.Tensor, a: Any) -> None:
    """Everything in turn, `a.repeats` times."""
    others = {"plain": plain(tokenizer, table, a.threads), **peers(tokenizer, table)}
    pieces = tokenizer(texts)
    ids, offsets = torch.from_numpy(pieces.ids), torch.from_numpy(pieces.offsets.astype(np.int32))
    half = table.half()
    encoders = {dtype: by_words(tokenizer, table, dtype) for dtype in ("float32", "float16", "int8")}
    expected = others["plain"](texts[:2000])
    for name, other in others.items():
        cosines = np.einsum("ij,ij->i", np.asarray(other(texts[:2000])), expected)
        print(f"{name}: cosine to plain encoding at least {cosines.min():.6f}, in the mean {cosines.mean():.6f}")
    rows, _ = encoders["float32"].encode(texts[:2000], a.threads)
    print(f"words: cosine to plain encoding at least {np.einsum('ij,ij->i', rows, expected).min():.7f}")
    for encoder in encoders.values():
        encoder.encode(texts, a.threads)
    arrow = pa.array(texts, pa.large_string())
    for _ in range(a.repeats):
        measured.run("words, warm", lambda texts: encoders["float32"].encode(texts, a.threads), texts)
        cold = by_words(tokenizer, table, "float32")
        measured.run("words, cold", lambda texts, cold=cold: cold.encode(texts, a.threads), texts, cold=True)
        measured.run("words, warm, Arrow", lambda texts: encoders["float32"].encode(texts, a.threads), arrow)
        for dtype in ("float16", "int8"):
            measured.run(
                f"words, warm, {dtype}", lambda texts, dtype=dtype: encoders[dtype].encode(texts, a.threads), texts
            )
        with torch.inference_mode():
            measured.run("bound float32", lambda texts: bag_sums(table, ids, offsets), texts)
            measured.run("bound float16", lambda texts: bag_sums(half, ids, offsets), texts)
        measured.run("plain", others["plain"], texts)
        for name in others.keys() - {"plain"}:
            measured.run(name, others[name], texts[: a.peer_sentences])


def cold_start(texts: list[str], tokenizer: PieceTokenizer, table: torch.Tensor, a: Any) -> None:
    """Distinct sentences in one go, from an empty table of words."""
    speeds = []
    for _ in range(a.repeats):
        encoder = by_words(tokenizer, table, "float32")
        wall, work = time.perf_counter(), time.process_time()
        for start in range(0, len(texts), 100_000):
            encoder.encode(texts[start : start + 100_000], a.threads)
        speeds.append((len(texts) / (time.perf_counter() - wall), (time.process_time() - work) / len(texts) * 1e6))
    speed, work = (statistics.median(column) for column in zip(*speeds, strict=True))
    words = encoder.statistics
    if words is None:
        raise SystemExit(f"this model has no word cache: {encoder.plain}")
    print(f"{len(texts):,} distinct sentences, cold: {speed:,.0f} /s, {work:.2f} us of processor a sentence")
    print(
        f"words: {words.looked_up:,}, {words.hit_rate:.2%} met before, {words.words:,} kept in "
        f"{words.memory / (1 << 20):.1f} MiB"
    )


def read_arguments() -> argparse.Namespace:
    """The arguments of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (
        ("sentences", 100_000),
        ("cold", 1_000_000),
        ("vocabulary", 20_000),
        ("dim", 300),
        ("repeats", 5),
        ("threads", 0),
        ("peer-sentences", 20_000),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--pieces", type=Path, help="a sentencepiece model instead of one learnt now")
    parser.add_argument(
        "--fresh-memory",
        action="store_true",
        help="results of 120 MB come from the system each time, and all pay for its page faults",
    )
    arguments = parser.parse_args()
    arguments.threads = resolve_threads(arguments.threads)
    return arguments


def main() -> None:
    """Measure and print."""
    a = read_arguments()
    if not a.fresh_memory:
        keep_freed_memory()
    source = english(Path(os.environ.get("BITEXT_DATA", "../shared/data")))
    texts = [text for text, _ in zip(source, range(max(a.cold, 4 * a.sentences)), strict=False)]
    model = (
        a.pieces.read_bytes()
        if a.pieces
        else PieceSettings(vocabulary=a.vocabulary, character_coverage=0.9995).train(texts[-100_000:])
    )
    tokenizer = PieceTokenizer(model)
    table = torch.from_numpy(np.random.default_rng(0).normal(size=(tokenizer.size, a.dim)).astype(np.float32))
    some = of_length(texts, tokenizer, a.sentences)
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("numpy", "torch", "sentencepiece", "numba"))
    print(f"{platform.machine()}, {os.cpu_count()} cores, {a.threads} threads; {versions}")
    print(f"{len(some):,} sentences of {np.mean(tokenizer(some).lengths):.1f} pieces; table {tuple(table.shape)}")
    measured = Measured()
    with torch_threads(a.threads):
        compare(measured, some, tokenizer, table, a)
    measured.show(sorted(measured.wall, key=lambda name: not name.startswith("words")))
    if a.cold:
        cold_start(texts[: a.cold], tokenizer, table, a)
    print(f"memory of the process at most {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:,.0f} MiB")


if __name__ == "__main__":
    main()
