"""A new tokenizer is one file: trained with, saved, loaded, and used for encoding."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mining.encoder import load_encoder, read_vectors, tokenizers
from mining.encoder.tokenizers import TOKENIZERS, load_tokenizer
from mining.errors import UsageError
from pipelines.cli.commands.encode import encode
from pipelines.cli.commands.prepare import prepare
from pipelines.cli.commands.train import train
from tests.cli.runner import runner
from tests.encoder.conftest import made_up_sentences

LETTERS = '''
from collections import Counter

from pydantic import Field

from mining.encoder.tokenizers import TOKENIZERS, LearningSettings, Tokenizer, needed_file
from mining.encoder.tokens import Tokens


class LetterSettings(LearningSettings):
    alphabet: int = Field(default=50, ge=1)
    """Most letters of a vocabulary."""

    def learn(self, sentences):
        counts = Counter("".join(sentences).replace(" ", ""))
        return LetterTokenizer("".join(letter for letter, _ in counts.most_common(self.alphabet)))


@TOKENIZERS.register("letters")
class LetterTokenizer(Tokenizer):
    """Single letters."""

    kind, unknown, learning = "letters", 0, LetterSettings

    def __init__(self, letters):
        self.letters, self.size = letters, len(letters) + 1

    @classmethod
    def load(cls, files, settings):
        return cls(needed_file(files, "letters.txt").decode())

    def __call__(self, texts, threads=0):
        ids = [[self.letters.find(letter) + 1 for letter in text if letter != " "] for text in texts]
        return Tokens.of(ids).known(self.unknown)

    def files(self):
        return {"letters.txt": self.letters.encode()}
'''


@pytest.fixture
def letters(one_more: Callable[..., str]) -> str:
    """The name of a tokenizer that is nothing but one more file in the package."""
    return one_more(TOKENIZERS, "letters", LETTERS)


@pytest.fixture
def bitext(tmp_path: Path) -> Path:
    sentences = made_up_sentences(60)
    (tmp_path / "pairs.tsv").write_text("".join(f"{text}\t{text[::-1]}\n" for text in sentences))
    return tmp_path / "pairs.tsv"


def test_a_new_tokenizer_is_one_file(letters: str, bitext: Path, tmp_path: Path) -> None:
    data = ("--bitext", bitext, "--columns", "source,target", "--tokens", f"{letters},words", "--alphabet", 9)
    small = ("--dim", 8, "--epochs", 1, "--batch", 10, "--threads", 1)
    runner(train)(*data, *small, "--model", tmp_path / "model", "--combine", "concatenate")
    encoder = load_encoder(tmp_path / "model")
    assert [(one.kind, one.size) for one in encoder.tokenizers] == [(letters, 10), ("words", 127)]
    vectors, valid = encoder.encode(["bake lomi", "xyz", ""])
    assert valid.tolist() == [True, True, False]
    (tmp_path / "lines.txt").write_text("bake lomi\nxyz\n")
    runner(encode)(tmp_path / "lines.txt", "--model", tmp_path / "model", "-o", tmp_path / "vectors.npy")
    assert read_vectors(tmp_path / "vectors.npy").vectors.tobytes() == vectors[:2].tobytes()


def test_its_settings_are_those_of_the_data(letters: str, bitext: Path, tmp_path: Path) -> None:
    assert "Most letters of a vocabulary. [default: 50]" in " ".join(runner(prepare)("--help").stdout.split())
    data = ("--bitext", bitext, "--columns", "source,target", "--tokens", letters, "--output", tmp_path / "prepared")
    runner(prepare)(*data, "--alphabet", 7)
    assert '"alphabet": 7' in (tmp_path / "prepared" / "prepared.json").read_text()
    with pytest.raises(UsageError, match="alphabet: Input should be greater"):
        runner(prepare)(*data, "--alphabet", 0)
    with pytest.raises(UsageError, match="unknown tokenizer 'leters': did you mean 'letters'"):
        runner(prepare)(*data, "--tokens", "leters")
    with pytest.raises(UsageError, match="psp cannot be learnt"):
        runner(prepare)(*data, "--tokens", "psp")


@pytest.mark.parametrize("name", [name for name in TOKENIZERS if name != "psp"])
def test_every_tokenizer_is_learnt_saved_and_loaded(name: str) -> None:
    sentences = made_up_sentences(200)
    learnt = tokenizers.learn_tokenizer(name, sentences, {"types": 60, "vocabulary": 60, "dim": 3})
    again = load_tokenizer(learnt.kind, learnt.files(), learnt.settings())
    assert (again.kind, again.size, again.unknown) == (name, learnt.size, 0)
    for one, other in zip(learnt(sentences), again(sentences), strict=True):
        assert one.tobytes() == other.tobytes()


def test_names_in_folders_are_those_of_the_classes() -> None:
    names = {name: TOKENIZERS[name].kind for name in TOKENIZERS if TOKENIZERS[name].kind != name}
    assert names == tokenizers.NAMES_IN_FOLDERS
