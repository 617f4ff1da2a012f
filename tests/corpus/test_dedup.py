from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.corpus import dedup_key, first_occurrence
from mining.corpus.dedup import first_occurrence_reference


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
