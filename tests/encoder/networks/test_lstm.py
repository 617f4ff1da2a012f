from __future__ import annotations

import numpy as np
import pytest
import torch

from mining.config.network import NetworkSettings
from mining.encoder import Tokens
from mining.encoder.networks import build_network, fresh_network, lstm
from mining.encoder.networks.lstm import LstmNetwork, grid_bits, on_grid

ROWS, DIM, HIDDEN = 40, 7, 5


@pytest.fixture
def network() -> LstmNetwork:
    settings = NetworkSettings(kind="lstm", dim=DIM, hidden=HIDDEN)
    made = fresh_network(settings, [ROWS], 1.0, seed=2)
    assert isinstance(made, LstmNetwork)
    return made


def pieces(*lengths: int, seed: int = 0) -> Tokens:
    offsets = np.concatenate(([0], np.cumsum(lengths))).astype(np.int64)
    ids = np.random.default_rng(seed).integers(0, ROWS, offsets[-1]).astype(np.int32)
    return Tokens(ids, offsets)


def torch_means(network: LstmNetwork, tokens: Tokens) -> torch.Tensor:
    """One sentence at a time through torch's own module."""
    module = torch.nn.LSTM(DIM, HIDDEN, batch_first=True, bidirectional=True)
    module.load_state_dict(network.weights)
    rows = []
    for start, stop in zip(tokens.offsets[:-1], tokens.offsets[1:], strict=True):
        ids = torch.from_numpy(tokens.ids[start:stop].astype(np.int64))
        states = module(network.table[ids][None])[0][0] if len(ids) else torch.zeros(1, 2 * HIDDEN)
        rows.append(states.mean(0))
    return torch.stack(rows).detach()


LENGTHS = (3, 0, 9, 1, 3, 20)


def test_forward_equals_the_module_of_torch(network: LstmNetwork) -> None:
    tokens = pieces(*LENGTHS)
    vectors, _ = network.forward([tokens])
    torch.testing.assert_close(vectors, torch_means(network, tokens))
    with torch.inference_mode():
        torch.testing.assert_close(network.forward([tokens])[0], vectors)


def test_exact_vectors_equal_the_module_of_torch(network: LstmNetwork) -> None:
    tokens = pieces(*LENGTHS)
    np.testing.assert_allclose(network.vectors([tokens]), torch_means(network, tokens), atol=2e-6)


def test_vectors_of_a_sentence_are_the_same_in_any_company(
    network: LstmNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens = pieces(*np.random.default_rng(5).integers(0, 30, 150).tolist())
    whole = network.vectors([tokens])
    for size in (1, 2, 37):
        blocks = np.split(np.arange(150), range(size, 150, size))
        parts = [network.vectors([tokens.take(rows)]) for rows in blocks]
        assert np.concatenate(parts).tobytes() == whole.tobytes()
    back = np.arange(150)[::-1]
    assert network.vectors([tokens.take(back)])[back].tobytes() == whole.tobytes()
    monkeypatch.setattr(lstm, "_BLOCK_TEXTS", 16)
    monkeypatch.setattr(lstm, "_SIDE_BY_SIDE", {"cpu": 5})
    assert network.vectors([tokens]).tobytes() == whole.tobytes()


def test_products_on_the_grid_do_not_depend_on_the_order_of_additions() -> None:
    generator = torch.Generator().manual_seed(1)
    left = on_grid(torch.randn(9, 300, generator=generator) * 100, 300, rows=True)
    right = on_grid(torch.randn(300, 11, generator=generator), 300)
    order = torch.randperm(300, generator=generator)
    assert torch.equal(left @ right, left[:, order] @ right[order])
    assert [grid_bits(length) for length in (1, 2, 150, 300, 1024)] == [26, 26, 22, 22, 21]


def test_grid_is_fine_and_keeps_zeros() -> None:
    values = torch.randn(6, 300, generator=torch.Generator().manual_seed(1))
    values[2] = 0.0
    rounded = on_grid(values, 300, rows=True)
    largest = values.abs().amax(1, keepdim=True)
    assert ((rounded - values).abs() <= largest * 2.0**-22).all()
    assert not rounded[2].any()


def test_gradient_is_that_of_torch(network: LstmNetwork) -> None:
    tokens = pieces(4, 0, 2, 7)
    slope = torch.randn(4, 2 * HIDDEN, generator=torch.Generator().manual_seed(4))
    _, backward = network.forward([tokens])
    gradients = backward(slope.clone())
    step = 1e-3
    rows, by_row = gradients.rows["pieces"]
    assert rows.tolist() == sorted(set(tokens.ids.tolist()))

    def loss() -> float:
        return float((torch_means(network, tokens).double() * slope).sum())

    for place, name in ((0, "weight_hh_l0_reverse"), (3, "bias_ih_l0"), (5, "weight_ih_l0")):
        flat = network.weights[name].view(-1)
        flat[place] += step
        more = loss()
        flat[place] -= 2 * step
        less = loss()
        flat[place] += step
        assert (more - less) / (2 * step) == pytest.approx(gradients.weights[name].view(-1)[place].item(), abs=2e-3)
    place = int(rows[1])
    network.table[place, 2] += step
    more = loss()
    network.table[place, 2] -= 2 * step
    less = loss()
    assert (more - less) / (2 * step) == pytest.approx(by_row[1, 2].item(), abs=2e-3)


def test_sentences_without_ids_have_no_gradient(network: LstmNetwork) -> None:
    vectors, backward = network.forward([pieces(0, 0)])
    assert not vectors.any()
    gradients = backward(torch.ones_like(vectors))
    assert len(gradients.rows["pieces"][0]) == 0
    assert set(gradients.weights) == set(network.weights)
    assert not any(gradient.any() for gradient in gradients.weights.values())


def test_saved_tensors_give_the_network_back(network: LstmNetwork) -> None:
    again = build_network(network.stored_settings(), network.tables, network.weights)
    tokens = pieces(*LENGTHS)
    assert again.vectors([tokens]).tobytes() == network.vectors([tokens]).tobytes()


def test_tensors_that_do_not_fit_are_named(network: LstmNetwork) -> None:
    stored, weights = network.stored_settings(), dict(network.weights)
    with pytest.raises(ValueError, match="'weight_ih_l0' has shape"):
        build_network(stored, network.tables, {**weights, "weight_ih_l0": torch.zeros(4 * HIDDEN, DIM + 1)})
    del weights["bias_hh_l0"]
    with pytest.raises(ValueError, match="bias_hh_l0"):
        build_network(stored, network.tables, weights)
    with pytest.raises(ValueError, match="one table, not 2"):
        build_network(stored, {**network.tables, "words": torch.zeros(2, DIM)}, network.weights)
