"""The hash of what a kernel's machine code depends on."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from numba.core.dispatcher import Dispatcher

import mining
from mining.compiled.key import kernel_key

INNER = """
import numpy as np
from mining.compiled import compiled
from numba import types
from numba.extending import intrinsic
LIMIT = np.uint64(5)
TABLE = np.arange(4)

@intrinsic
def zero(context, number):
    def generate(context, builder, signature, arguments):
        return builder.sub(arguments[0], arguments[0])
    return types.int64(types.int64), generate

@compiled
def within(value, limit=7):
    return value < LIMIT + TABLE[1] + zero(3)
"""
OUTER = """
from mining.compiled import compiled
from inner import within

@compiled
def count(values):
    found = 0
    for value in values:
        if within(value):
            found += 1
    return found
"""


def _key(inner: str, outer: str = OUTER) -> str:
    """Key of `count` when its two modules have these sources."""
    modules = {name: ModuleType(name) for name in ("inner", "outer")}
    sys.modules["inner"] = modules["inner"]
    try:
        for name, source in (("inner", inner), ("outer", outer)):
            exec(compile(source, f"{name}.py", "exec"), modules[name].__dict__)
    finally:
        del sys.modules["inner"]
    return kernel_key(modules["outer"].__dict__["count"], ("types",), ("processor",))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("value < LIMIT", "value > LIMIT"),
        ("uint64(5)", "uint64(6)"),
        ("uint64(5)", "uint32(5)"),
        ("np.arange(4)", "np.arange(4) + 1"),
        ("np.arange(4)", "np.arange(4, dtype=np.int32)"),
        ("limit=7", "limit=8"),
        ("builder.sub", "builder.mul"),
        ("zero(3)", "zero(4)"),
    ],
)
def test_an_edit_of_what_a_kernel_calls_in_another_module_changes_its_key(old: str, new: str) -> None:
    assert old in INNER
    assert _key(INNER.replace(old, new)) != _key(INNER)


def test_an_edit_of_the_kernel_itself_changes_its_key() -> None:
    assert _key(INNER, OUTER.replace("found += 1", "found += 2")) != _key(INNER)


def test_an_edit_that_changes_no_code_leaves_the_key() -> None:
    assert _key("# a comment\n\n" + INNER.replace("@compiled", "# another\n@compiled")) == _key(INNER)


def test_what_stands_in_a_closure_is_in_the_key() -> None:
    def adding(number: float) -> Any:
        return lambda value: value + number

    assert len({kernel_key(adding(number), (), ()) for number in (1.0, 2.0, 2.0)}) == 2


def _recursive(number: int) -> int:
    return 1 if number < 1 else number * _recursive(number - 1)


def _calls(number: int) -> int:
    return _recursive(number)


def test_types_and_processor_are_in_the_key() -> None:
    keys = {kernel_key(_recursive, types, on) for types in (("int64",), ("int32",)) for on in (("a",), ("b",))}
    assert len(keys) == 4


@pytest.mark.parametrize("unknown", [object(), mining, {}, Path])
def test_what_may_change_unseen_is_refused_in_a_kernel(unknown: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_calls.__globals__, "_recursive", unknown)
    with pytest.raises(TypeError, match=f"a kernel cannot name {re.escape(repr(unknown))}"):
        kernel_key(_calls, (), ())


def test_the_key_is_the_same_in_every_process() -> None:
    code = """from tests.compiled.test_key import _key, INNER
print(_key(INNER.replace("value <", "value in {'one', 'two'} or value <")))"""
    keys = {
        subprocess.run(
            [sys.executable, "-c", code],
            env=os.environ | {"PYTHONHASHSEED": seed},
            cwd=Path(__file__).parents[2],
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(keys) == 1


def test_every_kernel_has_a_key_of_its_own() -> None:
    kernels = {}
    root = Path(mining.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "from mining.compiled import" in path.read_text(encoding="utf-8"):
            name = ".".join(["mining", *path.relative_to(root).with_suffix("").parts])
            module = importlib.import_module(name)
            kernels |= {id(value): value for value in vars(module).values() if isinstance(value, Dispatcher)}
    assert len(kernels) > 40
    assert len({kernel_key(kernel, (), ()) for kernel in kernels.values()}) == len(kernels)
