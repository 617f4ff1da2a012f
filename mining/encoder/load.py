"""From a model folder to an encoder, and to a smaller folder."""

from __future__ import annotations

from pathlib import Path

from mining.config.encode import EncoderSettings
from mining.devices import resolve_device
from mining.encoder.encoder import SentenceEncoder
from mining.encoder.model import Model, check_type
from mining.encoder.model_folder import ModelDescription, bundled_model, read_model, write_model
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
    """Load a model folder onto `device` ("cpu", "cuda", "cuda:1"); None is the bundled model.

    `dim` keeps the first dimensions, brought back to length one (Kusupati et al. 2022). `dtype`
    float16 or int8 keeps the tables as small as that. `language`: for a model whose languages have
    parameters of their own. `word_memory`: bytes for words met before, for speed only. Vectors that
    differ by options are of encoders of another ``hash``. Raises UsageError for a folder that is
    not whole, and for an option that does not fit the model.

    >>> from mining import load_encoder
    >>> encoder = load_encoder()
    >>> vectors, valid = encoder.encode(["The house is old.", "Das Haus ist alt.", ""])
    >>> vectors.shape, valid.tolist()
    ((3, 300), [True, True, False])
    >>> bool(vectors[0] @ vectors[1] > 0.8)
    True
    """
    check_type(dtype)
    folder, target = bundled_model() if path is None else Path(path), resolve_device(device)
    description, model = read_model(folder)
    name = description.hash
    if not description.shared:
        model = model.of_language(_language_number(folder, description, language))
        name += f"-{language}"
    if dtype not in ("float32", description.dtype):
        name += f"-{dtype}"
    model = model.flat().converted(dtype)
    if dim is not None and dim != description.dim:
        model = model.leading(dim, str(folder))
        name += f"-{dim}d"
    network = model.to(target).encoding()
    return SentenceEncoder(network, model.tokenizers, name, description, dim=dim, word_memory=word_memory)


def load_encoders(settings: EncoderSettings, *languages: str | None) -> list[SentenceEncoder]:
    """The encoders of some languages, in their order: one and the same where no two languages are
    given. Raises UsageError as `load_encoder` does."""
    loaded = {
        language: load_encoder(
            settings.model, settings.device, language=language, dim=settings.dim, dtype=settings.dtype
        )
        for language in dict.fromkeys(languages)
    }
    return [loaded[language] for language in languages]


def _language_number(folder: Path, description: ModelDescription, language: str | None) -> int:
    """Which of the two languages is meant: 0 or 1."""
    names = " or ".join(description.languages)
    if language is None:
        raise UsageError(
            f"{folder}: each language has its own parameters: say of which language the texts are, {names} "
            "(--language, or --source-language and --target-language)"
        )
    if language not in description.languages:
        raise UsageError(f"{folder}: language '{language}': this model knows {names}")
    return description.languages.index(language)


def shrink_model(source: Path, folder: Path, *, dim: int | None = None, dtype: str | None = None) -> str:
    """Write the model of `source` into `folder` with the first `dim` dimensions and tables of type
    `dtype`.

    What is None stays as it is. Returns the hash of the new model; ``training`` says which it was
    made from. Raises UsageError when the source is no model or cannot be cut.
    """
    description, model = read_model(source)
    model = model.converted("float32")
    if dim is not None:
        model = shortened(model, dim)
    made_from = {"model": description.hash, "dim": description.dim, "dtype": description.dtype}
    return write_model(
        folder,
        model,
        languages=description.languages,
        training={**description.training, "made_from": made_from},
        versions=description.versions,
        dtype=dtype or description.dtype,
    )


def shortened(model: Model, dim: int) -> Model:
    """The model that gives the first `dim` numbers of a vector; UsageError where it needs all."""
    cut = model.leading(dim)
    if cut.outline.dim != dim:
        raise UsageError(f"dim {dim}: a model of kind {cut.outline.kind} keeps all its dimensions")
    return cut
