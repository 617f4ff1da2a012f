"""Keys of texts and ids, and the first of each."""

from __future__ import annotations

import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.corpus import dedup_key, first_occurrence
from mining.corpus.dedup import id_keys, normal_text, steady_codes, text_keys


def first_occurrence_reference(keys: np.ndarray, chunk: np.ndarray, position: np.ndarray) -> np.ndarray:
    """`first_occurrence` with a dictionary, row by row."""
    best: dict[bytes, tuple[int, int, int]] = {}
    for index, key in enumerate(keys):
        place = (int(chunk[index]), int(position[index]), index)
        best[key.tobytes()] = min(best.get(key.tobytes(), place), place)
    return np.array([best[key.tobytes()][2] for key in keys], dtype=np.int64)


def murmur(text: str) -> bytes:
    """MurmurHash3 (x64, 128 bits, seed 0) in whole numbers of Python."""
    data, most = text.encode(), (1 << 64) - 1

    def turned(value: int, bits: int) -> int:
        return (value << bits | value >> (64 - bits)) & most

    def final(value: int) -> int:
        for factor in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):
            value = (value ^ value >> 33) * factor & most
        return value ^ value >> 33

    c1, c2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
    high = low = 0
    for start in range(0, len(data), 16):
        block = data[start : start + 16]
        one, two = int.from_bytes(block[:8], "little"), int.from_bytes(block[8:], "little")
        high ^= turned(one * c1 & most, 31) * c2 & most
        if len(block) == 16:
            high = (turned(high, 27) + low) * 5 + 0x52DCE729 & most
        low ^= turned(two * c2 & most, 33) * c1 & most
        if len(block) == 16:
            low = (turned(low, 31) + high) * 5 + 0x38495AB5 & most
    high, low = high ^ len(data), low ^ len(data)
    high = high + low & most
    low = low + high & most
    high, low = final(high), final(low)
    high = high + low & most
    return b"".join(value.to_bytes(8, "little") for value in (high, low + high & most))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a b", "  a \t\n b\u2003"),
        ("\ufb01n", "fin"),
        ("e\u0301", "\u00e9"),
        ("a\u00a0b", "a b"),
        ("\u3000a", "a"),
        ("", " \u2028 "),
        ("Gesundheit", "Ge\u00adsund\u00adheit"),
        ("a b", "\ufeffa \u200b b\u2060"),
        ("\u0643\u062a\u0628", "\u0643\u064e\u0640\u062a\u0628"),
        ("\u0627", "\u0627\ufe77"),  # tatweel with fatha
        ("\u00e9", "e\u034f\u0301"),
        ("", "\u00ad"),
    ],
)
def test_key_ignores_form_and_white_space(one, other):
    assert dedup_key(one) == dedup_key(other)


@pytest.mark.parametrize(("one", "other"), [("a", "A"), ("ab", "a b"), ("a.", "a"), ("straße", "strasse")])
def test_key_tells_apart(one, other):
    assert dedup_key(one) != dedup_key(other)


def test_key_is_16_bytes_and_stable():
    assert dedup_key("Guten Tag").hex() == "675901ed8cfbc1dec645733f2532a8c1"


def test_key_of_a_lone_surrogate_does_not_crash():
    assert len(dedup_key("\ud800")) == 16


def _keys(names: list[int]) -> np.ndarray:
    return np.frombuffer(b"".join(bytes([0] * 7 + [n // 2] + [0] * 7 + [n % 2]) for n in names), np.uint8).reshape(
        -1, 16
    )


def test_first_occurrence_goes_by_chunk_then_position():
    keys = _keys([1, 2, 1, 1, 2])
    chunk = np.array([1, 0, 0, 0, 0])
    position = np.array([0, 9, 7, 3, 9 + 1])
    assert first_occurrence(keys, chunk, position).tolist() == [3, 1, 3, 3, 1]


def test_no_rows():
    empty = np.empty(0, np.int64)
    result = first_occurrence(np.empty((0, 16), np.uint8), empty, empty)
    assert result.shape == (0,)
    assert result.dtype == np.int64


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="expected keys"):
        first_occurrence(np.zeros((3, 8), np.uint8), np.zeros(3, np.int64), np.zeros(3, np.int64))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 5)), max_size=60), st.randoms())
def test_equals_the_reference(rows, random):
    names = [row[0] for row in rows]
    chunk = np.array([row[1] for row in rows], np.int64)
    position = np.array([row[2] for row in rows], np.int64)
    keys = _keys(names)
    fast = first_occurrence(keys, chunk, position)
    np.testing.assert_array_equal(fast, first_occurrence_reference(keys, chunk, position))
    # The order in which rows are given does not matter beyond ties, which distinct places do not
    # have.
    places = np.arange(len(rows)) if rows else position
    shuffle = np.array(random.sample(range(len(rows)), len(rows)), np.int64)
    straight = first_occurrence(keys, chunk, places)
    shuffled = first_occurrence(keys[shuffle], chunk[shuffle], places[shuffle])
    np.testing.assert_array_equal(shuffle[shuffled], straight[shuffle])


odd = st.sampled_from(
    ["a", " ", "  ", "\t", "ä", "a\u0308", "\u00a0", "\u2028", "\u1100\u1161", "\uac00\u11a8", "\ufb01", "😀", "\uff0c"]
)
texts = st.lists(st.lists(odd | st.text(max_size=6), max_size=8).map("".join), max_size=12)


@given(texts)
def test_text_keys_are_those_of_the_normal_texts(values: list[str]) -> None:
    keys = text_keys(pa.array(values, pa.string()), threads=1)
    assert [key.tobytes() for key in keys] == [murmur(normal_text(value)) for value in values]


@given(st.lists(st.text(max_size=40), max_size=12))
def test_id_keys_are_those_of_the_reference(values: list[str]) -> None:
    keys = id_keys(pa.array(values, pa.string()), threads=1)
    assert [key.tobytes() for key in keys] == [murmur(value) for value in values]


@pytest.mark.parametrize("size", [*range(34), 10_000])
def test_texts_of_every_length(size: int) -> None:
    value = ("abcdefg" * size)[:size]
    assert id_keys(pa.array([value]))[0].tobytes() == murmur(value)


def test_the_hash_is_murmur() -> None:
    known = {
        "": "0" * 32,
        "hello": "cbd8a7b341bd9b025b1e906a48ae1d19",
        "The quick brown fox jumps over the lazy dog": "e34bbc7bbc071b6c7a433ca9c49a9347",
    }
    for text, digest in known.items():
        high, low = np.frombuffer(murmur(text), np.uint64).tolist()
        assert f"{high:016x}{low:016x}" == digest


def test_slices_and_threads_never_show() -> None:
    values = [f"Satz {i} über  {i * 31 % 97}" for i in range(9000)]
    whole = pa.array(values, pa.string())
    keys = text_keys(whole, threads=1)
    assert np.array_equal(keys, text_keys(whole, threads=3))
    assert np.array_equal(keys[17:], text_keys(whole.slice(17), threads=2))


def test_steady_characters_stay_as_they_are_beside_each_other() -> None:
    chars = [chr(code) for code in np.flatnonzero(steady_codes()).tolist()]
    order = np.random.default_rng(1).permutation(len(chars))
    for text in ("".join(chars), "".join(chars[i] for i in order), "".join(chars[::-1])):
        assert unicodedata.is_normalized("NFKC", text)
        assert text.split() == [text]


def test_every_character_gets_the_key_that_it_has_by_itself() -> None:
    chars = [chr(code) for code in range(0x11000) if not 0xD800 <= code < 0xE000]
    values = [text for char in chars for text in (char, f"a{char}b")]
    keys = text_keys(pa.array(values, pa.string()), threads=1)
    assert [key.tobytes() for key in keys] == [murmur(normal_text(value)) for value in values]


def test_ordinary_text_is_left_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["", "a", "Das alte Haus, 1920!", "Größe", "Привет мир", "漢字かな交じり文", "~", "\x00\x08\x0e\x1b\x7f"]
    expected = [murmur(value) for value in values]

    def slow(text: str) -> str:
        raise AssertionError(f"{text!r} went through the slow way")

    monkeypatch.setattr("mining.corpus.dedup.normal_text", slow)
    assert [key.tobytes() for key in text_keys(pa.array(values, pa.string()))] == expected


FORMS = ["{0}", "a{0}", "{0}a", "a{0}b", "a{0}{0}b", "a {0}b", "a{0} b", "a{0}\u00e4", "\u00e4{0}", "{0}\u00e4"]


@pytest.mark.parametrize("form", FORMS)
def test_white_space_and_control_characters_in_every_place(form: str) -> None:
    chars = [chr(code) for code in range(0x10000)]
    blank = [char for char in chars if char.isspace() or unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")]
    assert {"\t", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u00a0", "\u200b", "\u2028", "\u3000"} < set(blank)
    values = [form.format(char) for char in blank]
    keys = text_keys(pa.array(values, pa.string()), threads=1)
    assert [key.tobytes() for key in keys] == [murmur(normal_text(value)) for value in values]
