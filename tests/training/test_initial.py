from __future__ import annotations

from pathlib import Path

import pytest
import torch

from mining.encoder.tokenizers.words import WordSettings
from mining.errors import InputError, UsageError
from mining.training.start import read_initial

UNIT = WordSettings(types=10).learn(["red green blue", "red green", "red"])


def row(word: str) -> int:
    return int(UNIT([word]).ids[0])


def test_rows_of_known_words_are_set_and_others_kept(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("4 2\nGREEN 1 2\ngreen 8 8\nmauve 3 4\nred 5 6\n")
    table = torch.full((UNIT.size, 2), -1.0)
    assert read_initial(str(path), UNIT, table) == 2
    assert table[row("green")].tolist() == [1, 2]
    assert table[row("red")].tolist() == [5, 6]
    assert int((table == -1).all(1).sum()) == UNIT.size - 2


def test_both_halves_of_languages_kept_apart_are_set(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("blue 1 2\n")
    table = torch.zeros((2 * UNIT.size, 2))
    read_initial(str(path), UNIT, table)
    assert table[[row("blue"), row("blue") + UNIT.size]].tolist() == [[1, 2], [1, 2]]
    assert int(table.any(1).sum()) == 2


@pytest.mark.parametrize("line", ["red 1 2 3", "red 1", "red 1 two", "red 1 nan", "red"])
def test_a_faulty_line_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text(f"green 1 2\n{line}\n")
    with pytest.raises(InputError, match=r"vectors\.txt, line 2: not a word and 2 numbers"):
        read_initial(str(path), UNIT, torch.zeros((UNIT.size, 2)))


def test_no_file_and_no_fitting_word(tmp_path: Path) -> None:
    table = torch.zeros((UNIT.size, 2))
    with pytest.raises(UsageError, match="no such file"):
        read_initial(str(tmp_path / "absent.txt"), UNIT, table)
    (tmp_path / "vectors.txt").write_text("mauve 1 2\n")
    with pytest.raises(UsageError, match="none of its words"):
        read_initial(str(tmp_path / "vectors.txt"), UNIT, table)
