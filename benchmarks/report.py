"""Everything that is reported of a model, as JSON; and tables that compare several models with
published figures.

    python benchmarks/report.py --model model-en-de --output reports/en-de.json
    python benchmarks/report.py --tables reports/en-de.json reports/bundled.json > docs/models.md

reads ``$BITEXT_DATA`` (default ``../shared/data``): mining on ``bucc/XX-en.training.*`` by every
margin, the threshold tuned on all gold and over five folds; Tatoeba in both directions; STS. A
model that names its languages is measured on these only.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any

from report_tables import write_tables

from mining.corpus import CorpusSpec
from mining.encoder import Encoder, load_encoder
from mining.encoder.model_folder import bundled_model
from mining.errors import BitextError
from mining.evaluation.mining import MiningTask, evaluate_mining, read_mining_task
from mining.evaluation.sts import find_sts, read_sts, set_name, sts_correlations
from mining.evaluation.tatoeba import find_aligned, read_aligned, tatoeba_error
from mining.margins import MARGINS
from pipelines.cli.say import write_json

#: Languages as the names of the Tatoeba files have them.
TATOEBA_CODES = {"ara": "ar", "cmn": "zh", "deu": "de", "fra": "fr", "rus": "ru", "spa": "es", "tur": "tr"}
SPEED_SENTENCES = 20_000


class Model:
    """A model to be measured: its encoder for each language, and the languages it claims."""

    def __init__(self, path: str | None, options: dict[str, Any], languages: list[str] | None) -> None:
        self.path, self.options = Path(path) if path is not None else bundled_model(), options
        self.config = json.loads((self.path / "config.json").read_text("utf-8"))
        self.languages: list[str] = languages or self.config["languages"]
        self.apart = not self.config["shared"]
        self._encoders: dict[str, Encoder] = {}

    def encoder(self, language: str) -> Encoder:
        """The encoder for a language: the same for all, unless the model keeps the languages
        apart."""
        options = {**self.options, "language": language} if self.apart else self.options
        key = language if self.apart else ""
        if key not in self._encoders:
            self._encoders[key] = load_encoder(self.path, **options)
        return self._encoders[key]

    def knows(self, *languages: str) -> bool:
        """Whether a set in these languages is measured."""
        return not self.languages or set(languages) <= set(self.languages)


def say(text: str) -> None:
    """Progress, on standard error."""
    print(text, file=sys.stderr, flush=True)


def bucc_languages(data: Path) -> list[str]:
    """The languages that have a mining task with English."""
    return sorted(path.name.split("-")[0] for path in data.glob("bucc/*-en.training.gold-domains"))


def bucc_task(data: Path, language: str) -> MiningTask:
    """The training split of a mining task."""
    stem = data / "bucc" / f"{language}-en.training"
    specs = [CorpusSpec(path=f"{stem}.{side}", columns=["id", "text"]) for side in (language, "en")]
    return read_mining_task(specs[0], specs[1], f"{stem}.gold-domains")


def measure_mining(model: Model, data: Path, threads: int) -> dict[str, Any]:
    """By language and margin: precision, recall, F1, threshold, held-out F1 and recall of each gold
    domain."""
    report: dict[str, Any] = {}
    for language in bucc_languages(data):
        if not model.knows(language, "en"):
            continue
        start = time.perf_counter()
        encoders = model.encoder(language), model.encoder("en")
        task = bucc_task(data, language)
        results = evaluate_mining(task, encoders[0], MARGINS.names(), target_encoder=encoders[1], threads=threads)
        report[language] = {name: shortened(result.to_dict()) for name, result in results.items()}
        f1 = ", ".join(f"{name} {100 * result.f1:.2f}" for name, result in results.items())
        say(f"mining {language}-en: F1 {f1} ({time.perf_counter() - start:.0f} s)")
    return report


def shortened(result: dict[str, Any]) -> dict[str, Any]:
    """What the tables need of a result; examples and single folds stay out."""
    kept = {name: result[name] for name in ("domains", "f1", "precision", "recall", "threshold")}
    kept["gold"] = result["counts"]["gold_kept"]
    return {**kept, "held_out_f1": result["cross_validation"]["f1"]}


def measure_tatoeba(model: Model, data: Path, threads: int) -> dict[str, Any]:
    """By set: error both ways."""
    report = {}
    for name, spec in sorted(find_aligned([str(data / "tatoeba")]).items()):
        languages = [TATOEBA_CODES.get(code, "en" if code == "eng" else code) for code in name.split("-")]
        if not model.knows(*languages):
            continue
        pairs = read_aligned(name, spec)
        encoders = model.encoder(languages[0]), model.encoder(languages[1])
        result = tatoeba_error(encoders[0], pairs.source, pairs.target, target_encoder=encoders[1], threads=threads)
        report[name] = result.to_dict()
        say(f"Tatoeba {name}: error {result.error:.2f}%")
    return report


def sts_languages(name: str) -> tuple[str, str]:
    """The languages of a data set: ``STS17.track3.es-es`` says so, others are English."""
    found = re.search(r"\.([a-z]{2})-([a-z]{2})$", name)
    return (found[1], found[2]) if found else ("en", "en")


def measure_sts(model: Model, data: Path, threads: int) -> dict[str, Any]:
    """Correlations by data set and group; of a model that keeps its languages apart, only those of
    English."""

    def known(languages: tuple[str, str]) -> bool:
        return languages == ("en", "en") if model.apart else model.knows(*languages)

    datasets = [read_sts(path) for path in find_sts([data / "sts"]) if known(sts_languages(set_name(path)))]
    report = sts_correlations(model.encoder("en"), datasets, threads=threads).to_dict()
    say(f"STS: mean Pearson {report['all']['pearson']} over {report['all']['sets']} data sets")
    return report


def speed(model: Model, data: Path, threads: int) -> float:
    """English sentences encoded a second, tokenisation included: the better of two tries."""
    language = next(name for name in bucc_languages(data) if model.knows(name, "en"))
    texts = bucc_task(data, language).target[:SPEED_SENTENCES]
    seconds = []
    for _ in range(2):
        start = time.perf_counter()
        model.encoder("en").encode(texts, threads)
        seconds.append(time.perf_counter() - start)
    return round(len(texts) / min(seconds))


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    """The whole report of one model."""
    data = Path(os.environ.get("BITEXT_DATA", "../shared/data"))
    given = {"device": arguments.device, "dim": arguments.dim, "dtype": arguments.dtype}
    options = {name: value for name, value in given.items() if value is not None}
    languages = arguments.languages.split(",") if arguments.languages else None
    model = Model(arguments.model, options, languages)
    encoder = model.encoder("en")
    report: dict[str, Any] = {
        "name": arguments.name or (Path(arguments.model).name if arguments.model else "bundled"),
        "dim": encoder.dim,
        "hash": encoder.hash,
        "languages": model.languages,
        "options": options,
        "mining": measure_mining(model, data, arguments.threads),
        "tatoeba": measure_tatoeba(model, data, arguments.threads),
        "sts": measure_sts(model, data, arguments.threads),
    }
    if report["mining"]:
        report["sentences_per_second"] = speed(model, data, arguments.threads)
    return report


def main() -> None:
    """Measure a model, or print tables of measured ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="model folder; without it the bundled model")
    parser.add_argument("--output", type=Path, help="JSON file to write")
    parser.add_argument("--name", help="name in the tables; default: that of the folder")
    parser.add_argument("--languages", help="measure these only, with commas; default: those of the model")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dim", type=int, help="keep the first dimensions only")
    parser.add_argument("--dtype", help="float32, float16 or int8 tables")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--tables", nargs="+", type=Path, metavar="JSON", help="print tables of these reports")
    arguments = parser.parse_args()
    if (arguments.tables is None) == (arguments.output is None):
        parser.error("give --output to measure a model, or --tables with the reports to compare")
    try:
        if arguments.tables is not None:
            sys.stdout.write(write_tables([json.loads(path.read_text("utf-8")) for path in arguments.tables]))
        else:
            arguments.output.parent.mkdir(parents=True, exist_ok=True)
            write_json(arguments.output, measure(arguments))
            print(arguments.output)
    except (BitextError, OSError, json.JSONDecodeError) as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
