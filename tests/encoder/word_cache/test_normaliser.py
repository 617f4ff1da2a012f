"""Rules of normalisation that cannot be, and what is left out by those that can."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mining.encoder import PieceTokenizer, load_encoder, save_model
from mining.encoder.normaliser import LONGEST_REPLACEMENT, applied_model, without_unseen_rules
from mining.encoder.proto import MOST_PIECES, parts_of, read_facts
from mining.encoder.tokenizers.pieces import PIECES_FILE
from mining.encoder.tokenizers.psp import PspTokenizer
from mining.encoder.word_cache import word_rules
from mining.encoder.word_cache.proof import Charsmap, WordRules, read_charsmap
from mining.errors import UsageError
from mining.unseen import UNSEEN, UNSEEN_BYTES
from tests.encoder import rules
from tests.encoder.conftest import random_network

FAULTY = {
    "circle": (rules.circle(), "go in circles"),
    "fan": (rules.fan(), "more than 4,194,304 keys"),
    "long key": (rules.long_key(), "keys of more than 32 bytes"),
    "outside": (rules.outside(), "lead out of themselves"),
    "no replacement": (rules.no_replacement(), "lead out of themselves"),
    "growing": (rules.growing(LONGEST_REPLACEMENT + 1), "by more than 256 bytes"),
    "cut short": (rules.growing(1)[:-2], "cut short"),
    "no end": (rules.growing(1)[:-1] + b"x", "cut short"),
    "empty trie": (b"\0\0\0\0\0", "cut short"),
}


@pytest.mark.parametrize("name", FAULTY)
def test_rules_that_cannot_be_are_refused_at_once(pieces_model: bytes, name: str) -> None:
    blob, reason = FAULTY[name]
    model = rules.with_rules(pieces_model, blob)
    with pytest.raises(ValueError, match=reason):
        PieceTokenizer(model)
    with pytest.raises(ValueError, match=reason):
        PspTokenizer({PIECES_FILE: model}, {"lookup": "ids"})
    with pytest.raises(ValueError, match=reason):
        read_charsmap(blob)


def test_faulty_rules_of_a_model_folder_are_told_with_its_name(pieces_model: bytes, tmp_path) -> None:  # type: ignore[no-untyped-def]
    tokenizer = PieceTokenizer(pieces_model)
    tokenizer.model = rules.with_rules(pieces_model, rules.circle())
    save_model(tmp_path / "m", random_network("sp", [tokenizer]), [tokenizer])
    with pytest.raises(UsageError, match=r"m: sentencepiece\.model: .*go in circles"):
        load_encoder(tmp_path / "m")


def test_rules_at_the_bounds_are_followed(pieces_model: bytes) -> None:
    tokenizer = PieceTokenizer(rules.with_rules(pieces_model, rules.growing(LONGEST_REPLACEMENT)))
    assert tokenizer._processor.normalize("a") == "\u2581" + "b" * LONGEST_REPLACEMENT


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\n\x7f", "a field ends"),
        (b"\n\xff\xff\xff\xff\x7f", "a field ends"),
        (b"\x1a\x05\x12", "a field ends"),
        (b"\x1a\x03\x12\xff\x7f", "a field ends"),
        (b"\x18\x01", "another type"),
        (b"\x1a\x02\x10\x01", "another type"),
        (b"\x0b", "wire type 3"),
        (b"\n\0" * (MOST_PIECES + 1), "more than 2,097,152 pieces"),
        (b"\x12\0" + b"\n\0" * (MOST_PIECES + 1), "more than 2,097,152 pieces"),
        (b"\n\x04\n\x02a\0", "."),
        (b"", "."),
    ],
    ids=[
        "short",
        "long",
        "rules",
        "in rules",
        "number",
        "number in rules",
        "group",
        "many",
        "many later",
        "nul",
        "none",
    ],
)
def test_files_that_are_no_models_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        PieceTokenizer(data)


def test_what_does_not_cut_texts_is_left_out(pieces_model: bytes) -> None:
    tests_of_its_own = b'"\x08\n\x06\n\x01a\x12\x01b'
    kept, _ = parts_of(pieces_model + tests_of_its_own)
    assert kept == parts_of(pieces_model)[0]
    assert PieceTokenizer(pieces_model + tests_of_its_own)(["bake lomi"]).ids.tolist()


def keys(charsmap: Charsmap) -> dict[bytes, bytes]:
    """Each key with its replacement."""
    data, ends = charsmap.keys.tobytes(), charsmap.ends.tolist()
    bounds = zip(ends, ends[1:], charsmap.starts.tolist(), strict=False)
    return {data[start:stop]: charsmap.replacement(place) for start, stop, place in bounds}


@pytest.mark.parametrize("name", ["nmt_nfkc_cf", "nfkc", "identity"])
def test_rules_differ_in_what_is_unseen_only(trained: Callable[..., PieceTokenizer], name: str) -> None:
    before = keys(read_charsmap(read_facts(trained(normalization_rule_name=name).model).charsmap))
    expected = {key: UNSEEN_BYTES.sub(b"", value) for key, value in before.items()}
    expected |= {character.encode(): b"" for character in UNSEEN}
    blob = read_facts(trained(normalization_rule_name=name).applied).charsmap
    assert keys(read_charsmap(blob)) == expected
    assert keys(read_charsmap(without_unseen_rules(blob))) == expected


def test_longer_rules_go_on_from_what_is_unseen(tmp_path, trained: Callable[..., PieceTokenizer]) -> None:  # type: ignore[no-untyped-def]
    path = tmp_path / "rules.tsv"
    path.write_text("2581\t20\nAD 61\t62\nAD AD\t63\n640\t64 640\n")
    tokenizer = trained(normalization_rule_name="", normalization_rule_tsv=str(path))
    assert (
        tokenizer._processor.normalize("x\u00ada x\u00ad\u00ad x\u00adx x\u0640x") == "\u2581xb\u2581xc\u2581xx\u2581xx"
    )


def test_words_are_cut_by_the_same_rules(lower: PieceTokenizer) -> None:
    assert isinstance(word_rules(applied_model(lower.model)), WordRules)
