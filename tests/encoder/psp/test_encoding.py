"""Released models encode as the plain rendering of their own code does."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sentencepiece
import torch
from hypothesis import given
from hypothesis import strategies as st

from mining.encoder import SentenceEncoder
from mining.encoder.psp import PspModel, read_psp
from mining.encoder.tokenizers.psp import PspTokenizer
from tests.encoder.conftest import SYLLABLES
from tests.encoder.psp import rendering
from tests.encoder.psp.conftest import UNSEEN, checkpoint, older_checkpoint, random_matrix

TEXTS = [
    "bake lomi",
    "BAKE Lomi, don't!",
    "ba 漢字 ke",
    "漢",
    "💡💡",
    "c",
    "q x z",
    "語lo \u2028 mi\u00a0ra",
    "\u1d2dBa ke\u1d2e",
    "\u0130 \u03a3\u03a3 a\u03a3",
    "He said \"ba ke\" (lo); can't 'mi' -- $5.30 ra.",
    "sotisotiso" * 3,
]
"""Capitals, known and unknown characters of every kind, what becomes a capital by normalisation,
and punctuation."""
WORDS = st.sampled_from([*SYLLABLES, *UNSEEN, "a", "c", "Ba", "don't", ",", "\u1d2d", "\u0130", "  ", "-", "x"])
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join).filter(lambda text: text.strip() != "")


def encoder_of(released: PspModel) -> SentenceEncoder:
    return SentenceEncoder(released.network, [released.tokenizer], "hash")


def check(released: PspModel, expected: Sequence[np.ndarray], texts: Sequence[str] = TEXTS) -> None:
    """Means and unit vectors are those expected, to 1e-6."""
    means = released.network.vectors([released.tokenizer(texts)])
    np.testing.assert_allclose(means, np.stack(expected), rtol=1e-6, atol=1e-6)
    vectors, valid = encoder_of(released).encode(texts, threads=1)
    assert valid.all()
    np.testing.assert_allclose(vectors, np.stack([rendering.unit_length(one) for one in expected]), atol=1e-6)


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
@pytest.mark.parametrize(
    "options", [{}, {"zero_unk": 0}, {"lower_case": 0}, {"ngrams": 3}, {"ngrams": 3, "zero_unk": 0}, {"model": "lstm"}]
)
def test_at_scale(
    options: dict[str, Any],
    old: bool,
    saved: Callable[..., Path],
    vocabulary: dict[str, int],
    sp: sentencepiece.SentencePieceProcessor,
    pieces_file: Path,
) -> None:
    if options.get("ngrams"):
        grams = {" ".join(sp.EncodeAsPieces(text))[place : place + 3] for text in TEXTS[:3] for place in range(9)}
        vocabulary = {gram: row for row, gram in enumerate([*sorted(grams), " \u2581b", "UUUNKKK"])}
    data = checkpoint(vocabulary, **options)
    released = read_psp(saved(data, old=old), pieces_file)
    assert released.form == "at-scale"
    state, args = data["state_dict"], data["args"]
    rows = [rendering.at_scale_rows(text, sp, vocabulary, args) for text in TEXTS]
    if args.model == "lstm":
        check(released, [rendering.averaged_states(state, one, args) for one in rows])
    else:
        check(released, [rendering.averaged(state, one) for one in rows])


def test_characters_that_sentencepiece_does_not_know_have_rows_of_their_own(
    saved: Callable[..., Path], vocabulary: dict[str, int], sp: sentencepiece.SentencePieceProcessor, pieces_file: Path
) -> None:
    unit = read_psp(saved(checkpoint(vocabulary)), pieces_file).tokenizer
    assert sp.EncodeAsIds("漢字")[-1] == sp.unk_id()
    assert unit(["漢字"]).ids.tolist() == [vocabulary["\u2581"], vocabulary["漢字"]]


def test_a_text_of_nothing_known_is_the_unknown_row(
    saved: Callable[..., Path], vocabulary: dict[str, int], pieces_file: Path
) -> None:
    small = {"\u2581ba": 0, "UUUNKKK": 1}
    unit = read_psp(saved(checkpoint(small)), pieces_file).tokenizer
    assert unit(["q", "ba q", "💡"]).ids.tolist() == [1, 0, 1]


@given(texts=st.lists(SENTENCES, min_size=1, max_size=5))
def test_rows_equal_the_plain_rendering(
    texts: list[str], unit: PspTokenizer, plain: Callable[[str], list[int]]
) -> None:
    found = unit(texts, threads=1)
    bounds = zip(found.offsets[:-1], found.offsets[1:], strict=True)
    assert [found.ids[start:stop].tolist() for start, stop in bounds] == [plain(text) for text in texts]


@pytest.fixture(scope="module")
def unit(vocabulary: dict[str, int], pieces_file: Path, tmp_path_factory: pytest.TempPathFactory) -> PspTokenizer:
    path = tmp_path_factory.mktemp("plain") / "model.pt"
    torch.save(checkpoint(vocabulary), path)
    return read_psp(path, pieces_file).tokenizer


@pytest.fixture(scope="module")
def plain(vocabulary: dict[str, int], sp: sentencepiece.SentencePieceProcessor) -> Callable[[str], list[int]]:
    args = rendering.options()
    return lambda text: rendering.at_scale_rows(text, sp, vocabulary, args)


def test_vocabularies_apart(
    saved: Callable[..., Path], vocabulary: dict[str, int], sp: sentencepiece.SentencePieceProcessor, pieces_file: Path
) -> None:
    names = [*sorted(vocabulary, reverse=True), "\u2581c", "x"]
    second = {name: row for row, name in enumerate(names)}
    data = checkpoint(vocabulary, second, share_vocab=0)
    released = read_psp(saved(data), pieces_file)
    assert not released.shared
    table, size = released.network.tables["released"], released.tokenizer.size
    for place, (rows, key) in enumerate(((vocabulary, "embedding.weight"), (second, "embedding_fr.weight"))):
        ids = released.tokenizer.of_language(place)(TEXTS)
        wanted = [rendering.at_scale_rows(text, sp, rows, data["args"]) for text in TEXTS]
        half = table[place * size : (place + 1) * size]
        assert ids.ids.tolist() == [row for one in wanted for row in one]
        np.testing.assert_array_equal(half[ids.ids], data["state_dict"][key][ids.ids])


def test_words_without_sentencepiece(saved: Callable[..., Path]) -> None:
    words = {"bake": 0, "lo,": 1, "UUUNKKK": 2}
    released = read_psp(saved(checkpoint(words, sp_model="")))
    assert released.tokenizer(["Bake ke lo,", "mi"]).ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize("old", [False, True], ids=["zip", "old"])
def test_older(
    old: bool,
    saved: Callable[..., Path],
    vocabulary: dict[str, int],
    sp: sentencepiece.SentencePieceProcessor,
    pieces_file: Path,
) -> None:
    pytest.importorskip("nltk")
    names = ["\u2581ba", *sorted(set(vocabulary) - {"\u2581ba"})]
    rows = {name: row for row, name in enumerate(names)}
    data = older_checkpoint(rows)
    released = read_psp(saved(data, "sim.pt", old=old), pieces_file)
    assert released.form == "older"
    texts = [*TEXTS, "ba", "ba ke"]
    found = [rendering.older_rows(text, sp, rows) for text in texts]
    assert found[-2] == [rows["UUUNKKK"]]
    check(released, [rendering.averaged(data["state_dict"], one) for one in found], texts)


@pytest.mark.parametrize("weights", ["pytorch_model.bin", "model.safetensors"])
@pytest.mark.parametrize("extra", [0, 3])
def test_exported(
    weights: str, extra: int, hub_folder: Callable[..., Path], sp: sentencepiece.SentencePieceProcessor
) -> None:
    folder = hub_folder(weights=weights, extra=extra)
    released = read_psp(folder)
    assert released.form == "exported"
    table = {"table": random_matrix(sp.get_piece_size() + extra, 6)}
    assert len(released.network.tables["released"]) == sp.get_piece_size()
    rows = [rendering.exported_rows(text, sp) for text in TEXTS]
    assert rows[TEXTS.index("漢")][-1] != sp.unk_id()
    check(released, [rendering.averaged(table, one, "table") for one in rows])


def test_exported_lowers_if_its_configuration_says_so(
    hub_folder: Callable[..., Path], sp: sentencepiece.SentencePieceProcessor
) -> None:
    folder = hub_folder({"do_lower_case": True})
    assert read_psp(folder).tokenizer(["BAKE"]).ids.tolist() == sp.EncodeAsIds("bake")
    kept = [number for number in sp.EncodeAsIds("BAKE") if number > 0]
    assert read_psp(folder, lowercase=False).tokenizer(["BAKE"]).ids.tolist() == kept


def test_exported_weights_by_name(hub_folder: Callable[..., Path]) -> None:
    folder = hub_folder()
    whole, alone = read_psp(folder), read_psp(folder / "pytorch_model.bin")
    assert torch.equal(whole.network.tables["released"], alone.network.tables["released"])


def test_moses_splits_before_lowering(
    saved: Callable[..., Path], vocabulary: dict[str, int], pieces_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []

    class MosesTokenizer:
        def __init__(self, lang: str) -> None:
            assert lang == "en"

        def tokenize(self, text: str, escape: bool) -> list[str]:
            assert not escape
            seen.append(text)
            return text.replace(",", " ,").split()

    monkeypatch.setitem(sys.modules, "sacremoses", types.SimpleNamespace(MosesTokenizer=MosesTokenizer))
    path = saved(checkpoint(vocabulary, tokenize=1))
    unit = read_psp(path, pieces_file).tokenizer
    monkeypatch.setattr(sys.modules["sacremoses"], "MosesTokenizer", None)
    plain = read_psp(saved(checkpoint(vocabulary), "plain.pt"), pieces_file).tokenizer
    assert unit(["BA,ke"]).ids.tolist() == plain(["ba ,ke"]).ids.tolist()
    assert seen == ["BA,ke"]


@pytest.mark.parametrize("blank", ["", " ", "\t \n", "\u3000\u00a0", "\u200b"])
def test_blank_text_is_invalid(
    blank: str,
    saved: Callable[..., Path],
    vocabulary: dict[str, int],
    pieces_file: Path,
    hub_folder: Callable[..., Path],
) -> None:
    for released in (
        read_psp(saved(checkpoint(vocabulary)), pieces_file),
        read_psp(saved(checkpoint({"aaa": 0, "UUUNKKK": 1}, ngrams=3), "grams.pt"), pieces_file),
        read_psp(hub_folder()),
    ):
        vectors, valid = encoder_of(released).encode([blank, "ba"])
        assert valid.tolist() == [False, True]
        assert not vectors[0].any()


def test_lone_surrogates_are_read_as_question_marks(
    saved: Callable[..., Path], vocabulary: dict[str, int], pieces_file: Path
) -> None:
    unit = read_psp(saved(checkpoint(vocabulary, zero_unk=0)), pieces_file).tokenizer
    assert unit(["ba \udc80"]).ids.tolist() == unit(["ba ?"]).ids.tolist()


def test_texts_are_checked(saved: Callable[..., Path], vocabulary: dict[str, int], pieces_file: Path) -> None:
    unit = read_psp(saved(checkpoint(vocabulary)), pieces_file).tokenizer
    with pytest.raises(TypeError, match="sequence of texts"):
        unit("bake")
    with pytest.raises(TypeError, match="text 1 is NoneType"):
        unit(["bake", None])  # type: ignore[list-item]
