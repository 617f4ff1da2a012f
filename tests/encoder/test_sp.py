from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.encoder import Encoder, SpEncoder, sp

TEXTS = st.lists(st.text(alphabet="bakelomi nutisora漢?\u2028\r\ud800", max_size=60), min_size=1, max_size=24)


def slow_vector(encoder: SpEncoder, text: str) -> np.ndarray:
    """The mean of the piece vectors, one addition at a time, at length one."""
    ids = encoder.tokenizer([text]).ids
    mean = np.zeros(encoder.dim)
    for piece in ids:
        mean += encoder.table[int(piece)].numpy().astype(np.float64) / len(ids)
    return mean / np.linalg.norm(mean) if len(ids) else mean


@settings(max_examples=30, deadline=None)
@given(texts=TEXTS)
def test_vectors_equal_the_slow_mean(encoder: SpEncoder, texts: list[str]) -> None:
    vectors, valid = encoder.encode(texts)
    assert vectors.dtype == np.float32
    assert vectors.flags.c_contiguous
    np.testing.assert_allclose(vectors, [slow_vector(encoder, text) for text in texts], atol=1e-6)
    assert valid.tolist() == [len(encoder.tokenizer([text]).ids) > 0 for text in texts]
    assert not vectors[~valid].any()


@settings(max_examples=30, deadline=None)
@given(texts=TEXTS, size=st.integers(1, 24))
def test_bytes_do_not_depend_on_batch_or_threads(encoder: SpEncoder, texts: list[str], size: int) -> None:
    whole, _ = encoder.encode(texts, threads=1)
    parts = [encoder.encode(texts[start : start + size], threads=2)[0] for start in range(0, len(texts), size)]
    assert np.concatenate(parts).tobytes() == whole.tobytes()


def test_bytes_do_not_depend_on_the_block(encoder: SpEncoder, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"bake lomi {'nu ' * (number % 40)}" for number in range(3000)]
    whole, _ = encoder.encode(texts, threads=2)
    monkeypatch.setattr(sp, "BLOCK_TEXTS", 7)
    small, _ = encoder.encode(texts, threads=1)
    assert small.tobytes() == whole.tobytes()


def test_unknown_text_has_the_vector_of_the_unknown_piece(encoder: SpEncoder) -> None:
    vectors, valid = encoder.encode(["漢字"])
    row = encoder.table[encoder.tokenizer.unknown]
    assert valid[0]
    np.testing.assert_allclose(vectors[0], row / row.norm(), atol=1e-6)


def test_empty_text_is_an_invalid_zero_row(encoder: SpEncoder) -> None:
    vectors, valid = encoder.encode(["", "bake", " "])
    assert valid.tolist() == [False, True, False]
    assert not vectors[[0, 2]].any()
    assert np.linalg.norm(vectors[1]) == pytest.approx(1)


def test_no_texts_give_no_rows(encoder: SpEncoder) -> None:
    vectors, valid = encoder.encode([])
    assert vectors.shape == (0, encoder.dim)
    assert valid.shape == (0,)


def test_pieces_that_cancel_out_are_invalid_not_nan(encoder: SpEncoder) -> None:
    flat = SpEncoder(torch.zeros_like(encoder.table), encoder.tokenizer, "zeros")
    vectors, valid = flat.encode(["bake"])
    assert not valid.any()
    assert not vectors.any()


def test_plain_string_is_refused(encoder: SpEncoder) -> None:
    with pytest.raises(TypeError, match="sequence of texts"):
        encoder.encode("bake")


def test_threads_of_torch_are_put_back(encoder: SpEncoder) -> None:
    before = torch.get_num_threads()
    encoder.encode(["bake"], threads=before + 1)
    assert torch.get_num_threads() == before


def test_it_is_an_encoder(encoder: SpEncoder) -> None:
    assert isinstance(encoder, Encoder)
