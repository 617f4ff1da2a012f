"""Packaging of the bitext miner; settings of the tools are in pyproject.toml, exact versions in
requirements.lock."""

from __future__ import annotations

from pathlib import Path

from setuptools import find_packages, setup

README = Path(__file__).parent / "README.md"

# Beam's own upper limits are repeated here, so that a resolver that starts from numpy or pyarrow
# finds them at once.
REQUIREMENTS = [
    "apache-beam>=2.69,<3",
    "click>=8.2",
    "defusedxml>=0.7.1",
    "numba>=0.61",
    "numpy>=1.26,<2.5",
    "pyarrow>=18,<26",
    "pydantic>=2.8",
    "PyYAML>=6.0.1",
    "rich>=13.7",
    "safetensors>=0.4.3",
    "sentencepiece>=0.2.0",
    "torch>=2.5",
]

# faiss-cpu and faiss-gpu own the same module: install [cpu] or [gpu], never both.
# faiss-gpu is built for CUDA 12.
CPU = ["faiss-cpu>=1.9"]
GPU = ["faiss-gpu>=1.15"]
DASK = ["dask>=2024.8", "distributed>=2024.8"]

# The plot and the TensorBoard files of a training.
TRAIN = ["matplotlib>=3.8", "tensorboardX>=2.6"]
# The filter of training data by language.
LANGUAGE_ID = ["py3langid>=0.3"]
# HDF5 of the published P-SP code, and the tokeniser of its older checkpoints.
RELEASED = ["h5py>=3.10", "nltk>=3.9"]

# Packages whose German gettext catalogues `bitext demo` reads; their code is never run.
DEMO = [
    "Django>=5.2",
    "Trac>=1.6",
    "django-cms>=5",
    "jupyterlab-language-pack-de-DE>=4",
    "mercurial>=6.9",
    "plone.app.locales>=6",
    "wagtail>=6.4",
]

# What `benchmarks/encode.py` is compared with; not in the lock file, since nothing else needs them.
PEERS = ["model2vec>=0.6", "sentence-transformers>=5"]

TEST = [
    *DASK,
    *TRAIN,
    *LANGUAGE_ID,
    *RELEASED,
    "hypothesis>=6.100",
    "polib>=1.2",
    "pytest>=8",
    "scipy>=1.11",
    "zstandard>=0.22",
]
DEV = ["mypy>=1.14", "ruff>=0.9", "types-PyYAML"]

setup(
    name="bitext-miner",
    version="0.1.0",
    description="Find the translations hidden in two large piles of sentences",
    long_description=README.read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license_expression="Apache-2.0",
    license_files=["LICENSE"],
    packages=find_packages(include=["mining", "mining.*", "pipelines", "pipelines.*"]),
    package_data={"mining": ["bundled_model/*"]},
    python_requires=">=3.10,<3.14",
    install_requires=REQUIREMENTS,
    extras_require={"cpu": CPU, "gpu": GPU, "dask": DASK, "demo": DEMO, "train": TRAIN}
    | {"language-id": LANGUAGE_ID, "released": RELEASED, "peers": PEERS, "test": TEST, "dev": DEV},
    entry_points={"console_scripts": ["bitext = pipelines.cli.__main__:main"]},
    classifiers=[
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Text Processing :: Linguistic",
    ],
)
