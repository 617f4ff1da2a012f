"""The bundled model is whole, small, packed into the wheel, and knows its eight
languages."""

# ruff: noqa: RUF001 (letters of other scripts look alike)
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mining import load_encoder
from mining.encoder import SentenceEncoder
from mining.encoder.model_folder import BUNDLED_MODEL as FOLDER

ROOT = Path(__file__).parent.parent
FILES = {"config.json", "model.safetensors", "sentencepiece.model"}

#: The same sentences in each language, in the same order.
SENTENCES = {
    "en": [
        "The house is old.",
        "Where is the train station?",
        "The file could not be opened.",
        "My brother drinks coffee every morning.",
        "The government raised taxes last year.",
        "It is raining today.",
        "She bought a new book about history.",
        "Please enter your password.",
    ],
    "de": [
        "Das Haus ist alt.",
        "Wo ist der Bahnhof?",
        "Die Datei konnte nicht geöffnet werden.",
        "Mein Bruder trinkt jeden Morgen Kaffee.",
        "Die Regierung hat letztes Jahr die Steuern erhöht.",
        "Heute regnet es.",
        "Sie kaufte ein neues Buch über Geschichte.",
        "Bitte geben Sie Ihr Passwort ein.",
    ],
    "fr": [
        "La maison est vieille.",
        "Où est la gare ?",
        "Le fichier n'a pas pu être ouvert.",
        "Mon frère boit du café tous les matins.",
        "Le gouvernement a augmenté les impôts l'année dernière.",
        "Il pleut aujourd'hui.",
        "Elle a acheté un nouveau livre d'histoire.",
        "Veuillez saisir votre mot de passe.",
    ],
    "es": [
        "La casa es vieja.",
        "¿Dónde está la estación de tren?",
        "No se pudo abrir el archivo.",
        "Mi hermano bebe café todas las mañanas.",
        "El gobierno subió los impuestos el año pasado.",
        "Hoy está lloviendo.",
        "Ella compró un libro nuevo sobre historia.",
        "Introduzca su contraseña.",
    ],
    "ru": [
        "Дом старый.",
        "Где находится вокзал?",
        "Не удалось открыть файл.",
        "Мой брат пьёт кофе каждое утро.",
        "В прошлом году правительство повысило налоги.",
        "Сегодня идёт дождь.",
        "Она купила новую книгу по истории.",
        "Введите ваш пароль.",
    ],
    "tr": [
        "Ev eski.",
        "Tren istasyonu nerede?",
        "Dosya açılamadı.",
        "Kardeşim her sabah kahve içer.",
        "Hükümet geçen yıl vergileri artırdı.",
        "Bugün yağmur yağıyor.",
        "Tarih hakkında yeni bir kitap satın aldı.",
        "Lütfen parolanızı girin.",
    ],
    "ar": [
        "البيت قديم.",
        "أين محطة القطار؟",
        "تعذر فتح الملف.",
        "أخي يشرب القهوة كل صباح.",
        "رفعت الحكومة الضرائب في العام الماضي.",
        "السماء تمطر اليوم.",
        "اشترت كتابا جديدا عن التاريخ.",
        "من فضلك أدخل كلمة المرور.",
    ],
    "zh": [
        "房子很旧。",
        "火车站在哪里？",
        "无法打开文件。",
        "我哥哥每天早上喝咖啡。",
        "政府去年提高了税收。",
        "今天下雨。",
        "她买了一本关于历史的新书。",
        "请输入您的密码。",
    ],
}
OTHERS = [language for language in SENTENCES if language != "en"]


@pytest.fixture(scope="module")
def encoder() -> SentenceEncoder:
    return load_encoder()


def right(encoder: SentenceEncoder, language: str) -> int:
    """How many sentences have their translation as the nearest of the other language, both
    directions counted."""
    (english, _), (other, _) = (encoder.encode(SENTENCES[code]) for code in ("en", language))
    cosines = english @ other.T
    places = np.arange(len(cosines))
    return int((cosines.argmax(1) == places).sum() + (cosines.argmax(0) == places).sum())


def test_folder_is_whole_and_small() -> None:
    assert {path.name for path in FOLDER.iterdir()} == FILES
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 25_000_000


def test_config_names_languages_and_compact_tables() -> None:
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert set(config["languages"]) == set(SENTENCES)
    assert len(config["languages"]) == len(SENTENCES)
    assert config["dtype"] in {"float16", "int8"}
    assert config["training"]["config"]["seed"] == 1


def test_config_names_no_folder_of_the_machine_it_was_made_on() -> None:
    assert ': "/' not in (FOLDER / "config.json").read_text(encoding="utf-8")


@pytest.mark.parametrize("language", SENTENCES)
def test_language_is_encoded(encoder: SentenceEncoder, language: str) -> None:
    vectors, valid = encoder.encode(SENTENCES[language])
    assert vectors.shape == (len(SENTENCES[language]), 300)
    assert valid.all()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert len(np.unique(vectors, axis=0)) == len(vectors)


@pytest.mark.parametrize("language", OTHERS)
def test_most_translations_are_nearest(encoder: SentenceEncoder, language: str) -> None:
    assert right(encoder, language) >= 0.75 * 2 * len(SENTENCES["en"])


def test_nearly_all_translations_are_nearest(encoder: SentenceEncoder) -> None:
    assert sum(right(encoder, language) for language in OTHERS) >= 0.9 * 2 * len(SENTENCES["en"]) * len(OTHERS)


def test_built_package_contains_the_model(tmp_path: Path) -> None:
    subprocess.run(
        [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", str(tmp_path)],
        cwd=ROOT,
        check=True,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    built = tmp_path / "mining" / "bundled_model"
    assert {path.name for path in built.iterdir()} == FILES
    assert all((built / name).read_bytes() == (FOLDER / name).read_bytes() for name in FILES)
