"""From a model folder to an encoder, with options that make it smaller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from mining.devices import resolve_device, torch_threads
from mining.encoder.encoder import SentenceEncoder, Vectoriser
from mining.encoder.model_folder import bundled_model, read_model
from mining.encoder.networks import AverageNetwork, build_network
from mining.encoder.networks.average import BIAS
from mining.encoder.stored import StoredNetwork, StoredTable, check_type
from mining.encoder.tokenizers import Tokenizer
from mining.encoder.word_cache.table import WORD_MEMORY
from mining.errors import UsageError


def load_encoder(
    path: str | Path | None = None,
    device: str = "cpu",
    *,
    dim: int | None = None,
    dtype: str = "float32",
    language: str | None = None,
    word_memory: int = WORD_MEMORY,
) -> SentenceEncoder:
    """Load a model folder onto `device` ("cpu", "cuda", "cuda:1"); None is the bundled
    model.

    `dim` keeps the first dimensions only, brought back to length one (Kusupati et al. 2022).
    `dtype` float16 or int8 keeps the tables as small as that in memory. `language` is needed for a
    model whose languages have parameters of their own, and not looked at otherwise. `word_memory`:
    bytes for the words that the encoder has met; it changes speed only. An encoder whose vectors
    differ by these options has another ``hash``.

    Raises UsageError when the folder or a file is missing, truncated, or does not fit the others,
    and for an option that does not fit the model.
    """
    check_type(dtype)
    folder = bundled_model() if path is None else Path(path)
    target = resolve_device(device)
    config, units, tables, weights = read_model(folder)
    suffix = ""
    if not config["shared"]:
        place = _place(folder, config["languages"], language)
        units, tables = _half(units, tables, place)
        suffix += f"-{language}"
    if dtype not in ("float32", config["dtype"]):
        suffix += f"-{dtype}"
    settings, tables, weights = _flat(config["network"], tables, weights)
    tables = {name: table.converted(dtype) for name, table in tables.items()}
    whole = int(config["dim"])
    if dim is not None and dim != whole:
        if not 1 <= dim < whole:
            raise UsageError(f"dim {dim}: the vectors of {folder} have {whole} dimensions, keep 1 to {whole}")
        suffix += f"-{dim}d"
        tables, weights = _cut(settings, tables, weights, dim)
        units = [unit for unit in units if unit.kind in tables]
    tables = {name: table.to(target) for name, table in tables.items()}
    weights = {name: weight.to(target) for name, weight in weights.items()}
    network, name = _network(settings, tables, weights), config["hash"] + suffix
    return SentenceEncoder(network, units, name, config, dim=dim, word_memory=word_memory)


def _network(
    settings: Mapping[str, Any], tables: Mapping[str, StoredTable], weights: Mapping[str, torch.Tensor]
) -> Vectoriser:
    """A plain network of float32 tables, or one that leaves them as small as they are."""
    if all(table.dtype == "float32" for table in tables.values()):
        return build_network(settings, {**{name: table.values for name, table in tables.items()}, **weights})
    first = {name: table.take(slice(1)) for name, table in tables.items()}
    return StoredNetwork(settings, tables, weights, build_network(settings, {**first, **weights}).dim)


def _place(folder: Path, languages: Sequence[str], language: str | None) -> int:
    """Which of the two languages is meant."""
    names = " or ".join(languages)
    if language is None:
        raise UsageError(
            f"{folder}: each language has its own parameters: say of which language the texts are, {names} "
            "(--language, or --source-language and --target-language)"
        )
    if language not in languages:
        raise UsageError(f"{folder}: language '{language}': this model knows {names}")
    return languages.index(language)


def _half(
    units: Sequence[Tokenizer], tables: Mapping[str, StoredTable], place: int
) -> tuple[list[Tokenizer], dict[str, StoredTable]]:
    """The units and the rows of one language."""
    halves = {
        unit.kind: table.part(slice(place * unit.size, (place + 1) * unit.size))
        for unit, table in zip(units, tables.values(), strict=True)
    }
    # A unit may have a vocabulary for each language.
    return [unit.of_language(place) if hasattr(unit, "of_language") else unit for unit in units], halves


def _flat(
    settings: Mapping[str, Any], tables: dict[str, StoredTable], weights: dict[str, torch.Tensor]
) -> tuple[Mapping[str, Any], dict[str, StoredTable], dict[str, torch.Tensor]]:
    """The same network without a projection: its tables mapped once and for all."""
    if settings["kind"] != "average" or not weights:
        return settings, tables, weights
    full = {name: table.take(slice(None)) for name, table in tables.items()}
    network = build_network(settings, {**full, **weights})
    if not isinstance(network, AverageNetwork):
        raise TypeError(f"a network of kind average came out as {type(network).__name__}")
    with torch_threads(1), torch.inference_mode():
        network = network.projected()
    return network.settings(), {name: StoredTable(table) for name, table in network.tables.items()}, {}


def _cut(
    settings: Mapping[str, Any], tables: dict[str, StoredTable], weights: dict[str, torch.Tensor], dim: int
) -> tuple[dict[str, StoredTable], dict[str, torch.Tensor]]:
    """Only the columns that the first `dim` numbers of a vector need; an LSTM needs all."""
    if settings["kind"] == "lstm":
        return tables, weights
    if settings.get("combine") != "concatenate":
        cut = {name: table.part(columns=slice(dim)) for name, table in tables.items()}
        return cut, {name: weight[:dim].clone() if name == BIAS else weight for name, weight in weights.items()}
    kept, start = {}, 0
    for name, table in tables.items():
        if start < dim:
            kept[name] = table.part(columns=slice(dim - start))
        start += table.values.shape[1]
    return kept, weights
