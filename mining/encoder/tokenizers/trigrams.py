"""Character trigrams: n-grams of three characters."""

from __future__ import annotations

from mining.encoder.tokenizers import TOKENIZERS
from mining.encoder.tokenizers.ngrams import NgramSettings, NgramTokenizer


class TrigramSettings(NgramSettings):
    """How a vocabulary of trigrams is learnt."""

    @property
    def tokenizer(self) -> type[TrigramTokenizer]:
        """What is learnt."""
        return TrigramTokenizer


@TOKENIZERS.register("trigrams")
class TrigramTokenizer(NgramTokenizer):
    """TRIGRAM of Wieting et al. 2019, section 2."""

    kind = "trigrams"
    allowed = usual = (3,)
    learning = TrigramSettings
