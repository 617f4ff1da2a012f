"""The vocabularies of a data set: learnt from its sentences or taken from another folder; and how
much of them two languages share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from mining.config.data import DataConfig
from mining.encoder.model_folder import CONFIG_FILE
from mining.encoder.tokenizers import Tokenizer, learn_tokenizer
from mining.encoder.tokens import Tokens
from mining.errors import UsageError
from mining.io.json_file import json_digest, read_json, write_json
from mining.training.data.prepared import (
    PREPARED_FILE,
    PreparedPairs,
    TokenizerFacts,
    file_digest,
    read_facts,
    read_tokenizer,
    save_tokenizer,
)
from mining.training.data.read import Report, Spool
from mining.training.data.select import sample

_TOKENIZERS_FILE = "units.json"


def make_tokenizers(
    config: DataConfig, spool: Spool, keep: np.ndarray, folder: Path, report: Report
) -> tuple[list[Tokenizer], list[TokenizerFacts]]:
    """The tokenizers, whose files are in `folder` then: those of an earlier call, given ones, or
    learnt from a sample of the pairs of `keep`, (n,) bool."""
    if not (folder / _TOKENIZERS_FILE).is_file():
        report("vocabulary", 0)
        if config.vocabulary_from is not None:
            tokenizers = given_tokenizers(config.vocabulary_from, config.tokens)
        else:
            chosen = sample(spool, keep, max(1, config.vocabulary_sentences // 2), config.seed)
            sentences = [text for batch in spool.batches(chosen) for side in batch for text in side]
            tokenizers = [learn_tokenizer(kind, sentences, dict(config)) for kind in config.tokens]
        described = [save_tokenizer(tokenizer, folder) for tokenizer in tokenizers]
        write_json(folder / _TOKENIZERS_FILE, [asdict(facts) for facts in described], sort_keys=False)
    facts = [TokenizerFacts(**entry) for entry in read_json(folder / _TOKENIZERS_FILE)]
    return [read_tokenizer(entry, folder, "remove this folder and prepare again") for entry in facts], facts


def given_tokenizers(path: str, kinds: Sequence[str]) -> list[Tokenizer]:
    """The tokenizers of the given kinds in a prepared folder or a model folder; raises UsageError
    when it lacks one."""
    folder = Path(path)
    if (folder / PREPARED_FILE).is_file():
        tokenizers = [read_tokenizer(entry, folder, "prepare it again") for entry in read_facts(folder).units]
    elif (folder / CONFIG_FILE).is_file():
        from mining.encoder import load_encoder

        tokenizers = list(load_encoder(folder).tokenizers)
    else:
        raise UsageError(f"{folder}: neither a prepared folder nor a model folder: correct vocabulary_from")
    found = {tokenizer.kind: tokenizer for tokenizer in tokenizers}
    missing = [kind for kind in kinds if kind not in found]
    if missing:
        raise UsageError(
            f"{folder}: has the tokens {', '.join(found)}, not {missing[0]}: correct tokens or vocabulary_from"
        )
    return [found[kind] for kind in kinds]


def tokenizers_digest(tokenizers: Sequence[Tokenizer]) -> str:
    """Names the vocabularies by their files."""
    return json_digest(
        [[one.kind, {name: file_digest(data) for name, data in one.files().items()}] for one in tokenizers]
    )


_BLOCK_PAIRS = 1 << 16


@dataclass(frozen=True)
class Overlap:
    """The tokens of one kind in the bitexts of one language pair.

    ``source_share`` is the share of the types of the source side that also occur on the target
    side: what Wieting et al. 2019, section 4.2, call SP overlap when the source is English (there
    with a segmentation learnt for each language by itself, here with the shared one).
    ``source_tokens_shared`` is the share of the tokens of the source side that are of such a type;
    the same for the target.
    """

    languages: str
    tokens: str
    """the kind"""
    pairs: int
    source_types: int
    target_types: int
    shared_types: int
    source_share: float
    target_share: float
    source_tokens_shared: float
    target_tokens_shared: float


def token_overlap(prepared: PreparedPairs) -> list[Overlap]:
    """The overlap of the two sides for each language pair (``all`` where no languages were given)
    and kind of tokens."""
    names = ["-".join(domain.languages) if domain.languages else "all" for domain in prepared.domains]
    pairs_of = dict.fromkeys(names, 0)
    for name, domain in zip(names, prepared.domains, strict=True):
        pairs_of[name] += domain.pairs
    languages = [name for name, pairs in pairs_of.items() if pairs]
    of_domain = np.array([languages.index(name) if pairs_of[name] else 0 for name in names])
    return [
        _overlap(name, tokenizer.kind, pairs_of[name], source[number], target[number])
        for tokenizer, *sides in zip(prepared.tokenizers, prepared.source, prepared.target, strict=True)
        for source, target in [
            [_counts(side, of_domain, prepared.domain, len(languages), tokenizer.size) for side in sides]
        ]
        for number, name in enumerate(languages)
    ]


def _counts(tokens: Tokens, language: np.ndarray, domain: np.ndarray, languages: int, size: int) -> np.ndarray:
    """(languages, size) int64: how often each token occurs in the texts of each language pair."""
    counts = np.zeros(languages * size, np.int64)
    for start in range(0, len(domain), _BLOCK_PAIRS):
        offsets = np.asarray(tokens.offsets[start : start + _BLOCK_PAIRS + 1])
        owner = np.repeat(language[domain[start : start + _BLOCK_PAIRS]], np.diff(offsets))
        ids = np.asarray(tokens.ids[offsets[0] : offsets[-1]])
        counts += np.bincount(owner * size + ids, minlength=len(counts))
    return counts.reshape(languages, size)


def _overlap(name: str, kind: str, pairs: int, source: np.ndarray, target: np.ndarray) -> Overlap:
    shared = (source > 0) & (target > 0)
    types = [int((counts > 0).sum()) for counts in (source, target)]
    return Overlap(
        languages=name,
        tokens=kind,
        pairs=pairs,
        source_types=types[0],
        target_types=types[1],
        shared_types=int(shared.sum()),
        source_share=float(shared.sum() / max(types[0], 1)),
        target_share=float(shared.sum() / max(types[1], 1)),
        source_tokens_shared=float(source[shared].sum() / max(source.sum(), 1)),
        target_tokens_shared=float(target[shared].sum() / max(target.sum(), 1)),
    )
