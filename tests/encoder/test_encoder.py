from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.encoder import Encoder, SentenceEncoder, Tokenizer, Tokens
from mining.encoder import encoder as module
from mining.encoder.networks.average import AverageNetwork
from tests.encoder.conftest import ARCHITECTURES, random_network, tokenizers_of

TEXTS = st.lists(st.text(alphabet="bakelomi nutisora漢?\u2028\r\ud800", max_size=60), min_size=1, max_size=24)
NAMES = sorted(ARCHITECTURES)


@pytest.fixture(scope="module")
def encoders(all_tokenizers: dict[str, Tokenizer]) -> dict[str, SentenceEncoder]:
    tokenizers = {name: tokenizers_of(name, all_tokenizers) for name in NAMES}
    return {name: SentenceEncoder(random_network(name, tokenizers[name]), tokenizers[name], name) for name in NAMES}


def own_mean(encoder: SentenceEncoder, text: str) -> np.ndarray:
    """The sum of the mean vectors of each kind of unit, one addition at a time, at length one."""
    total = np.zeros(encoder.dim)
    for tokenizer, table in zip(encoder.tokenizers, encoder.network.tables.values(), strict=True):  # type: ignore[attr-defined]
        ids = tokenizer([text]).ids
        for number in ids.tolist():
            total += table[number].double().numpy() / len(ids)
    return total / np.linalg.norm(total) if total.any() else total


@pytest.mark.parametrize("name", ["sp", "word", "trigram", "sum"])
@settings(max_examples=20, deadline=None)
@given(texts=TEXTS)
def test_vectors_equal_the_slow_mean(encoders: dict[str, SentenceEncoder], name: str, texts: list[str]) -> None:
    encoder = encoders[name]
    vectors, valid = encoder.encode(texts)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    np.testing.assert_allclose(vectors, [own_mean(encoder, text) for text in texts], atol=1e-6)
    filled = [any(len(tokenizer([text]).ids) for tokenizer in encoder.tokenizers) for text in texts]
    assert valid.tolist() == filled
    assert not vectors[~valid].any()


def test_concatenation_has_the_means_side_by_side(encoders: dict[str, SentenceEncoder]) -> None:
    encoder = encoders["concatenation"]
    vectors, _ = encoder.encode(["bake lomi", "soraba"])
    for row, text in zip(vectors, ["bake lomi", "soraba"], strict=True):
        means = []
        for tokenizer, table in zip(encoder.tokenizers, encoder.network.tables.values(), strict=True):  # type: ignore[attr-defined]
            means.append(table[torch.from_numpy(tokenizer([text]).ids.astype(np.int64))].mean(0))
        expected = torch.cat(means)
        np.testing.assert_allclose(row, expected / expected.norm(), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=15, deadline=None)
@given(texts=TEXTS, size=st.integers(1, 24))
def test_bytes_do_not_depend_on_batch_or_threads(
    encoders: dict[str, SentenceEncoder], name: str, texts: list[str], size: int
) -> None:
    whole, _ = encoders[name].encode(texts, threads=1)
    parts = [encoders[name].encode(texts[start : start + size], threads=2)[0] for start in range(0, len(texts), size)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", NAMES)
def test_bytes_do_not_depend_on_the_block(
    encoders: dict[str, SentenceEncoder], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [f"bake lomi {'nu ' * (number % 40)}" for number in range(700)]
    whole, _ = encoders[name].encode(texts, threads=2)
    monkeypatch.setattr(module, "BLOCK_TEXTS", 7)
    small, _ = encoders[name].encode(texts, threads=1)
    assert small.tobytes() == whole.tobytes()


@pytest.mark.parametrize("name", ["sp", "word", "trigram"])
def test_unknown_text_has_the_vector_of_the_unknown_unit(encoders: dict[str, SentenceEncoder], name: str) -> None:
    encoder = encoders[name]
    vectors, valid = encoder.encode(["漢字"])
    (table,) = encoder.network.tables.values()  # type: ignore[attr-defined]
    row = table[encoder.tokenizers[0].unknown]
    assert valid[0]
    np.testing.assert_allclose(vectors[0], row / row.norm(), atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_empty_text_is_an_invalid_zero_row(encoders: dict[str, SentenceEncoder], name: str) -> None:
    vectors, valid = encoders[name].encode(["", "bake", " \u2028"])
    assert valid.tolist() == [False, True, False]
    assert not vectors[[0, 2]].any()
    assert np.linalg.norm(vectors[1]) == pytest.approx(1)


def test_one_kind_of_unit_with_ids_is_enough() -> None:
    class Fixed:
        kind, size, unknown = "pieces", 2, 0

        def __init__(self, counts: list[int]) -> None:
            self.counts = counts

        def __call__(self, texts: list[str], threads: int = 0) -> Tokens:
            return Tokens(np.ones(sum(self.counts), np.int32), np.concatenate(([0], np.cumsum(self.counts))))

    network = AverageNetwork({"pieces": torch.ones(2, 3), "words": torch.ones(2, 3)})
    encoder = SentenceEncoder(network, [Fixed([1, 0, 0]), Fixed([0, 2, 0])], "fixed")  # type: ignore[list-item]
    assert encoder.encode(["a", "b", "c"])[1].tolist() == [True, True, False]


@pytest.mark.parametrize("name", NAMES)
def test_no_texts_give_no_rows(encoders: dict[str, SentenceEncoder], name: str) -> None:
    vectors, valid = encoders[name].encode([])
    assert vectors.shape == (0, encoders[name].dim)
    assert valid.shape == (0,)


def test_units_that_cancel_out_are_invalid_not_nan(encoder: SentenceEncoder) -> None:
    zeros = AverageNetwork({"pieces": torch.zeros(encoder.tokenizers[0].size, 4)})
    vectors, valid = SentenceEncoder(zeros, encoder.tokenizers, "zeros").encode(["bake"])
    assert not valid.any()
    assert not vectors.any()


@pytest.mark.parametrize("name", NAMES)
def test_plain_string_and_what_is_no_text_are_refused(encoders: dict[str, SentenceEncoder], name: str) -> None:
    with pytest.raises(TypeError, match="sequence of texts"):
        encoders[name].encode("bake")
    with pytest.raises(TypeError, match="text 1 is NoneType"):
        encoders[name].encode(["bake", None])  # type: ignore[list-item]


@pytest.mark.parametrize("name", ["sp", "lstm"])
def test_threads_of_torch_are_put_back(encoders: dict[str, SentenceEncoder], name: str) -> None:
    before = torch.get_num_threads()
    encoders[name].encode(["bake"], threads=before + 1)
    assert torch.get_num_threads() == before


def test_it_is_an_encoder(encoder: SentenceEncoder) -> None:
    assert isinstance(encoder, Encoder)
