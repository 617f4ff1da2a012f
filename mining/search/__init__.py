"""Nearest neighbours in both directions: exact by tiles, or through FAISS indexes; cosines always recomputed."""

from mining.search.exact import knn, nearest_neighbours, reference_neighbours
from mining.search.neighbours import NO_NEIGHBOUR, Neighbours, merge, no_neighbours
from mining.search.tiles import FaissProposer, Proposer, TorchProposer
from mining.search.vectors import exact_cosines, from_stored, to_stored

__all__ = [
    "NO_NEIGHBOUR",
    "FaissProposer",
    "Neighbours",
    "Proposer",
    "TorchProposer",
    "exact_cosines",
    "from_stored",
    "knn",
    "merge",
    "nearest_neighbours",
    "no_neighbours",
    "reference_neighbours",
    "to_stored",
]
