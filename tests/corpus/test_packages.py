from __future__ import annotations

import sys
from pathlib import Path

import pytest

from mining.corpus import BitextSpec, list_inputs, read_rows
from mining.corpus.formats.gettext import _by_language, _module_folders, _walk, package_catalogues, prefer_po
from mining.errors import UsageError

PO = 'msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid "{}"\nmsgstr "x"\n'


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A folder of installed packages: `sampleapp`, the namespace package `samplespace.sub`, and a
    distribution."""
    site = tmp_path / "site"
    files = [
        "sampleapp/__init__.py",
        "sampleapp/locale/de/LC_MESSAGES/django.po",
        "sampleapp/locale/de/LC_MESSAGES/django.mo",
        "sampleapp/locale/pt_BR/LC_MESSAGES/django.po",
        "sampleapp/admin/locale/de/LC_MESSAGES/djangojs.po",
        "sampleapp/admin/locale/de/LC_MESSAGES/notes.txt",
        "samplespace/sub/locales/locales/de/LC_MESSAGES/sub.po",
        "samplespace/other/locales/de/LC_MESSAGES/other.po",
        "bareapp/__init__.py",
        "odd_module/locale/de/LC_MESSAGES/odd.po",
    ]
    for name in files:
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("raise ImportError('imported')" if name.endswith(".py") else PO.format(name))
    info = site / "Sample_Dist-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: Sample-Dist\nVersion: 1.0\n")
    (info / "RECORD").write_text("odd_module/locale/de/LC_MESSAGES/odd.po,,\n")
    monkeypatch.syspath_prepend(str(site))
    return site


def test_all_catalogues_of_a_language_without_import(site):
    names = [file.name for file in list_inputs(BitextSpec(path="gettext:sampleapp:de"))]
    assert names == ["admin/locale/de/LC_MESSAGES/djangojs.po", "locale/de/LC_MESSAGES/django.po"]
    assert "sampleapp" not in sys.modules


def test_rows_and_ids(site, read):
    rows = read("gettext:samplespace.sub:de", bitext=True)
    assert [(row.id, row.texts[1]) for row in rows] == [("sub.po:1", "x")]


def test_parents_of_dotted_names_are_not_imported(site):
    assert len(package_catalogues("gettext:samplespace:de")) == 2
    assert "samplespace" not in sys.modules


@pytest.mark.parametrize("language", ["pt_BR", "pt-br", "PT_BR"])
def test_language_is_compared_without_case(site, language):
    assert len(package_catalogues(f"gettext:sampleapp:{language}")) == 1


@pytest.mark.parametrize("name", ["Sample-Dist", "sample_dist"])
def test_name_of_a_distribution(site, name):
    (file,) = package_catalogues(f"gettext:{name}:de")
    assert file.endswith("odd.po")


@pytest.mark.parametrize("name", ["no_such_package", "no.such.package", "sampleapp.nothing"])
def test_absent_package_says_how_to_install_it(site, name):
    with pytest.raises(UsageError, match=rf"'{name}' is not installed: pip install {name}$"):
        package_catalogues(f"gettext:{name}:de")


def test_absent_language_lists_those_there_are(site):
    with pytest.raises(UsageError, match="'sampleapp' has no catalogue in 'fr'; its languages are: de, pt_BR"):
        package_catalogues("gettext:sampleapp:fr")


def test_package_without_catalogues(site):
    with pytest.raises(UsageError, match="'bareapp' has no gettext catalogues"):
        package_catalogues("gettext:bareapp:de")


@pytest.mark.parametrize("path", ["gettext:", "gettext:django", "gettext::de", "gettext:a/b:de", "gettext:.a:de"])
def test_malformed_path(path):
    with pytest.raises(UsageError, match="expected gettext:PACKAGE:LANG, for example"):
        package_catalogues(path)


@pytest.mark.slow
@pytest.mark.parametrize("package", ["django", "cms", "mercurial", "plone.app.locales", "trac", "wagtail"])
def test_every_installed_catalogue_is_read(package):
    files = [file for files in _by_language(_walk(_module_folders(package))).values() for file in files]
    if not files:
        pytest.skip("not installed")
    for file in files:
        rows = list(read_rows(BitextSpec(path=file)))
        assert {row.reason for row in rows} <= {None, "blank", "too_long"}, file


def test_format_must_fit(site):
    with pytest.raises(UsageError, match="is gettext, not tsv"):
        list_inputs(BitextSpec(path="gettext:sampleapp:de", format="tsv", columns=["source", "target"]))


def test_po_is_preferred_only_to_its_own_mo():
    files = ["a/x.mo", "a/x.po", "b/x.mo", "a/y.mo", "a/z.mo.gz", "a/z.po.xz"]
    assert prefer_po(files) == ["a/x.po", "b/x.mo", "a/y.mo", "a/z.po.xz"]
