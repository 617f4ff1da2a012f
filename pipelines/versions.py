"""Which versions a result depends on: of this package, of libraries, and of Python's Unicode
tables."""

from __future__ import annotations

import functools
import platform
import unicodedata
from collections.abc import Iterable
from importlib import metadata

from mining import __version__
from mining.errors import RunError

#: What the result of every step depends on, beside the libraries that its stage names: numba
#: compiles the kernels, pyarrow writes Parquet, torch multiplies.
ALWAYS = ("bitext_miner", "numpy")
#: Distributions that bring a library, where it has another name or may come from several.
_DISTRIBUTIONS = {"faiss": ("faiss-cpu", "faiss-gpu")}
#: What the manifest lists for a run.
RECORDED = (
    "apache-beam",
    "faiss-cpu",
    "faiss-gpu",
    "numba",
    "numpy",
    "pyarrow",
    "safetensors",
    "sentencepiece",
    "torch",
)


@functools.cache
def version(name: str) -> str:
    """The version of one of them, "none" for a library that is not installed."""
    if name == "bitext_miner":
        return __version__
    if name == "unicode":
        return unicodedata.unidata_version
    for distribution in _DISTRIBUTIONS.get(name, (name,)):
        try:
            return metadata.version(distribution)
        except metadata.PackageNotFoundError:
            continue
    return "none"


def versions_of(libraries: Iterable[str]) -> dict[str, str]:
    """The versions that a result depends on which was made by these libraries."""
    return {name: version(name) for name in sorted({*ALWAYS, *libraries})}


def check_versions(wanted: dict[str, str]) -> None:
    """Raise RunError when this worker has other versions than the driver put into the step's
    key."""
    for name, there in wanted.items():
        if version(name) != there:
            raise RunError(
                f"a worker ({platform.node()}) has {name} {version(name)}, but the run was started with {there}: "
                "install the same versions everywhere"
            )


def installed() -> dict[str, str]:
    """Versions for the manifest: of Python, its Unicode tables and the libraries that are
    installed."""
    found = {name: version(name) for name in RECORDED if version(name) != "none"}
    return {"python": platform.python_version(), "unicode": version("unicode"), **found}
