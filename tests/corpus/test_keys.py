"""Keys of many texts at once."""

from __future__ import annotations

import hashlib
import unicodedata

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.corpus import dedup_key
from mining.corpus.keys import id_keys, steady_codes, text_keys

odd = st.sampled_from(
    ["a", " ", "  ", "\t", "ä", "a\u0308", "\u00a0", "\u2028", "\u1100\u1161", "\uac00\u11a8", "\ufb01", "😀", "\uff0c"]
)
texts = st.lists(st.lists(odd | st.text(max_size=6), max_size=8).map("".join), max_size=12)


@given(texts)
def test_text_keys_equal_dedup_key(values: list[str]) -> None:
    keys = text_keys(pa.array(values, pa.string()), threads=1)
    assert [key.tobytes() for key in keys] == [dedup_key(value) for value in values]


@given(st.lists(st.text(max_size=20), max_size=12))
def test_id_keys_are_blake2b(values: list[str]) -> None:
    keys = id_keys(pa.array(values, pa.string()), threads=1)
    assert [key.tobytes() for key in keys] == [
        hashlib.blake2b(value.encode(), digest_size=16).digest() for value in values
    ]


@pytest.mark.parametrize("size", [0, 1, 127, 128, 129, 255, 256, 257, 10_000])
def test_texts_of_several_blocks(size: int) -> None:
    value = ("abcdefg" * size)[:size]
    assert id_keys(pa.array([value]))[0].tobytes() == hashlib.blake2b(value.encode(), digest_size=16).digest()


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
    assert [key.tobytes() for key in keys] == [dedup_key(value) for value in values]


def test_ordinary_text_is_left_to_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    values = ["", "a", "Das alte Haus, 1920!", "Größe", "Привет мир", "漢字かな交じり文", "~", "\x00\x08\x0e\x1b\x7f"]
    expected = [dedup_key(value) for value in values]

    def slow(text: str) -> bytes:
        raise AssertionError(f"{text!r} went through the slow way")

    monkeypatch.setattr("mining.corpus.keys.dedup_key", slow)
    assert [key.tobytes() for key in text_keys(pa.array(values, pa.string()))] == expected


FORMS = ["{0}", "a{0}", "{0}a", "a{0}b", "a{0}{0}b", "a {0}b", "a{0} b", "a{0}\u00e4", "\u00e4{0}", "{0}\u00e4"]


@pytest.mark.parametrize("form", FORMS)
def test_white_space_and_control_characters_in_every_place(form: str) -> None:
    chars = [chr(code) for code in range(0x10000)]
    blank = [char for char in chars if char.isspace() or unicodedata.category(char) in ("Cc", "Cf", "Zs", "Zl", "Zp")]
    assert {"\t", "\x1c", "\x1d", "\x1e", "\x1f", "\x85", "\u00a0", "\u200b", "\u2028", "\u3000"} < set(blank)
    values = [form.format(char) for char in blank]
    keys = text_keys(pa.array(values, pa.string()), threads=1)
    assert [key.tobytes() for key in keys] == [dedup_key(value) for value in values]
