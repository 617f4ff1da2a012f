"""What `paper2019.py` compares: each row a training, its data, and the published figures for the
same comparison."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

#: Wieting et al. 2019, section 3.1, as its code ran: duplicates of the translation were legal
#: negatives, the learning rate was constant, and the result of the dropout was thrown away.
RECIPE: dict[str, Any] = {
    "objective": "margin",
    "batch": 128,
    "delta": 0.4,
    "mega_batch": 60,
    "anneal": 150,
    "learning_rate": 1e-3,
    "schedule": "constant",
    "dropout": 0.0,
    "dim": 300,
    "mask_duplicates": False,
    "seed": 1,
}
#: Elgohary and Carpuat 2016: random negatives, squared Euclidean distance; margin and negatives
#: among those they tried.
J_BI: dict[str, Any] = {"objective": "j_bi", "delta": 1.0, "negatives": 10, "negative_choice": "random"}

DataName = Literal["sentences", "small", "phrases"]


@dataclass(frozen=True)
class Row:
    """One training: `changes` to the recipe, on `data` cut into `tokens`."""

    name: str
    title: str
    group: str
    changes: dict[str, Any] = field(default_factory=dict)
    data: DataName = "sentences"
    tokens: tuple[str, ...] = ("pieces",)
    published: str = ""

    @property
    def settings(self) -> dict[str, Any]:
        """Settings of the training beside the data."""
        return {**RECIPE, **self.changes}


ENCODERS, NEGATIVES, OTHER, PHRASES = "Encoders", "Negatives", "Regularisation and sharing", "Phrases and J_bi"

ROWS = (
    Row("sp", "SP, the recipe", ENCODERS, published="70.0 [1]; F1 77.0 [2]; STS17 en-en 84.5 [3]"),
    Row("word", "WORD", ENCODERS, tokens=("words",), published="65.2 [1]"),
    Row("trigram", "TRIGRAM", ENCODERS, tokens=("trigrams",), published="70.0 [1]; STS17 en-en 83.5 [3]"),
    Row("sp-word", "SP + WORD, summed", ENCODERS, tokens=("pieces", "words")),
    Row("sp-trigram", "SP + TRIGRAM, summed", ENCODERS, tokens=("pieces", "trigrams")),
    Row("random-sp", "random SP", ENCODERS, {"objective": "none"}, published="STS17 en-en 67.0 [3]"),
    Row(
        "random-trigram",
        "random TRIGRAM",
        ENCODERS,
        {"objective": "none"},
        "sentences",
        ("trigrams",),
        "STS17 en-en 73.7 [3]",
    ),
    Row("sp-small", "SP, as few pairs as BLSTM-SP", ENCODERS, data="small", published="70.0 [1]"),
    Row(
        "blstm-sp",
        "BLSTM-SP, scrambling 0.3",
        ENCODERS,
        {"encoder": "lstm", "hidden": 150, "scramble": 0.3},
        "small",
        published="66.4 [1]",
    ),
    Row("m1", "M = 1", NEGATIVES, {"mega_batch": 1}),
    Row("m20", "M = 20", NEGATIVES, {"mega_batch": 20}),
    Row("no-anneal", "M = 60 from the start", NEGATIVES, {"anneal": 0}, published="worse [4]"),
    Row("masked", "M = 60, equal texts are no negatives", NEGATIVES, {"mask_duplicates": True}),
    Row("dropout", "dropout 0.3", OTHER, {"dropout": 0.3}),
    Row("apart", "languages kept apart", OTHER, {"shared": False}),
    Row("phrases", "phrases, margin", PHRASES, data="phrases", published="45 / 41 / 55 [5]"),
    Row("j-bi", "sentences, J_bi", PHRASES, J_BI, published="54 / 46 / 59 [5]"),
    Row("j-bi-phrases", "phrases, J_bi", PHRASES, J_BI, "phrases", published="59 / 62 / 71 [5]"),
)

NOTES = (
    "[1] Mean Pearson over STS 2012-2016; one million English-Czech pairs, 10 epochs (Wieting et al. 2019, table 1).",
    "[2] BUCC 2018 en-de, Europarl (same, table 3).",
    "[3] One million English-Spanish pairs of OpenSubtitles, 20 epochs (same, table 2).",
    "[4] No figure: annealing improved all models by a significant margin, BLSTM-SP most (same, section 2).",
    "[5] Mean Pearson by year 2012 / 2013 / 2014; Spanish phrases and sentences; the row with the margin is their J_pa "
    "on bilingual phrases, on sentences it reached 41 / 34 / 52 (Elgohary and Carpuat 2016, table 3).",
)
