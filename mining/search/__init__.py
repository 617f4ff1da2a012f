"""Nearest neighbours in both directions: exact by tiles, or through FAISS indexes; cosines always
recomputed."""

from mining.search.device_tiles import TorchProposer
from mining.search.exact import knn, nearest_neighbours, reference_neighbours
from mining.search.neighbours import NO_NEIGHBOUR, Neighbours, merge, no_neighbours
from mining.search.proposals import Proposal, Proposer
from mining.search.tiles import FaissProposer, TileProposer, tile_proposer
from mining.search.vectors import exact_cosines, from_stored, to_stored

__all__ = [
    "NO_NEIGHBOUR",
    "FaissProposer",
    "Neighbours",
    "Proposal",
    "Proposer",
    "TileProposer",
    "TorchProposer",
    "exact_cosines",
    "from_stored",
    "knn",
    "merge",
    "nearest_neighbours",
    "no_neighbours",
    "reference_neighbours",
    "tile_proposer",
    "to_stored",
]
