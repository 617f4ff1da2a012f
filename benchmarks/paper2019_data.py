"""The prepared data of `paper2019.py`: made when first asked for, each once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from paper2019_rows import RECIPE, Row
from subsets import bitext_spec, is_phrase, is_sentence, write_subset

from mining.training.data import DataConfig, PreparedPairs, prepare

#: As the published trainings of sentences; dictionaries are made of shorter ones.
MIN_TOKENS = 3


class Data:
    """Prepared folders of sentences (all, or the few of the BLSTM) and phrases, for each choice of
    tokens."""

    def __init__(self, bitext: Path, folder: Path, settings: dict[str, Any], threads: int) -> None:
        """`settings`: pairs, epochs or mpairs (millions of pairs seen), small_pairs."""
        self._bitext, self._folder, self._settings, self._threads = bitext, folder, settings, threads

    def prepared(self, row: Row) -> tuple[PreparedPairs, int]:
        """The pairs of a row and the epochs over them."""
        pairs = self._pairs(row.data, row.tokens)
        if row.data == "small":
            return pairs, 1
        # As many epochs over phrases as over sentences: there are as many of them.
        sentences = len(self._pairs("sentences", row.tokens) if row.data == "phrases" else pairs)
        epochs = self._settings["epochs"] or max(1, round(1e6 * self._settings["mpairs"] / sentences))
        return pairs, epochs

    def _pairs(self, data: str, tokens: tuple[str, ...]) -> PreparedPairs:
        config: dict[str, Any] = {
            "bitext": {"path": str(self._subset(data)), "columns": ["source", "target"], "languages": ["en", "de"]},
            "tokens": list(tokens),
            "vocabulary": 20_000,
            "types": 200_000,
            "filters": {"min_tokens": 1 if data == "phrases" else MIN_TOKENS},
            "seed": RECIPE["seed"],
        }
        if data != "sentences":
            # The vocabulary stays the same, so that nothing but the pairs differs.
            sentences = self._pairs("sentences", tokens)
            config["vocabulary_from"] = str(sentences.folder)
            wanted = self._settings["small_pairs"] if data == "small" else len(sentences)
            config["domains"] = [{"match": "*", "cap": wanted}]
        folder = self._folder / f"{data}-{'-'.join(tokens)}"
        return prepare(DataConfig.model_validate(config), folder, lambda stage, done: None, self._threads)

    def _subset(self, data: str) -> Path:
        phrases = data == "phrases"
        path = self._folder / ("phrases.tsv" if phrases else "sentences.tsv")
        if not path.is_file():
            # Phrases to spare: after the filters there are to be as many as sentences.
            count, keep = (2, is_phrase) if phrases else (1, is_sentence)
            write_subset(bitext_spec(self._bitext), path, count * self._settings["pairs"], keep)
        return path
