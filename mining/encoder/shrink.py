"""A model made smaller on disk: fewer dimensions, tables in float16 or int8."""

from __future__ import annotations

from pathlib import Path

from mining.encoder.model_folder import read_model, save_model
from mining.encoder.networks import AverageNetwork, CharagramNetwork, Network, build_network
from mining.encoder.networks.average import BIAS
from mining.encoder.tokenizers import Tokenizer
from mining.errors import UsageError


def shrink_model(source: Path, folder: Path, *, dim: int | None = None, dtype: str | None = None) -> str:
    """Write the model of `source` into `folder` with the first `dim` dimensions and tables of type
    `dtype`.

    What is None stays as it is. Returns the hash of the new model; ``training`` says which it was
    made from. Raises UsageError when the source is no model or cannot be cut.
    """
    config, units, tables, weights = read_model(source)
    full = {name: table.take(slice(None)) for name, table in tables.items()}
    network = build_network(config["network"], {**full, **weights})
    if dim is not None:
        network, units = shortened(network, units, dim)
    made_from = {"model": config["hash"], "dim": config["dim"], "dtype": config["dtype"]}
    return save_model(
        folder,
        network,
        units,
        languages=config["languages"],
        training={**config.get("training", {}), "made_from": made_from},
        versions=config.get("versions"),
        dtype=dtype or config["dtype"],
    )


def shortened(network: Network, units: list[Tokenizer], dim: int) -> tuple[Network, list[Tokenizer]]:
    """The network that gives the first `dim` numbers of a vector, and the units it still needs.

    Truncation as in Kusupati et al. 2022. Raises UsageError for another number than 1 to the
    dimension, and for an LSTM, whose states depend on each other.
    """
    if not 1 <= dim <= network.dim:
        raise UsageError(f"dim {dim}: the vectors of this model have {network.dim} dimensions, keep 1 to {network.dim}")
    if dim == network.dim:
        return network, units
    if isinstance(network, CharagramNetwork):
        tables = {name: table[:, :dim].clone() for name, table in network.tables.items()}
        return CharagramNetwork(tables["ngrams"], network.weights[BIAS][:dim].clone(), network.activation), units
    if not isinstance(network, AverageNetwork):
        raise UsageError(f"dim {dim}: a model of kind {network.kind} keeps all its dimensions")
    network = network.projected()
    if network.combine != "concatenate":
        return AverageNetwork({name: table[:, :dim].clone() for name, table in network.tables.items()}), units
    kept, start = {}, 0
    for name, table in network.tables.items():
        if start < dim:
            kept[name] = table[:, : dim - start].clone()
        start += table.shape[1]
    return AverageNetwork(kept, "concatenate"), [unit for unit in units if unit.kind in kept]
