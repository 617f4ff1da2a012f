from __future__ import annotations

import torch

from mining.encoder.networks import Gradients
from mining.encoder.networks.average import AverageNetwork
from mining.training.adam import Adam, clip

ROWS = 1100


def normal(shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def table_network(table: torch.Tensor) -> AverageNetwork:
    return AverageNetwork({"pieces": table})


def test_it_equals_dense_adam_when_every_row_is_touched() -> None:
    tables = normal((ROWS, 3)), normal((4, 3), 1)
    dense = [tensor.clone().requires_grad_() for tensor in tables]
    network = AverageNetwork({"pieces": tables[0].clone()}, projection=tables[1].clone())
    adam, reference = Adam(network), torch.optim.Adam(dense, lr=0.01)
    for number in range(5):
        for place, tensor in enumerate(dense):
            tensor.grad = normal(tuple(tensor.shape), 10 * number + place)
        slopes = [tensor.grad.clone() for tensor in dense]
        reference.step()
        adam.step(Gradients({"pieces": (torch.arange(ROWS), slopes[0])}, {"projection": slopes[1]}), 0.01)
    torch.testing.assert_close(network.tables["pieces"], dense[0].detach())
    torch.testing.assert_close(network.weights["projection"], dense[1].detach())


def test_it_leaves_other_rows_alone() -> None:
    network = table_network(torch.ones((4, 2)))
    Adam(network).step(Gradients({"pieces": (torch.tensor([1, 3]), torch.ones((2, 2)))}, {}), 0.1)
    assert (network.tables["pieces"][[0, 2]] == 1).all()
    assert (network.tables["pieces"][[1, 3]] < 1).all()


def test_l2_and_pull_are_gradients_of_squared_lengths() -> None:
    start, initial = normal((5, 3)), normal((5, 3), 1)
    rows, slope = torch.tensor([0, 2, 4]), normal((3, 3), 2)
    network = table_network(start.clone())
    Adam(network, l2=0.3, pull=0.7, initial={"pieces": initial}).step(
        Gradients({"pieces": (rows, slope.clone())}, {}), 0.1
    )
    dense = start.clone().requires_grad_()
    touched = dense[rows]
    penalty = 0.15 * touched.square().sum() + 0.35 * (touched - initial[rows]).square().sum()
    (penalty + (touched * slope).sum()).backward()
    torch.optim.Adam([dense], lr=0.1).step()
    torch.testing.assert_close(network.tables["pieces"], dense.detach())


def test_clipping_scales_all_gradients_by_one_factor() -> None:
    slope, weight = normal((3, 2)), normal((2, 2), 1)
    gradients = Gradients({"pieces": (torch.arange(3), slope.clone())}, {"projection": weight.clone()})
    norm = float(torch.cat((slope.flatten(), weight.flatten())).norm())
    clip(gradients, 2 * norm)
    torch.testing.assert_close(gradients.weights["projection"], weight)
    clip(gradients, norm / 4)
    torch.testing.assert_close(gradients.rows["pieces"][1], slope / 4, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradients.weights["projection"], weight / 4, rtol=1e-5, atol=1e-6)
