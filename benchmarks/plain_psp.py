"""The published training of P-SP in plain torch, to compare speed and loss with; nothing else uses
it.

Averages of `torch.nn.Embedding` over padded mini-batches; the hardest negative of each sentence
found one sentence at a time; each mini-batch encoded again with its negatives, cosines, hinge,
dense `torch.optim.Adam`. As in the published code only the own translation is excluded from the
negatives, and gradients are not clipped (its clipping never worked).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity, normalize

Minibatch = tuple[list[Tensor], list[Tensor]]
"""Piece ids of its sources and of its targets, one tensor (length,) int64 a sentence."""


class WithNegatives(NamedTuple):
    """A mini-batch and the negatives found for it."""

    sources: list[Tensor]
    targets: list[Tensor]
    of_sources: list[Tensor]
    """of each source, its negative: a target"""
    of_targets: list[Tensor]


class PlainPsp:
    """The model and its optimiser."""

    def __init__(self, table: Tensor, learning_rate: float, delta: float, *, rows_only: bool = False) -> None:
        """`table` (pieces, dim) is copied. `rows_only`: `torch.optim.SparseAdam` instead of Adam on
        all rows."""
        self.embedding = torch.nn.Embedding(len(table), table.shape[1], sparse=rows_only)
        with torch.no_grad():
            self.embedding.weight.copy_(table)
        optimiser = torch.optim.SparseAdam if rows_only else torch.optim.Adam
        self.optimiser = optimiser(self.embedding.parameters(), lr=learning_rate)
        self.delta = delta

    def encode(self, sentences: Sequence[Tensor]) -> Tensor:
        """Mean piece vectors, (n, dim)."""
        ids = torch.nn.utils.rnn.pad_sequence(list(sentences), batch_first=True)
        lengths = torch.tensor([len(sentence) for sentence in sentences])
        mask = torch.arange(ids.shape[1]) < lengths[:, None]
        return (self.embedding(ids) * mask[..., None]).sum(1) / lengths[:, None]

    def mega_batch(self, minibatches: Sequence[Minibatch]) -> list[WithNegatives]:
        """Find the hardest negatives in all of `minibatches` together, without gradient."""
        sources = [sentence for minibatch in minibatches for sentence in minibatch[0]]
        targets = [sentence for minibatch in minibatches for sentence in minibatch[1]]
        with torch.no_grad():
            vectors = [
                normalize(torch.cat([self.encode(minibatch[side]) for minibatch in minibatches])) for side in (0, 1)
            ]
            of_sources = [targets[i] for i in _hardest(vectors[0], vectors[1])]
            of_targets = [sources[i] for i in _hardest(vectors[1], vectors[0])]
        found, start = [], 0
        for minibatch in minibatches:
            rows = slice(start, start + len(minibatch[0]))
            found.append(WithNegatives(*minibatch, of_sources[rows], of_targets[rows]))
            start = rows.stop
        return found

    def step(self, batch: WithNegatives) -> float:
        """One optimiser step; returns the loss."""
        source, target, wrong_target, wrong_source = map(self.encode, batch)
        right = cosine_similarity(source, target)
        hinge = torch.relu(self.delta - right + cosine_similarity(source, wrong_target))
        hinge = hinge + torch.relu(self.delta - right + cosine_similarity(target, wrong_source))
        loss = hinge.mean()
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.item()


def _hardest(queries: Tensor, others: Tensor) -> list[int]:
    """For each row of `queries` the most similar row of `others` but the one of the same number;
    all of length one."""
    found = []
    for i in range(len(queries)):
        cosines = others @ queries[i]
        cosines[i] = -1
        found.append(int(cosines.argmax()))
    return found
