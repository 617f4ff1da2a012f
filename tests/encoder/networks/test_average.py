from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mining.config.network import NetworkSettings
from mining.encoder import Tokens
from mining.encoder.bags import row_gradient
from mining.encoder.networks import Network, build_network, fresh_network

ROWS, DIM = 7, 5
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "average": {},
    "sum": {"tokens": ["pieces", "words"]},
    "concatenation": {"tokens": ["words", "pieces"], "combine": "concatenate"},
    "projection": {"projection": 3},
    "projected concatenation": {"tokens": ["pieces", "trigrams"], "combine": "concatenate", "projection": 4},
    "charagram": {"kind": "charagram", "tokens": ["ngrams"]},
    "linear charagram": {"kind": "charagram", "tokens": ["ngrams"], "activation": "linear"},
}
TEXTS = st.lists(st.lists(st.integers(0, ROWS - 1), max_size=5), min_size=1, max_size=6)


def fresh(name: str) -> tuple[Network, int]:
    wanted = NetworkSettings.model_validate({"dim": DIM, **ARCHITECTURES[name]})
    network = fresh_network(wanted, [ROWS] * len(wanted.tokens), 1.0, seed=3)
    for weight in network.weights.values():
        weight.add_(torch.randn(weight.shape, generator=torch.Generator().manual_seed(4)))
    return network, len(wanted.tokens)


def pieces(lists: list[list[int]]) -> Tokens:
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in lists]))).astype(np.int64)
    return Tokens(np.array([number for one in lists for number in one], np.int32), offsets)


def tokens_of(lists: list[list[int]], count: int) -> list[Tokens]:
    """Of each further kind of token one id less, the others shifted: no two kinds have the same
    ids."""
    return [pieces([[(number + kind) % ROWS for number in one[kind:]] for one in lists]) for kind in range(count)]


def reference(network: Network, tokens: list[Tokens], parameters: dict[str, torch.Tensor]) -> torch.Tensor:
    """One sentence at a time, by operations that torch can differentiate."""
    rows = []
    for text in range(len(tokens[0].lengths)):
        parts = []
        for name, kind in zip(network.tables, tokens, strict=True):
            found = parameters[name][kind.ids[kind.offsets[text] : kind.offsets[text + 1]].astype(np.int64)]
            total = found.sum(0)
            parts.append(total if network.kind == "charagram" else total / max(len(found), 1))
        if network.kind == "charagram":
            state = parts[0] + parameters["bias"]
            state = torch.tanh(state) if network.stored_settings()["activation"] == "tanh" else state
            rows.append(state if tokens[0].lengths[text] else torch.zeros(DIM))
            continue
        joined = (
            torch.cat(parts) if network.stored_settings()["combine"] == "concatenate" else torch.stack(parts).sum(0)
        )
        rows.append(parameters["projection"] @ joined if "projection" in parameters else joined)
    return torch.stack(rows)


@pytest.mark.parametrize("name", ARCHITECTURES)
@settings(deadline=None, max_examples=30)
@given(lists=TEXTS)
def test_forward_and_backward_equal_autograd(name: str, lists: list[list[int]]) -> None:
    network, count = fresh(name)
    tokens = tokens_of(lists, count)
    parameters = {key: tensor.clone().requires_grad_() for key, tensor in network.tensors().items()}
    expected = reference(network, tokens, parameters)
    vectors, backward = network.forward(tokens)
    torch.testing.assert_close(vectors, expected.detach())
    slope = torch.randn(vectors.shape, generator=torch.Generator().manual_seed(5))
    if expected.requires_grad:
        expected.backward(slope)
    gradients = backward(slope.clone())
    for key, (rows, part) in gradients.rows.items():
        whole = torch.zeros_like(network.tables[key]).index_add_(0, rows, part)
        by_torch = parameters[key].grad
        torch.testing.assert_close(whole, torch.zeros_like(whole) if by_torch is None else by_torch)
        assert rows.tolist() == sorted(set(rows.tolist()))
    for key, part in gradients.weights.items():
        by_torch = parameters[key].grad
        torch.testing.assert_close(part, torch.zeros_like(part) if by_torch is None else by_torch)


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_vectors_are_those_of_forward_and_the_same_in_any_company(name: str) -> None:
    network, count = fresh(name)
    tokens = tokens_of([[1, 2, 2], [], [6], [0, 3, 4, 5], [1, 2, 2]], count)
    vectors = network.vectors(tokens)
    np.testing.assert_allclose(vectors, network.forward(tokens)[0], atol=1e-6)
    assert not vectors[1].any()
    for text in range(5):
        alone = network.vectors([kind.take(np.array([text])) for kind in tokens])
        assert alone.tobytes() == vectors[text : text + 1].tobytes()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_network_is_rebuilt_from_its_tensors(name: str) -> None:
    network, count = fresh(name)
    tokens = tokens_of([[1, 2, 5], [4]], count)
    again = build_network(network.stored_settings(), network.tables, network.weights)
    assert again.dim == network.dim
    assert again.vectors(tokens).tobytes() == network.vectors(tokens).tobytes()


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 6), min_size=1, max_size=5), min_size=1, max_size=6))
def test_row_gradient_equals_the_sum_over_occurrences(lists: list[list[int]]) -> None:
    bags = pieces(lists)
    by_sum = torch.randn((len(lists), 3), generator=torch.Generator().manual_seed(0))
    expected = torch.zeros((7, 3))
    for bag, one in enumerate(lists):
        for piece in one:
            expected[piece] += by_sum[bag]
    rows, gradient = row_gradient(bags, by_sum)
    assert rows.tolist() == sorted(set(bags.ids.tolist()))
    torch.testing.assert_close(gradient, expected[rows])
