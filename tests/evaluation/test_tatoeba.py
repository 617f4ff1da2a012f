import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mining.corpus import dedup_key
from mining.evaluation import tatoeba_error
from mining.evaluation.tatoeba import Direction


def reference(encoder, source, target):
    """(errors, equal text, tied) of source to target, pair by pair."""
    left, left_valid = encoder.encode(source)
    right, right_valid = encoder.encode(target)
    errors = equal = tied = 0
    for i in range(len(source)):
        if not (left_valid[i] and right_valid[i]):
            errors += 1
            continue
        cosines = [
            np.float32(math.fsum(float(a) * float(b) for a, b in zip(left[i], row, strict=True))) if ok else -math.inf
            for row, ok in zip(right, right_valid, strict=True)
        ]
        best = min(range(len(target)), key=lambda j: (-cosines[j], j))
        if best == i:
            continue
        if dedup_key(target[best]) == dedup_key(target[i]):
            equal += 1
        else:
            errors += 1
            tied += cosines[best] == cosines[i]
    return Direction(errors, equal, tied)


# Few directions, so that cosines tie; some texts cannot be encoded; some are equal but for white
# space.
VECTORS = st.lists(st.integers(-2, 2), min_size=2, max_size=2)
TEXTS = st.sampled_from(["a", "b", "b ", "c", "c", "d", "e", "lost"])


@given(st.dictionaries(st.sampled_from(["a", "b", "c", "d", "e"]), VECTORS, min_size=1), st.data())
def test_equals_the_slow_reference(table_encoder, table, data):
    encoder = table_encoder({**table, **({"b ": table["b"]} if "b" in table else {})})
    pairs = data.draw(st.lists(st.tuples(TEXTS, TEXTS), min_size=1, max_size=12))
    source, target = [s for s, _ in pairs], [t for _, t in pairs]
    result = tatoeba_error(encoder, source, target, threads=1)
    assert result.forward == reference(encoder, source, target)
    assert result.backward == reference(encoder, target, source)
    assert 0 <= result.error <= 100


def test_directions_differ(table_encoder):
    # Both sources are nearest to target 0; both targets are nearest to their own source.
    encoder = table_encoder({"s0": [1, 0], "s1": [0.8, 0.6], "t0": [0.95, 0.31], "t1": [0.5, 0.87]})
    result = tatoeba_error(encoder, ["s0", "s1"], ["t0", "t1"])
    assert (result.forward_error, result.backward_error, result.error) == (50.0, 0.0, 25.0)
    assert result.to_dict() == {
        "backward": {"equal_text": 0, "error": 0.0, "errors": 0, "tied": 0},
        "error": 25.0,
        "forward": {"equal_text": 0, "error": 50.0, "errors": 1, "tied": 0},
        "pairs": 2,
        "unencoded": 0,
    }


def test_equal_texts_are_right_and_counted(table_encoder):
    encoder = table_encoder({"one": [1, 0], "uno": [1, 0.1], "uno ": [1, 0.1], "two": [0, 1], "dos": [0, 1]})
    result = tatoeba_error(encoder, ["one", "one", "two"], ["uno", "uno ", "dos"])
    assert result.error == 0
    assert (result.forward.equal_text, result.backward.equal_text) == (1, 1)


def test_equal_cosines_go_to_the_first_line_and_are_counted(table_encoder):
    encoder = table_encoder({"a": [1, 0], "b": [1, 0], "x": [1, 0], "y": [1, 0]})
    result = tatoeba_error(encoder, ["a", "b"], ["x", "y"])
    assert result.forward == result.backward == Direction(errors=1, equal_text=0, tied=1)


def test_what_cannot_be_encoded_is_an_error_both_ways(table_encoder):
    encoder = table_encoder({"a": [1, 0], "b": [0, 1], "x": [1, 0], "y": [0, 1]})
    result = tatoeba_error(encoder, ["a", "", "b"], ["x", "y", ""])
    assert result.unencoded == 2
    assert (result.forward.errors, result.backward.errors) == (2, 2)
    none = tatoeba_error(encoder, ["", "?"], ["x", "?"])
    assert (none.error, none.unencoded) == (100.0, 2)


def test_a_language_may_have_its_own_encoder(table_encoder):
    source, target = table_encoder({"a": [1, 0], "b": [0, 1]}), table_encoder({"a": [0, 1], "b": [1, 0]})
    assert tatoeba_error(source, ["a", "b"], ["b", "a"], target_encoder=target).error == 0
    assert tatoeba_error(source, ["a", "b"], ["b", "a"]).error == 100


def test_sides_must_be_aligned_and_not_empty(table_encoder):
    encoder = table_encoder({"a": [1.0]})
    with pytest.raises(ValueError, match="1 source texts but 2 target texts"):
        tatoeba_error(encoder, ["a"], ["a", "a"])
    with pytest.raises(ValueError, match="no pairs"):
        tatoeba_error(encoder, [], [])
