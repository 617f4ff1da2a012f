"""Rules of plural forms: every broken one is none, and none runs as Python."""

from __future__ import annotations

import pytest

from mining.corpus.formats._gettext import plural_forms

HEADER = "Content-Type: text/plain\nPlural-Forms: {}\nX: y\n"


def test_singular_and_plural() -> None:
    assert plural_forms(HEADER.format("nplurals=2; plural=(n != 1);")) == (2, 0, 1)
    assert plural_forms(HEADER.format("nplurals = 2 ;plural = n>1")) == (2, 0, 1)
    assert plural_forms(HEADER.format("nplurals=2; plural=n > 100;")) == (2, 0, 1)
    romanian = "nplurals=3; plural=(n==1?0:(((n%100>19)||((n%100==0)&&(n!=0)))?2:1));"
    assert plural_forms(HEADER.format(romanian)) == (3, 0, 2)
    spanish = "nplurals=3; plural=n == 1 ? 0 : n != 0 && n % 1000000 == 0 ? 1 : 2;"
    assert plural_forms(HEADER.format(spanish)) == (3, 0, 2)


@pytest.mark.parametrize(
    "rule",
    [
        "nplurals=INTEGER; plural=EXPRESSION;",
        "nplurals=2; plural=;",
        "nplurals=2; plural=(n != 1;",
        "nplurals=2; plural=n;",
        "nplurals=2; plural=1/(n-5);",
        "nplurals=2; plural=n%0;",
        "nplurals=0; plural=0;",
        "nplurals=2; plural=-1;",
        "nplurals=2; plural=__import__('os').getpid();",
        "nplurals=2; plural=n**n**n;",
        f"nplurals=2; plural={'(' * 400}n{')' * 400};",
        f"nplurals=2; plural={'n+' * 2000}n;",
        "plural=n != 1; nplurals=2;",
    ],
)
def test_broken_rules(rule: str) -> None:
    assert plural_forms(HEADER.format(rule)) is None


def test_only_the_header_line_counts() -> None:
    assert plural_forms("X-Plural-Forms: nplurals=2; plural=n != 1;\n") is None
    assert plural_forms("") is None
