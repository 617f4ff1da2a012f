from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mining.encoder import PieceTokenizer
from mining.errors import InputError
from mining.training import TrainConfig, prepare


def run(settings: dict[str, Any], folder: Path, **changes: Any) -> prepare.PairPieces:
    return prepare.prepare(TrainConfig.model_validate({**settings, **changes}), folder, lambda stage, pairs: None)


def test_pieces_are_those_of_the_texts(settings: dict[str, Any], bitext: Path, tmp_path: Path) -> None:
    pairs = run(settings, tmp_path)
    lines = [line.split("\t") for line in bitext.read_text().rstrip("\n").split("\n")]
    tokenizer = PieceTokenizer(pairs.model)
    for side, pieces in enumerate((pairs.source, pairs.target)):
        expected = tokenizer([line[side] for line in lines])
        np.testing.assert_array_equal(pieces.ids, expected.ids)
        np.testing.assert_array_equal(pieces.offsets, expected.offsets)


def test_blocks_do_not_matter(settings: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    run(settings, tmp_path / "a")
    monkeypatch.setattr(prepare, "BLOCK_PAIRS", 7)
    run(settings, tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_groups_number_equal_piece_sequences(settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    texts = ["bad cab", "cab bad", "bad cab", "bad", "bad bad", "BAD  CAB"]
    path.write_text("".join(f"{text}\tx{number} abc\td\n" for number, text in enumerate(texts)))
    pairs = run(settings, tmp_path, bitext={**settings["bitext"], "path": str(path)})
    groups = pairs.source_groups.tolist()
    assert groups[0] == groups[2] == groups[5]
    assert len(set(groups)) == 4
    assert len(set(pairs.target_groups.tolist())) == 6


def test_long_and_short_sentences(settings: dict[str, Any], tmp_path: Path) -> None:
    whole = run(settings, tmp_path)
    (tmp_path / "cut").mkdir()
    cut = run(settings, tmp_path / "cut", max_pieces=12, min_pieces=10)
    shortest = np.minimum(whole.source.lengths, whole.target.lengths)
    assert len(cut) == int((shortest >= 10).sum())
    assert cut.dropped["too_few_pieces"] == len(whole) - len(cut)
    assert max(cut.source.lengths.max(), cut.target.lengths.max()) == 12
    assert cut.truncated > 0


def test_domains_are_capped(settings: dict[str, Any], tmp_path: Path) -> None:
    pairs = run(settings, tmp_path, domain_column="domain", domain_cap=50)
    assert len(pairs) == 50 + 20
    assert pairs.dropped["domain_cap"] == 130


def test_blank_rows_are_counted(settings: dict[str, Any], tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("abc bad\tcba dab\td\n\tcba\td\nbad abc\tdab cba\td\n")
    pairs = run(settings, tmp_path, bitext={**settings["bitext"], "path": str(path)})
    assert len(pairs) == 2
    assert pairs.dropped["blank"] == 1


@pytest.mark.parametrize("content", ["", "\tabc\td\n"])
def test_bitext_without_pairs_is_an_error(settings: dict[str, Any], tmp_path: Path, content: str) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text(content)
    with pytest.raises(InputError, match=r"pairs\.tsv: no pair of sentences"):
        run(settings, tmp_path, bitext={**settings["bitext"], "path": str(path)})


def test_pairs_that_are_all_too_short_are_an_error(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none of its pairs can be used .*200 too_few_pieces"):
        run(settings, tmp_path, min_pieces=90)
