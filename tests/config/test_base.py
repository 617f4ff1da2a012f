"""What all settings have in common: names of before, registered names, descriptions."""

from types import MappingProxyType
from typing import Annotated

import pytest
from pydantic import Field

from mining.config.base import Settings, one_of, override, validate
from mining.errors import UsageError
from mining.registry import Registry


class Inner(Settings):
    renamed = MappingProxyType({"nearest": "nprobe"})

    nprobe: int = Field(default=10, gt=0)
    """lists that are looked at"""


class Outer(Settings):
    search: Inner = Inner()
    network: Annotated[str, one_of(Registry("package", "mining"), "auto")] = "auto"


def test_docstrings_are_descriptions():
    assert Inner.fields()["nprobe"].description == "lists that are looked at"


@pytest.mark.parametrize("name", ["auto", "errors"])
def test_a_registered_name_is_taken(name):
    assert validate(Outer, {"network": name}, "x").network == name


def test_another_name_is_refused_with_a_mend():
    with pytest.raises(UsageError, match=r"^x: network: unknown package 'eror': did you mean 'errors'"):
        validate(Outer, {"network": "eror"}, "x")


@pytest.mark.parametrize(("given", "flag"), [("nprobe", "nearest"), ("nearest", "nprobe"), ("nearest", "nearest")])
def test_a_flag_replaces_the_key_under_either_name(given, flag):
    data = override({"search": {given: 3}}, {f"search.{flag}": 5}, Outer)
    assert data == {"search": {flag: 5}}
    assert validate(Outer, data, "x").search.nprobe == 5


def test_a_key_under_both_names_is_refused():
    with pytest.raises(UsageError, match=r"unknown key 'search\.nearest'"):
        validate(Outer, {"search": {"nearest": 3, "nprobe": 5}}, "x")


def test_keys_that_fields_adds_are_known():
    class More(Settings):
        own: int = 1

        @classmethod
        def fields(cls):
            return {**cls.model_fields, "brought": Inner.model_fields["nprobe"]}

    with pytest.raises(UsageError, match="did you mean 'brought'"):
        validate(More, {"brougth": 1}, "x")
