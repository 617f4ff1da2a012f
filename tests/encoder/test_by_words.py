"""Encoding word by word: the same vectors as the plain way, whatever holds the table and the
texts."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.encoder import PieceTokenizer, SentenceEncoder, Tokenizer, load_encoder, save_model
from mining.encoder import encoder as module
from mining.encoder.averaging import unit_rows
from mining.encoder.encoder import average_on_device, averaged_table, in_order
from mining.encoder.networks.average import AverageNetwork
from mining.encoder.word_cache import CachedPieces
from tests.encoder.conftest import made_up_sentences, random_network, tokenizers_of

TEXTS = [*made_up_sentences(300, seed=4), "", "漢字", " \u2028", "bake 漢 \ud800", "Ba\u2581ke"]
DTYPES = ["float32", "float16", "int8"]
TEXT = st.text(alphabet="bakelomi nutisora漢?\u2028\r\ud800BA", max_size=60)


def plain(encoder: SentenceEncoder, texts: list[str]) -> np.ndarray:
    """Tokens of the whole texts, and the network itself."""
    return unit_rows(encoder.network.vectors([encoder.tokenizers[0](texts)])[:, : encoder.dim])[0]


@pytest.fixture(scope="module")
def loaded(model: Path) -> dict[str, SentenceEncoder]:
    return {dtype: load_encoder(model, dtype=dtype, dim=dim) for dtype in DTYPES for dim in [None]}


@pytest.mark.parametrize("dtype", DTYPES)
def test_bytes_are_those_of_the_plain_way(loaded: dict[str, SentenceEncoder], dtype: str) -> None:
    encoder = loaded[dtype]
    vectors, valid = encoder.encode(TEXTS)
    assert encoder.plain is None
    assert vectors.tobytes() == plain(encoder, TEXTS).tobytes()
    assert valid.tolist() == vectors.any(axis=1).tolist()


@pytest.mark.parametrize("dtype", DTYPES)
@settings(max_examples=30)
@given(texts=st.lists(TEXT, min_size=1, max_size=20), threads=st.sampled_from([1, 2, 5]))
def test_vectors_are_close_to_the_plain_way(
    loaded: dict[str, SentenceEncoder], dtype: str, texts: list[str], threads: int
) -> None:
    encoder = loaded[dtype]
    vectors, valid = encoder.encode(texts, threads)
    cosines = np.einsum("ij,ij->i", vectors.astype(np.float64), plain(encoder, texts).astype(np.float64))
    assert (cosines[valid] >= 1 - 1e-6).all()
    again, _ = encoder.encode(texts[::-1], 1)
    assert again[::-1].tobytes() == vectors.tobytes()


@pytest.mark.parametrize("memory", [0, 3000, 1 << 20])
def test_bytes_do_not_depend_on_the_memory_for_words(model: Path, memory: int) -> None:
    expected, _ = load_encoder(model).encode(TEXTS)
    encoder = load_encoder(model, word_memory=memory)
    for threads in (1, 2, 5):
        assert encoder.encode(TEXTS, threads)[0].tobytes() == expected.tobytes()
    assert encoder.statistics is not None
    assert (encoder.statistics.words == 0) == (memory == 0)


@pytest.mark.parametrize("dim", [1, 5])
def test_first_dimensions_only(model: Path, dim: int) -> None:
    encoder = load_encoder(model, dim=dim)
    assert encoder.encode(TEXTS)[0].tobytes() == plain(encoder, TEXTS).tobytes()
    whole = load_encoder(model)
    cut = SentenceEncoder(whole.network, whole.tokenizers, "cut", dim=dim)
    assert cut.plain is None
    assert cut.encode(TEXTS)[0].tobytes() == encoder.encode(TEXTS)[0].tobytes()


def test_arrow_arrays_give_the_same_as_lists(encoder: SentenceEncoder, all_tokenizers: dict[str, Tokenizer]) -> None:
    texts = [text for text in TEXTS if "\ud800" not in text]
    tokenizers = tokenizers_of("sum", all_tokenizers)
    for one in (encoder, SentenceEncoder(random_network("sum", tokenizers), tokenizers, "sum")):
        expected = one.encode(texts)[0].tobytes()
        for array in (pa.array(texts), pa.array(texts, pa.large_string()), pa.chunked_array([texts[:9], texts[9:]])):
            assert one.encode(array)[0].tobytes() == expected
        with pytest.raises(TypeError, match="text 1 is NoneType"):
            one.encode(pa.array(["a", None]))
        with pytest.raises(TypeError, match="array of strings"):
            one.encode(pa.array([1]))


def test_blocks_do_not_change_bytes(encoder: SentenceEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    expected, _ = encoder.encode(TEXTS)
    monkeypatch.setattr(module, "BLOCK_TEXTS", 7)
    monkeypatch.setattr("mining.text_arrays.BLOCK_BYTES", 90)
    assert encoder.encode(TEXTS, 2)[0].tobytes() == expected.tobytes()


def test_callers_at_the_same_time_get_the_same(model: Path) -> None:
    encoder = load_encoder(model, word_memory=6000)
    expected, found = load_encoder(model).encode(TEXTS)[0].tobytes(), []
    callers = [threading.Thread(target=lambda: found.append(encoder.encode(TEXTS, 2)[0].tobytes())) for _ in range(6)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [expected] * 6


def test_a_table_that_learns_is_followed(encoder: SentenceEncoder) -> None:
    table = torch.rand(encoder.tokenizers[0].size, 4) - 0.5
    own = SentenceEncoder(AverageNetwork({"pieces": table}), encoder.tokenizers, "own")
    before = own.encode(TEXTS)[0]
    table.mul_(torch.rand(4))
    assert own.encode(TEXTS)[0].tobytes() == plain(own, TEXTS).tobytes() != before.tobytes()


def test_other_models_say_why_they_go_the_plain_way(
    all_tokenizers: dict[str, Tokenizer], tokenizer: PieceTokenizer
) -> None:
    for name in ("word", "sum", "lstm", "projection", "charagram"):
        tokenizers = tokenizers_of(name, all_tokenizers)
        encoder = SentenceEncoder(random_network(name, tokenizers), tokenizers, name)
        assert encoder.plain == "it does more than average pieces"
        assert encoder.statistics is None
        assert averaged_table(encoder.network) is None

    class Own:
        kind, size, unknown = "pieces", tokenizer.size, 0
        __call__ = staticmethod(tokenizer.__call__)

    network = AverageNetwork({"pieces": torch.rand(tokenizer.size, 3)})
    other = SentenceEncoder(network, [Own()], "own")  # type: ignore[list-item]
    assert other.plain == "its pieces are not sentencepiece's"
    assert other.encode(TEXTS)[0].tobytes() == SentenceEncoder(network, [tokenizer], "own").encode(TEXTS)[0].tobytes()


def test_projection_worked_into_the_table(all_tokenizers: dict[str, Tokenizer], tmp_path: Path) -> None:
    tokenizers = tokenizers_of("sp", all_tokenizers)
    table = random_network("sp", tokenizers).tables["pieces"]
    save_model(tmp_path, AverageNetwork({"pieces": table}, "sum", torch.rand(5, 12)), tokenizers)
    encoder = load_encoder(tmp_path)
    assert encoder.plain is None
    assert encoder.encode(TEXTS)[0].tobytes() == plain(encoder, TEXTS).tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
def test_device_gives_the_same_vectors(
    loaded: dict[str, SentenceEncoder], dtype: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BLOCK_TEXTS", 40)
    encoder = loaded[dtype]
    table, words = averaged_table(encoder.network), encoder._cached
    assert table is not None
    assert isinstance(words, CachedPieces)
    expected, usable = encoder.encode(TEXTS)
    vectors, valid = np.empty_like(expected), np.empty_like(usable)
    average_on_device(TEXTS, words, table, 2, vectors, valid)
    np.testing.assert_allclose(vectors, expected, atol=1e-6)
    assert valid.tolist() == usable.tolist()


@pytest.mark.parametrize("threads", [1, 3])
def test_items_come_in_order_and_not_too_early(threads: int) -> None:
    begun: list[int] = []
    taken = []

    def work(number: int) -> int:
        begun.append(number)
        return number

    for number in in_order(work, range(50), threads, 3):
        taken.append(number)
        assert len(begun) <= len(taken) + threads + 3
    assert taken == sorted(begun) == list(range(50))


def test_error_of_an_item_is_raised_in_its_turn() -> None:
    def work(number: int) -> int:
        if number == 7:
            raise TypeError("text 7 is bytes, not str")
        return number

    results = in_order(work, range(20), 2, 2)
    assert [next(results) for _ in range(7)] == list(range(7))
    with pytest.raises(TypeError, match="text 7"):
        next(results)


def test_threads_end_with_their_reader() -> None:
    before = threading.active_count()
    reader = in_order(abs, range(1000), 2, 2)
    assert next(reader) == 0
    reader.close()
    assert threading.active_count() == before
